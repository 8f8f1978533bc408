"""The commands about nets of the CAI NEURAL API, as an entry point hands them to the command line."""

import typer

from cai_neural_api.commands import bakeoff, chat, generate, net, published, tokenizer

NETS = "Nets of the CAI NEURAL API"

app = typer.Typer()
app.command("generate", rich_help_panel=NETS)(generate.generate)
app.command("chat", rich_help_panel=NETS)(chat.chat)
app.command("bakeoff", rich_help_panel=NETS)(bakeoff.bakeoff)
app.command("published", rich_help_panel=NETS)(published.published)
app.add_typer(net.app, name="net", rich_help_panel=NETS)
app.add_typer(tokenizer.app, name="tokenizer", rich_help_panel=NETS)
