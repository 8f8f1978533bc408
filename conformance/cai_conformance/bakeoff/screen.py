"""Reports as lines for a terminal: a page a phase, then all phases in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cai_conformance.bakeoff.counting import distinct
from cai_conformance.bakeoff.data import BakeData
from cai_conformance.bakeoff.figures import PROMPTS, BakeFigure, quoted
from cai_conformance.bakeoff.phases import ArmName
from cai_conformance.bakeoff.publication import CONDITIONS, MEASURED_SOURCE, SOURCE
from cai_conformance.bakeoff.report import PhaseReport, RunReport
from cai_conformance.bakeoff.showdown import PromptResult
from cai_conformance.bakeoff.verdicts import Verdict, Word
from cai_conformance.nets.decoding import Difference
from cai_conformance.nets.screens import Column, Line, paragraph, table_lines

BLANK: Final = Line("")
MISSING: Final = "–"
GOOD: Final = "bold green"
BAD: Final = "bold red"
BOLD: Final = "bold"
DIM: Final = "dim"

FIGURE_COLUMNS: Final = (
    Column("figure", folded=True),
    Column("here", right=True),
    Column("published", right=True),
    Column("unit"),
)
ARM_COLUMNS: Final = (
    Column("arm", folded=True),
    Column("ms", right=True),
    Column("forwards", right=True),
    Column("ms/token", right=True),
    Column("published", right=True),
    Column("speedup", right=True),
    Column("published", right=True),
)
SUMMARY_COLUMNS: Final = (
    Column("phase"),
    Column("loss", right=True),
    Column("steps", right=True),
    Column("ex/s", right=True),
    Column("full", right=True),
    Column("fast", right=True),
    Column("times", right=True),
    Column("result", folded=True),
)
LEGEND: Final = (
    "loss: of the last batch. full, fast: milliseconds a token, all tokens encoded again, and the phase's own way. "
    "result: equal tokens, then verdicts."
)


def data_lines(data: BakeData, width: int) -> Iterator[Line]:
    """Yield what is trained on."""
    left_out = [f"{data.empty} empty", f"{data.too_large} with larger ids", f"{data.beyond} beyond the limit"]
    yield from paragraph(f"{len(data.rows)} rows of {data.source}", width, indent="")
    yield from paragraph(f"{data.read} read, left out: {', '.join(left_out)}", width, DIM)


def phase_lines(report: PhaseReport, width: int) -> Iterator[Line]:
    """Yield the page of a phase."""
    yield Line(f"Phase {report.phase.number}: {report.phase.title}", BOLD)
    yield from paragraph(f"training {report.course.sentence}", width)
    yield BLANK
    yield from _figures(report.figures, width)
    for result, text in zip(report.prompts, report.texts, strict=True):
        yield BLANK
        yield from _prompt(report, result, text, width)
    if report.verdicts or report.differences:
        yield BLANK
    for verdict in report.verdicts:
        yield from _verdict(verdict, width)
    for result, name, difference in report.differences:
        yield from paragraph(_difference(result, name, difference), width, BAD)
    yield BLANK
    yield Line(f"  phase {report.phase.number}: {report.word}", GOOD if report.identical and report.complete else BAD)


def summary_lines(run: RunReport, width: int) -> Iterator[Line]:
    """Yield all phases in one table, what is to be kept in mind about it, and what came of the run."""
    rows = [_summary(report) for report in run.phases]
    styles = ["" if report.identical and report.complete else BAD for report in run.phases]
    yield from table_lines(SUMMARY_COLUMNS, rows, width, styles)
    yield BLANK
    yield from paragraph(LEGEND, width, DIM)
    yield from paragraph(f"published: {SOURCE}; {CONDITIONS}", width, DIM)
    if any(figure.measured for report in run.phases for figure in report.figures):
        yield from paragraph(f"*: {MEASURED_SOURCE}", width, DIM)
    for caution in run.cautions:
        yield from paragraph(caution, width, BOLD)
    yield BLANK
    done = sum(report.complete and report.identical for report in run.phases)
    words = {0: "all arms token-identical", 1: "arms differ"}.get(run.exit_code, "interrupted")
    count = f"{run.asked} phase{'' if run.asked == 1 else 's'}: {done} token-identical."
    yield Line(f"{count} Exit {run.exit_code}: {words}.", BAD if run.exit_code else GOOD)


def _figures(figures: Sequence[BakeFigure], width: int) -> Iterator[Line]:
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    group = ""
    for figure in figures:
        if figure.group == PROMPTS:
            continue
        if figure.group != group:
            group = figure.group
            rows.append((f"{group}:", "", "", ""))
            styles.append(BOLD)
        rows.append((figure.name, figure.text, figure.beside, figure.unit))
        styles.append("")
    yield from table_lines(FIGURE_COLUMNS, rows, width, styles)


def _prompt(report: PhaseReport, result: PromptResult, text: str, width: int) -> Iterator[Line]:
    yield from paragraph(f"{quoted(result.prompt)} continues {quoted(text)}", width)
    rows = []
    for name in report.phase.arms:
        place = f"{quoted(result.prompt)}: {name}"
        found = [report.figure(f"{place}, {what}") for what in ("all", "forwards", "a token", "speedup")]
        total, forwards, each, speedup = (MISSING if figure is None else figure.text for figure in found)
        published = [MISSING if figure is None else figure.beside for figure in found[2:]]
        rows.append((name.value, total, forwards, each, published[0], speedup, published[1]))
    yield from table_lines(ARM_COLUMNS, rows, width)
    names = {figure.name for figure in report.figures if figure.group == PROMPTS}
    prefix = f"{quoted(result.prompt)}: "
    extras = [
        f"{name.removeprefix(prefix)} {figure.text}{figure.unit if figure.unit == '%' else ''}"
        for name in ("guesses accepted", "guesses right", "guesses proposed", "tokens a pass", "repeated trigrams")
        if prefix + name in names and (figure := report.figure(prefix + name)) is not None
    ]
    yield from paragraph("; ".join([_equality(result), *extras]), width)


def _equality(result: PromptResult) -> str:
    new = result.full.new
    equal = f"{len(new)} tokens, all arms equal" if not result.differences else "arms differ"
    margin = MISSING if result.margin is None else f"{result.margin:.6f}"
    return f"{equal}; {distinct(new)} distinct, smallest margin {margin}"


def _verdict(verdict: Verdict, width: int) -> Iterator[Line]:
    style = {Word.HOLDS: GOOD, Word.NOT_CONFIRMED: BOLD}.get(verdict.word, BOLD)
    yield from paragraph(f"{verdict.claim}: {verdict.word.value} ({verdict.reason})", width, style)


def _difference(result: PromptResult, name: ArmName, difference: Difference) -> str:
    def choice(token: int | None, margin: float | None) -> str:
        if token is None:
            return "nothing more"
        return f"{token}" if margin is None else f"{token} by {margin:.3g}"

    expected = choice(difference.expected, difference.expected_margin)
    found = choice(difference.found, difference.found_margin)
    return (
        f"{quoted(result.prompt)}, position {difference.position}: {ArmName.FULL} chooses {expected}, "
        f"{name} {found} (id and margin of its logit)"
    )


def _summary(report: PhaseReport) -> tuple[str, ...]:
    full, fast = report.phase.arms[0], report.phase.arms[-1]
    found = [
        report.figure(name) for name in (f"all: {full}, a token", f"all: {fast}, a token", f"all: {fast}, speedup")
    ]
    course = report.course
    return (
        f"{report.phase.number} {report.phase.title}",
        f"{course.loss:.2f}",
        str(course.steps),
        f"{course.throughput:.1f}",
        *(MISSING if figure is None else figure.text for figure in found),
        "; ".join([_equal_tokens(report), *(f"{each.claim} {each.word.value}" for each in report.verdicts)]),
    )


def _equal_tokens(report: PhaseReport) -> str:
    if not report.identical or not report.complete:
        return report.word
    tokens = sum(len(result.full.new) for result in report.prompts)
    return f"{tokens}/{tokens} equal"
