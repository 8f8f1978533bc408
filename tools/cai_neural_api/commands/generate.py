"""`cai-conform generate`: continue a text with a trained net of the CAI NEURAL API."""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform import options
from cai_conform.commands.compare import STANDARD_INPUT, read_file
from cai_conform.terminal import output, say, write_bytes
from cai_neural_api.choices import SamplerKind, Semantics
from cai_neural_api.commands.printing import ArithmeticName
from cai_neural_api.commands.tokenizer import without_last_line_end

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from cai_neural_api.chat import ChatContinuation, Drawing, Prompt, SamplerSettings, Writer


class TextFormat(StrEnum):
    """How continuations are printed."""

    TEXT = "text"
    JSON = "json"


NetPath = Annotated[Path, typer.Argument(metavar="NET.nn", help="A trained net.", show_default=False)]
VocabularyPath = Annotated[
    Path,
    typer.Option("--vocabulary", metavar="V", help="The vocabulary that the net was trained on.", show_default=False),
]
MaxNew = Annotated[
    int | None,
    typer.Option("--max-new", "-n", min=1, metavar="N", help="New tokens at most; up to the context if left out."),
]
SamplerOption = Annotated[
    SamplerKind, typer.Option("--sampler", help="greedy takes the likeliest token, the others draw one.")
]
SemanticsOption = Annotated[
    Semantics,
    typer.Option(
        "--semantics",
        help="library: what the library does, with the Mersenne Twister. standard: what is usual, with SplitMix64.",
    ),
]
K = Annotated[
    int | None,
    typer.Option(
        "--k",
        metavar="K",
        show_default="40",
        help="top-k: of the K likeliest; library: all K alike, standard: by odds.",
    ),
]
P = Annotated[
    float | None,
    typer.Option(
        "--p",
        metavar="P",
        show_default="0.9",
        help="top-p: of the likeliest up to a sum of P; library: alike, without the one that crosses P, standard: by "
        "odds, with it.",
    ),
]
Q = Annotated[
    float | None,
    typer.Option(
        "--q",
        metavar="Q",
        show_default="0.1",
        help="min-p: of those with Q times the highest odds, by odds; library and standard draw in different orders.",
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        metavar="T",
        show_default="1",
        help="Below 1 for likelier tokens, above for rarer ones; standard only, the library has none.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**64 - 1, metavar="S", help="Start of the generator; library: below 2^32.")
]
StopTexts = Annotated[
    list[str] | None,
    typer.Option("--stop", metavar="TEXT", help="End before this text, however it is cut into tokens. Repeatable."),
]
PromptText = Annotated[
    str | None, typer.Option("--prompt", metavar="TEXT", help="The text to continue. Standard input if left out.")
]
IdsOnly = Annotated[bool, typer.Option("--ids", help="Print ids as rows, as `tokenizer decode` reads them.")]
Count = Annotated[int, typer.Option("--count", min=1, metavar="N", help="How many continuations, from one generator.")]
Format = Annotated[
    TextFormat, typer.Option("--format", "-f", help="text, or JSON lines with ids, draws and the reason for the end.")
]


def generate(
    net: NetPath,
    vocabulary: VocabularyPath,
    prompt: PromptText = None,
    max_new: MaxNew = None,
    sampler: SamplerOption = SamplerKind.GREEDY,
    semantics: SemanticsOption = Semantics.LIBRARY,
    k: K = None,
    p: P = None,
    q: Q = None,
    temperature: Temperature = None,
    seed: Seed = 0,
    stop: StopTexts = None,
    ids: IdsOnly = False,
    count: Count = 1,
    arithmetic: ArithmeticName = "fast",
    output_format: Format = TextFormat.TEXT,
    color: options.Color = options.ColorChoice.AUTO,
) -> None:
    """Continue a text with a trained net.

    Prints the prompt and what comes behind it, with a line end: in a pipe byte
    for byte, on a terminal as it comes. The end is an id below 2, which is not
    printed, a text to stop at, --max-new tokens, or the end of the context. Ids
    that the vocabulary has not add no text.

    A line end at the end of standard input is not part of the prompt.

    The published nets learned lower-case text with spaces around punctuation,
    as in "one day , lily". Where the tokenizer changes a prompt, a line on
    standard error tells what the net reads.
    """
    from cai_neural_api.chat import ChatContinuation, SamplerSettings
    from cai_neural_api.errors import ChatInputError

    if ids and output_format is TextFormat.JSON:
        raise ChatInputError("setting-unused", option="--ids", chosen="--format json, which has the ids anyway")
    settings = SamplerSettings(sampler, semantics, k, p, q, temperature, seed)
    writer, drawing = load(net, vocabulary, settings, arithmetic)
    given = writer.prompt(_prompt_text(prompt))
    if given.loss:
        say(f"cai-conform: {given.loss}")
    console = output(color)
    for _ in range(count):
        made = ChatContinuation(writer, given, drawing, max_new, stop_texts(stop))
        if output_format is TextFormat.JSON:
            _finish(made)
            print(json.dumps(_as_object(given, made, settings), allow_nan=False))
        elif ids:
            _finish(made)
            print(",".join(map(str, (*given.ids, *made.ids))))
        elif console.is_terminal:
            show_as_it_comes(console, given, made, kept="\n\t")
        else:
            _finish(made)
            write_bytes(given.text + made.text + b"\n")


def load(net: Path, vocabulary: Path, settings: SamplerSettings, arithmetic: str) -> tuple[Writer, Drawing]:
    """Read net and vocabulary, and make the sampler.

    Raises:
        InputError, CaiReferenceError: a file or a number cannot be used.
    """
    from cai_neural_api.chat import Drawing, Writer
    from cai_reference.arithmetic.instances import named

    numbers = named(arithmetic)
    writer = Writer.load(net, vocabulary, numbers)
    return writer, Drawing.of(settings, writer.known, numbers)


def stop_texts(stop: list[str] | None) -> tuple[bytes, ...]:
    """Return the texts to stop at as bytes."""
    return tuple(os.fsencode(text) for text in stop or ())


def show_as_it_comes(
    console: Console,
    prompt: Prompt,
    made: ChatContinuation,
    kept: str = "",
    interrupted: Callable[[], bool] = lambda: False,
) -> None:
    """Print a prompt, dim, and behind it whole characters as they are completed; then a line end.

    Stops between two tokens once it is interrupted. Whatever happens meanwhile, the line is ended.
    """
    from rich.text import Text

    from cai_neural_api.chat import Characters

    def write(text: str, style: str = "") -> None:
        if text:
            console.print(Text(text, "" if console.no_color else style), end="", soft_wrap=True)
            console.file.flush()

    opening = Characters(kept)
    write(opening.push(prompt.text) + opening.finish(), "dim")
    characters = Characters(kept)
    try:
        for piece in made.pieces():
            write(characters.push(piece))
            if interrupted():
                break
    finally:
        write(characters.finish() + "\n")


def _finish(made: ChatContinuation) -> None:
    for _ in made.pieces():
        pass


def _prompt_text(prompt: str | None) -> bytes:
    if prompt is not None:
        return os.fsencode(prompt)
    if sys.stdin is not None and sys.stdin.isatty():
        say("cai-conform: type the text to continue; Ctrl-D on an empty line ends it")
    return without_last_line_end(read_file(STANDARD_INPUT))


def _as_object(prompt: Prompt, made: ChatContinuation, settings: SamplerSettings) -> dict[str, object]:
    return {
        "type": "continuation",
        "prompt": prompt.text.decode("utf-8", "replace"),
        "read_as": prompt.read_as.decode("utf-8", "replace"),
        "text": made.text.decode("utf-8", "replace"),
        "prompt_ids": list(prompt.ids),
        "ids": made.ids,
        "draws": made.draws,
        "end": made.end,
        "sampler": settings.kind,
        "semantics": settings.semantics,
        "seed": settings.seed,
    }
