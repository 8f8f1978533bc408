"""What came of a phase and of a run, ready for a screen or a file.

Reports as objects for JSON: one a phase, one a run. Nothing in them depends on where the run was made.

Reports as lines for a terminal: a page a phase, then all phases in one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rich.text import Text

from cai_conformance.report.terminal import Column, paragraph, right_columns, table_lines
from cai_neural_api.bakeoff.data import BakeData
from cai_neural_api.bakeoff.figures import PROMPTS, BakeFigure, quoted
from cai_neural_api.bakeoff.publication import CONDITIONS, MEASURED_SOURCE, SOURCE
from cai_neural_api.bakeoff.settings import ArmName, BakePhase, BakeSettings
from cai_neural_api.bakeoff.showdown import PromptResult
from cai_neural_api.bakeoff.training import Course
from cai_neural_api.bakeoff.verdicts import ClaimVerdict, Word, distinct
from cai_neural_api.decode.decoding import TokenDifference

EXACT: Final = "token-identical"
DIFFERENT: Final = "ARMS DIFFER"
INCOMPLETE: Final = "interrupted"

VARIED: Final = 8
"""Fewer distinct tokens than that are a loop that any two arms would agree on."""

INTERRUPTED: Final = 130
"""The exit code of a program that was interrupted, as shells count it: 128 and the number of SIGINT."""


@dataclass(frozen=True)
class PhaseReport:
    """One phase.

    Attributes:
        phase: which one.
        box: what ended its training, in words.
        course: how its training went.
        figures: in the order of the published output, groups together.
        prompts: what the arms made of each, as far as they came.
        texts: what is shown of each continuation.
        verdicts: by the published rules.
        complete: whether all arms ran on all prompts.
        net: where the trained net is.
    """

    phase: BakePhase
    box: str
    course: Course
    figures: tuple[BakeFigure, ...]
    prompts: tuple[PromptResult, ...]
    texts: tuple[str, ...]
    verdicts: tuple[ClaimVerdict, ...]
    complete: bool
    net: str

    @property
    def differences(self) -> tuple[tuple[PromptResult, ArmName, TokenDifference], ...]:
        """Every arm that left the full one, with the prompt and the place."""
        return tuple((result, name, found) for result in self.prompts for name, found in result.differences.items())

    @property
    def identical(self) -> bool:
        """Whether no arm left the full one."""
        return not any(result.differences for result in self.prompts)

    @property
    def word(self) -> str:
        """What came of it, in a word."""
        if not self.identical:
            return DIFFERENT
        return EXACT if self.complete else INCOMPLETE

    @property
    def margin(self) -> float | None:
        """The smallest margin of all choices, in logits."""
        return min((result.margin for result in self.prompts if result.margin is not None), default=None)

    @property
    def distinct(self) -> int:
        """How many different ids all continuations hold together."""
        return distinct([token for result in self.prompts for token in result.full.new])

    def figure(self, name: str) -> BakeFigure | None:
        """Return the figure of a name; None if there is none."""
        return next((figure for figure in self.figures if figure.name == name), None)


@dataclass(frozen=True)
class RunReport:
    """A run as far as it came.

    Attributes:
        settings, data: of all phases.
        phases: those that were begun.
        asked: how many were asked for.
    """

    settings: BakeSettings
    data: BakeData
    phases: Sequence[PhaseReport]
    asked: int

    @property
    def complete(self) -> bool:
        """Whether everything was done that was asked for."""
        return len(self.phases) == self.asked and all(report.complete for report in self.phases)

    @property
    def exit_code(self) -> int:
        """1 if arms differ, 130 if the run was interrupted, else 0; a verdict on a loss or a cost decides nothing."""
        if not all(report.identical for report in self.phases):
            return 1
        return 0 if self.complete else INTERRUPTED

    @property
    def cautions(self) -> Iterator[str]:
        """Why figures may not be held against the published ones."""
        if not self.data.comparable:
            yield "Trained on generated stories: losses, accepted guesses and texts do not compare with published ones."
        if self.settings.trainer.value != "legacy":
            yield "Trained by AdamW on the mean over real targets: losses do not compare with published ones."
        if not self.settings.published_size:
            yield "The nets are smaller than the published ones."
        uniform = [str(report.phase.number) for report in self.phases if report.prompts and report.distinct < VARIED]
        if uniform:
            yield (
                f"Phase {', '.join(uniform)}: fewer than {VARIED} distinct tokens in all continuations, so that equal "
                "tokens say little there; train for longer."
            )


Object = dict[str, object]


def phase_object(report: PhaseReport) -> Object:
    """Return a phase."""
    course = report.course
    return {
        "type": "phase",
        "phase": report.phase.number,
        "title": report.phase.title,
        "complete": report.complete,
        "token_identical": report.identical,
        "net": report.net,
        "training": {
            "limit": report.box,
            "ending": course.ending,
            "seconds": course.seconds,
            "steps": course.steps,
            "kept_step": course.kept,
            "thrown_away": course.thrown_away,
            "examples": course.examples,
            "first_loss": course.first_loss,
            "logged_loss": course.logged_loss,
            "loss": course.loss,
            "kept_loss": course.kept_loss,
            "validation_accuracy": course.accuracy,
        },
        "figures": [_figure(figure) for figure in report.figures],
        "prompts": [_prompt(result, text) for result, text in zip(report.prompts, report.texts, strict=True)],
        "differences": [
            {
                "prompt": result.prompt,
                "arm": name.value,
                "position": found.position,
                "full": found.expected,
                "found": found.found,
                "full_margin": found.expected_margin,
                "margin": found.found_margin,
            }
            for result, name, found in report.differences
        ],
        "verdicts": [
            {"claim": verdict.claim, "verdict": verdict.word.value, "reason": verdict.reason}
            for verdict in report.verdicts
        ],
    }


def summary_object(run: RunReport) -> Object:
    """Return a run in short: a few numbers a phase."""
    return {
        "type": "summary",
        "trainer": run.settings.trainer.value,
        "arithmetic": run.settings.arithmetic.identifier,
        "seed": run.settings.seed,
        "threads": run.settings.threads,
        "data": {
            "source": run.data.source,
            "rows": len(run.data.rows),
            "read": run.data.read,
            "empty": run.data.empty,
            "with_larger_ids": run.data.too_large,
            "beyond_the_limit": run.data.beyond,
        },
        "published": {"source": SOURCE, "conditions": CONDITIONS, "measured": MEASURED_SOURCE},
        "cautions": list(run.cautions),
        "phases": [_short(report) for report in run.phases],
        "asked": run.asked,
        "complete": run.complete,
        "exit_code": run.exit_code,
    }


def run_object(run: RunReport) -> Object:
    """Return a run with all that is known of its phases."""
    return {**summary_object(run), "phases": [phase_object(report) for report in run.phases]}


def _figure(figure: BakeFigure) -> Object:
    return {
        "group": figure.group,
        "figure": figure.name,
        "unit": figure.unit,
        "value": figure.value,
        "published": _number(figure.published),
        "measured": _number(figure.measured),
    }


def _number(text: str) -> float | None:
    return float(text.replace(",", "")) if text else None


def _prompt(result: PromptResult, text: str) -> Object:
    return {
        "prompt": result.prompt,
        "prompt_ids": list(result.full.prompt),
        "ids": list(result.full.new),
        "text": text,
        "distinct": distinct(result.full.new),
        "smallest_margin": result.margin,
        "arms": [
            {
                "arm": name.value,
                "tokens": len(run.new),
                "milliseconds": 1000.0 * run.seconds,
                "forwards": run.forwards,
                "prefill_forwards": run.prefill_forwards,
            }
            for name, run in result.runs.items()
        ],
    }


def _short(report: PhaseReport) -> Object:
    each = {name.value: report.figure(f"all: {name}, a token") for name in report.phase.arms}
    return {
        "phase": report.phase.number,
        "title": report.phase.title,
        "loss": report.course.loss,
        "steps": report.course.steps,
        "thrown_away": report.course.thrown_away,
        "stories_per_second": report.course.throughput,
        "milliseconds_per_token": {name: figure.value for name, figure in each.items() if figure is not None},
        "distinct": report.distinct,
        "smallest_margin": report.margin,
        "result": report.word,
        "verdicts": [verdict.word.value for verdict in report.verdicts],
    }


BLANK: Final = Text("")
MISSING: Final = "–"
GOOD: Final = "bold green"
BAD: Final = "bold red"
BOLD: Final = "bold"
DIM: Final = "dim"

FIGURE_COLUMNS: Final = (Column("figure", folded=True), *right_columns("here", "published"), Column("unit"))
ARM_COLUMNS: Final = (
    Column("arm", folded=True),
    *right_columns("ms", "forwards", "ms/token", "published", "speedup", "published"),
)
SUMMARY_COLUMNS: Final = (
    Column("phase"),
    *right_columns("loss", "steps", "ex/s", "full", "fast", "times"),
    Column("result", folded=True),
)
LEGEND: Final = (
    "loss: of the last batch. full, fast: milliseconds a token, all tokens encoded again, and the phase's own way. "
    "result: equal tokens, then verdicts."
)


def data_lines(data: BakeData, width: int) -> Iterator[Text]:
    """Yield what is trained on."""
    left_out = [f"{data.empty} empty", f"{data.too_large} with larger ids", f"{data.beyond} beyond the limit"]
    yield from paragraph(f"{len(data.rows)} rows of {data.source}", width, indent="")
    yield from paragraph(f"{data.read} read, left out: {', '.join(left_out)}", width, DIM)


def phase_lines(report: PhaseReport, width: int) -> Iterator[Text]:
    """Yield the page of a phase."""
    yield Text(f"Phase {report.phase.number}: {report.phase.title}", BOLD)
    yield from paragraph(f"training {report.course.sentence}", width)
    yield BLANK
    yield from _figures(report.figures, width)
    for result, text in zip(report.prompts, report.texts, strict=True):
        yield BLANK
        yield from _prompt_lines(report, result, text, width)
    if report.verdicts or report.differences:
        yield BLANK
    for verdict in report.verdicts:
        words = f"{verdict.claim}: {verdict.word.value} ({verdict.reason})"
        yield from paragraph(words, width, GOOD if verdict.word is Word.HOLDS else BOLD)
    for result, name, difference in report.differences:
        yield from paragraph(_difference(result, name, difference), width, BAD)
    yield BLANK
    yield Text(f"  phase {report.phase.number}: {report.word}", GOOD if report.identical and report.complete else BAD)


def summary_lines(run: RunReport, width: int) -> Iterator[Text]:
    """Yield all phases in one table, what is to be kept in mind about it, and what came of the run."""
    rows = [_summary_row(report) for report in run.phases]
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
    yield Text(f"{count} Exit {run.exit_code}: {words}.", BAD if run.exit_code else GOOD)


def _figures(figures: Sequence[BakeFigure], width: int) -> Iterator[Text]:
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    shown = [figure for figure in figures if figure.group != PROMPTS]
    for group, members in groupby(shown, lambda figure: figure.group):
        rows.append((f"{group}:", "", "", ""))
        rows.extend((figure.name, figure.text, figure.beside, figure.unit) for figure in members)
        styles.extend([BOLD, *[""] * (len(rows) - len(styles) - 1)])
    yield from table_lines(FIGURE_COLUMNS, rows, width, styles)


def _prompt_lines(report: PhaseReport, result: PromptResult, text: str, width: int) -> Iterator[Text]:
    yield from paragraph(f"{quoted(result.prompt)} continues {quoted(text)}", width)
    figures = {figure.name: figure for figure in report.figures if figure.group == PROMPTS}
    prefix = f"{quoted(result.prompt)}: "
    rows = []
    for name in report.phase.arms:
        found = [figures.get(f"{prefix}{name}, {what}") for what in ("all", "forwards", "a token", "speedup")]
        total, forwards, each, speedup = (MISSING if figure is None else figure.text for figure in found)
        published = [MISSING if figure is None else figure.beside for figure in found[2:]]
        rows.append((name.value, total, forwards, each, published[0], speedup, published[1]))
    yield from table_lines(ARM_COLUMNS, rows, width)
    new = result.full.new
    equal = f"{len(new)} tokens, all arms equal" if not result.differences else "arms differ"
    margin = MISSING if result.margin is None else f"{result.margin:.6f}"
    extras = [
        f"{what} {figure.text}{figure.unit if figure.unit == '%' else ''}"
        for what in ("guesses accepted", "guesses right", "guesses proposed", "tokens a pass", "repeated trigrams")
        if (figure := figures.get(prefix + what))
    ]
    yield from paragraph("; ".join([f"{equal}; {distinct(new)} distinct, smallest margin {margin}", *extras]), width)


def _difference(result: PromptResult, name: ArmName, difference: TokenDifference) -> str:
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


def _summary_row(report: PhaseReport) -> tuple[str, ...]:
    full, fast, course = report.phase.arms[0], report.phase.arms[-1], report.course
    found = [report.figure(f"all: {what}") for what in (f"{full}, a token", f"{fast}, a token", f"{fast}, speedup")]
    tokens = sum(len(result.full.new) for result in report.prompts)
    equal = f"{tokens}/{tokens} equal" if report.identical and report.complete else report.word
    return (
        f"{report.phase.number} {report.phase.title}",
        f"{course.loss:.2f}",
        str(course.steps),
        f"{course.throughput:.1f}",
        *(MISSING if figure is None else figure.text for figure in found),
        "; ".join([equal, *(f"{each.claim} {each.word.value}" for each in report.verdicts)]),
    )
