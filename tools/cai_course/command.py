"""`cai-conform course`: the published traces of the course's later chapters, from the reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cai_conform.commands.compare import read_file
from cai_conform.options import JUDGING
from cai_conform.terminal import progress, say, write_bytes
from cai_course.errors import CourseError

if TYPE_CHECKING:
    from cai_course.chapter_39 import CourseCorpus
    from cai_course.chapters import Chapter
    from cai_reference.arithmetic import Arithmetic

app = typer.Typer()

ChapterNumber = Annotated[
    int | None, typer.Argument(metavar="[CHAPTER]", help="A chapter; the list of chapters if left out.")
]
ArithmeticChoice = Annotated[
    str,
    typer.Option(
        "--arithmetic", "-a", metavar="NAME", help="libm, which printed the published digits, strict or fast."
    ),
]
CorpusFile = Annotated[
    Path | None, typer.Option("--corpus", metavar="FILE", help="The course's corpus (JSON), for chapter 39.")
]
SplitsFile = Annotated[
    Path | None, typer.Option("--splits", metavar="FILE", help="The split manifest of the corpus (JSON).")
]
OutputFile = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead; chapter 35 needs one.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file at --output.")]
CheckedFile = Annotated[
    str | None,
    typer.Option("--check", metavar="FILE", help="Print the first difference of a published file; - reads a pipe."),
]


@app.command("course", rich_help_panel=JUDGING)
def course(
    chapter: ChapterNumber = None,
    arithmetic: ArithmeticChoice = "libm",
    corpus: CorpusFile = None,
    splits: SplitsFile = None,
    output: OutputFile = None,
    force: Force = False,
    check: CheckedFile = None,
) -> None:
    """Print the published trace of a chapter of the course, computed by the reference; 35 is a checkpoint file.

    Compare it with the course's own file, byte for byte: --check does. Exit code 1 if they differ.
    """
    from cai_course import chapters
    from cai_reference.arithmetic.instances import named

    if chapter is None:
        _list()
        return
    found = chapters.find_chapter(chapter)
    computed = named(arithmetic)
    if output is not None:
        from cai_conformance.fixtures.files import check_output

        check_output(output, force=force)
    given = _corpus(found, corpus, splits)
    expected = None if check is None else read_file(check)
    if check is None and output is None and not found.is_text:
        raise CourseError("file-not-text", number=found.number)
    with progress(f"chapter {found.number}"):
        data = chapters.chapter_bytes(found, computed, given)
    _note(computed)
    if output is not None:
        from cai_conformance.fixtures.files import write_file

        write_file(output, data)
        say(f"cai-conform: {output}: {len(data)} bytes")
    if expected is not None:
        _report(found, computed, check or "", data, expected)
    elif output is None:
        write_bytes(data)


def _list() -> None:
    from cai_course.chapters import CHAPTERS

    for chapter in CHAPTERS.values():
        notes = "" if chapter.is_text else ", a file of bytes"
        notes += ", needs --corpus and --splits" if chapter.needs_corpus else ""
        print(f"{chapter.number}  {chapter.title}{notes}")


def _corpus(chapter: Chapter, corpus: Path | None, splits: Path | None) -> CourseCorpus | None:
    """Read the corpus where the chapter wants one, and refuse it where it does not."""
    from cai_conformance.run.questions import read_limited
    from cai_course.chapter_39 import CourseCorpus

    options_given = {"--corpus": corpus, "--splits": splits}
    if not chapter.needs_corpus:
        for option, path in options_given.items():
            if path is not None:
                raise CourseError("corpus-not-read", number=chapter.number, option=option)
        return None
    if corpus is None or splits is None:
        missing = " and ".join(option for option, path in options_given.items() if path is None)
        raise CourseError("corpus-needed", number=chapter.number, missing=missing)
    return CourseCorpus.of(read_limited(corpus), read_limited(splits))


def _report(chapter: Chapter, arithmetic: Arithmetic, name: str, ours: bytes, theirs: bytes) -> None:
    """Print the first difference, and end with the exit code."""
    from cai_conformance.report.terminal import printable
    from cai_course.chapters import compared

    comparison = compared(ours, theirs, is_text=chapter.is_text)
    shown = "standard input" if name == "-" else name
    if comparison.equal:
        print(f"{shown}: chapter {chapter.number}, equal in all {len(ours):,} bytes to {arithmetic.identifier}")
        return
    print(f"{shown}: {comparison.place} differs from chapter {chapter.number} in {arithmetic.identifier}")
    print(f"  expected  {printable(comparison.expected)}")
    print(f"  found     {printable(comparison.found)}")
    raise typer.Exit(1)


def _note(arithmetic: Arithmetic) -> None:
    """Say so where the published digits cannot be expected of this machine."""
    from cai_reference.arithmetic.instances import LIBM
    from cai_reference.arithmetic.selftest import c_library_selftest

    library = c_library_selftest()
    if arithmetic is LIBM and not library.passed:
        differing = ", ".join(library.differing)
        say(f"cai-conform: {library.library} rounds {differing} otherwise than the published C library")
