"""`cai-conform net`: nets of the CAI NEURAL API, outlined, verified, decoded, imported and exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.terminal import output, progress
from cai_neural_api.commands.printing import ArithmeticName, Format, as_table, print_lines, print_objects

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(
    name="net", help="Nets of the CAI NEURAL API: .nn files, whichever program wrote them.", no_args_is_help=True
)


NetPath = Annotated[Path, typer.Argument(metavar="FILE.nn", help="A net.", show_default=False)]
SamplePath = Annotated[
    Path, typer.Argument(metavar="FILE.json", help="What was measured on it; its siblings are used, too.")
]
Layers = Annotated[bool, typer.Option("--layers", "-l", help="Every layer, instead of a line a class.")]
VocabularyFile = Annotated[
    Path, typer.Option("--vocabulary", metavar="V", help="The vocabulary, one token a line.", show_default=False)
]
Prompts = Annotated[
    list[str], typer.Option("--prompt", "-p", metavar="TEXT", help="A prompt; give several, if you like.")
]
NewTokens = Annotated[int, typer.Option("--max-new", metavar="N", help="New tokens at most.")]
DraftFile = Annotated[
    Path | None, typer.Option("--draft", metavar="DRAFT.nn", help="A net that guesses ahead, to speculate with.")
]
Block = Annotated[int, typer.Option("--block", metavar="N", help="Guesses a pass; prompts go in by a token more.")]
WeightsOutput = Annotated[
    Path, typer.Option("--output", "-o", metavar="WEIGHTS.safetensors", help="Where the weights are written.")
]
NetOutput = Annotated[Path, typer.Option("--output", "-o", metavar="FILE.nn", help="Where the net is written.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file at --output.")]
Source = Annotated[str, typer.Argument(metavar="SOURCE", help="A weights file, a suite, phase1 to phase9 or draft.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, metavar="S", help="Of the initial values of phase1 ... draft.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only what did not pass, and the summary.")]


LARGEST_TOLERANCE = 1e9


def _tolerance(of: str) -> object:
    # Infinity would let values pass that are missing.
    return typer.Option(min=0.0, max=LARGEST_TOLERANCE, metavar="ERROR", help=f"The largest error of {of} that passes.")


RowTolerance = Annotated[float, _tolerance("output probabilities")]
GradientTolerance = Annotated[float, _tolerance("gradients, relative to the largest of their layer,")]
WeightTolerance = Annotated[float, _tolerance("weights after a fit")]
ReportTolerance = Annotated[float, _tolerance("the losses and errors of fit steps")]


@app.command()
def show(
    file: NetPath, layers: Layers = False, output_format: Format = None, color: options.Color = options.ColorChoice.AUTO
) -> None:
    """Tell what a net is: its layers, sizes, memory and caches, and which decoder. Nothing is run."""
    from cai_neural_api.exchange import read_net
    from cai_neural_api.outline import outline_lines, outline_net, outline_objects

    found = outline_net(read_net(file))
    console = output(color)
    if as_table(output_format, console):
        print_lines(console, outline_lines(str(file), found, console.width, layers=layers))
    else:
        print_objects(outline_objects(str(file), found, layers=layers))


@app.command()
def verify(
    file: NetPath,
    sample: SamplePath,
    tolerance_rows: RowTolerance = 1e-5,
    tolerance_gradients: GradientTolerance = 5e-5,
    tolerance_weights: WeightTolerance = 5e-5,
    tolerance_reports: ReportTolerance = 5e-5,
    arithmetic: ArithmeticName = "fast",
    output_format: Format = None,
    color: options.Color = options.ColorChoice.AUTO,
    quiet: Quiet = False,
) -> None:
    """Run a net and compare it with what the library measured: outputs, tokens, sessions, gradients, fits.

    Exit code 1 if a value is over its tolerance, 2 if a file cannot be used.
    """
    from cai_neural_api.verify.verification import Tolerances, verification_lines, verification_objects, verify_net
    from cai_reference.arithmetic.instances import named

    tolerances = Tolerances(tolerance_rows, tolerance_gradients, tolerance_weights, tolerance_reports)
    found = verify_net(file, sample, tolerances, named(arithmetic))
    console = output(color)
    if as_table(output_format, console):
        print_lines(console, verification_lines(found, console.width, quiet=quiet))
    else:
        print_objects(verification_objects(found, quiet=quiet))
    raise typer.Exit(0 if found.passed else 1)


@app.command()
def decode(
    file: NetPath,
    vocabulary: VocabularyFile,
    prompt: Prompts,
    max_new: NewTokens = 40,
    draft: DraftFile = None,
    block: Block = 4,
    arithmetic: ArithmeticName = "fast",
    output_format: Format = None,
    color: options.Color = options.ColorChoice.AUTO,
) -> None:
    """Continue prompts greedily, in every way that the net allows, and compare the tokens.

    Exit code 1 if an exact way has other tokens than encoding everything again.
    """
    from cai_conformance.verdicts import WALL
    from cai_neural_api.decode.arm_list import ArmList, DecodeSettings
    from cai_neural_api.decode.decoding import decode, decoding_lines, decoding_objects
    from cai_neural_api.exchange import read_net
    from cai_neural_api.texts import prompt_ids, read_vocabulary, shown_text
    from cai_reference.arithmetic.instances import named

    settings, how = DecodeSettings(max_new, block), named(arithmetic)
    arms = ArmList(read_net(file), how, settings, WALL, None if draft is None else read_net(draft))
    tokens = read_vocabulary(vocabulary, arms.heads.vocabulary)
    prompts = [prompt_ids(tokens, text, number) for number, text in enumerate(prompt, 1)]
    with progress("decoding", len(prompts) * len(arms.arms)) as advance:
        found = decode(arms, prompts, advance)

    def spell(ids: Sequence[int]) -> str:
        return shown_text(tokens, ids)

    console = output(color)
    if as_table(output_format, console):
        print_lines(console, decoding_lines(found, prompt, spell, console.width))
    else:
        print_objects(decoding_objects(found, prompt, spell))
    raise typer.Exit(0 if found.passed else 1)


@app.command("import")
def import_net(file: NetPath, output_file: WeightsOutput, force: Force = False) -> None:
    """Turn a net into a weights file in binary64, if it is a decoder or draft of the family. Every value is kept."""
    from cai_conformance.fixtures.files import check_output
    from cai_neural_api import exchange
    from cai_neural_api.outline import architecture_words

    check_output(output_file, force=force, source=file)
    model = exchange.import_net(exchange.read_net(file))
    exchange.write_weights(output_file, model)
    values = sum(parameter.value.size for parameter in model.parameters)
    print(f"{output_file}: {architecture_words(model.configuration)}")
    print(f"{values:,} values, all as they were")


@app.command()
def export(source: Source, output_file: NetOutput, seed: Seed = 424242, force: Force = False) -> None:
    """Turn a source into a net that the library loads: rounded to binary32.

    A suite gives its golden weights; phase1 to phase9 and draft are of the published size, with the initial values that
    the library draws from the seed.
    """
    from cai_conformance.fixtures.files import check_output
    from cai_neural_api.exchange import export_source, write_net

    check_output(output_file, force=force, source=source)
    net, rounding = export_source(source, seed)
    write_net(output_file, net)
    # The library does not count biases among the weights.
    weights = sum(neuron.weights.size for neurons in net.neurons for neuron in neurons)
    print(f"{output_file}: {len(net.specs)} layers, {weights:,} weights")
    print(rounding)
