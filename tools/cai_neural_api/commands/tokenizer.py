"""`cai-conform tokenizer`: fit the vocabulary of the CAI NEURAL API's tokenizer, and code with one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform.commands.compare import STANDARD_INPUT, read_file
from cai_conform.terminal import progress, say, write_bytes

if TYPE_CHECKING:
    from cai_neural_api.tokenizer import Rows, Vocabulary

app = typer.Typer(
    help="The tokenizer of the CAI NEURAL API, defects included: what it fits, encodes and decodes, byte for byte.",
    no_args_is_help=True,
)

TextFile = Annotated[str, typer.Argument(metavar="FILE", help="The text to fit to; - reads standard input.")]
Size = Annotated[int, typer.Option("--size", min=129, metavar="N", help="Ids at most, the 128 of bytes included.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, metavar="S", help="Seed of the generator that breaks ties.")
]
Output = Annotated[str, typer.Option("--output", "-o", metavar="V", help="Where the vocabulary is written.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file at --output.")]
VocabularyFile = Annotated[
    str, typer.Option("--vocabulary", metavar="V", help="The vocabulary, one token a line.", show_default=False)
]
Text = Annotated[str | None, typer.Argument(metavar="[TEXT]", help="The text. Standard input if left out.")]
TextSource = Annotated[str | None, typer.Option("--file", metavar="FILE", help="A file with the text instead.")]
LineByLine = Annotated[bool, typer.Option("--rows", help="Every line is a text: print a row of ids for each.")]
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Ids. Rows of ids on standard input if left out.")
]


@app.command()
def fit(file: TextFile, size: Size, output: Output, seed: Seed = 0, force: Force = False) -> None:
    """Fit a vocabulary to a text as the library does.

    The file is written in one step, after the fit: an interrupted fit leaves nothing.
    An existing file is replaced only with --force.
    There are fewer tokens than asked for where merges make the same token, or where no pairs are left to merge.
    """
    from cai_conformance.fixtures.files import check_output, write_file
    from cai_neural_api.mersenne import MersenneTwister
    from cai_neural_api.tokenizer import fit as fit_vocabulary
    from cai_neural_api.tokenizer.vocabulary import SINGLE_BYTES

    check_output(output, force=force, source=None if file == STANDARD_INPUT else file)
    text = _read(file)
    with progress(f"fitting {file}", size - SINGLE_BYTES) as move, _readable(file, "reserved-byte"):
        vocabulary = fit_vocabulary(text, size, MersenneTwister(seed), lambda: move(""))
    write_file(output, vocabulary.format())
    tokens = len(vocabulary.entries)
    print(f"{output}: {tokens} token{'' if tokens == 1 else 's'}, {vocabulary.size} ids of at most {size}")


@app.command()
def encode(vocabulary: VocabularyFile, text: Text = None, file: TextSource = None, rows: LineByLine = False) -> None:
    """Print the ids of a text as one row, separated by commas.

    A line end at the end of a file or of standard input is not part of the text; any other is. With --rows, every line
    is a text of its own.
    """
    from cai_neural_api.tokenizer import encode as encode_text
    from cai_neural_api.tokenizer import encode_lines, format_rows

    tokens = _vocabulary(vocabulary)
    data = _text(text, file)
    with _readable("the text" if text is not None else file or STANDARD_INPUT, "reserved-byte"):
        if rows:
            found = encode_lines(tokens, data)
        else:
            found = (tuple(encode_text(tokens, data if text is not None else without_last_line_end(data))),)
    write_bytes(format_rows(found))


@app.command()
def decode(vocabulary: VocabularyFile, ids: Ids = None) -> None:
    """Print the text that ids stand for, as it is: ids given as arguments without a line end, rows with one each.

    Ids that the vocabulary does not have stand for nothing, as in the library; their number is told.
    """
    from cai_neural_api.tokenizer import decode as decode_ids

    tokens = _vocabulary(vocabulary)
    rows = _rows("the ids", os.fsencode(",".join(ids)) + b"\n") if ids else _rows(STANDARD_INPUT, _read(STANDARD_INPUT))
    unknown = sum(token >= tokens.size for row in rows for token in row)
    end = b"" if ids else b"\n"
    write_bytes(b"".join(decode_ids(tokens, row) + end for row in rows))
    if unknown:
        beyond = "1 id is" if unknown == 1 else f"{unknown} ids are"
        say(f"cai-conform: {beyond} not among the {tokens.size} of {vocabulary!r} and left out")


def _read(path: str) -> bytes:
    """Read a file or standard input."""
    from cai_conformance.fixtures import files

    return read_file(path) if path == STANDARD_INPUT else files.read_file(path)


def _vocabulary(path: str) -> Vocabulary:
    from cai_conformance.fixtures import files
    from cai_neural_api.tokenizer import Vocabulary

    data = files.read_file(path)
    with _readable(path):
        return Vocabulary.parse(data)


def _rows(name: str, data: bytes) -> Rows:
    from cai_neural_api.tokenizer import parse_rows

    with _readable(name):
        return parse_rows(data)


@contextmanager
def _readable(name: str, code: str | None = None) -> Iterator[None]:
    """Say of what that the tokenizer cannot read it, for one reason or for any."""
    from cai_conformance.errors import InputError
    from cai_neural_api.errors import LegacyTokenizerError

    try:
        yield
    except LegacyTokenizerError as error:
        if code is not None and error.code != code:
            raise
        raise InputError("input-unreadable", path=name, problem=str(error)) from None


def _text(text: str | None, file: str | None) -> bytes:
    from cai_conformance.errors import InputError

    if text is None:
        return _read(STANDARD_INPUT if file is None else file)
    if file is not None:
        problem = "a text is given beside the file; leave one of them out"
        raise InputError("input-unreadable", path=file, problem=problem)
    return os.fsencode(text)


def without_last_line_end(data: bytes) -> bytes:
    """Return a text without the line end behind it."""
    return data.removesuffix(b"\n").removesuffix(b"\r") if data.endswith(b"\n") else data
