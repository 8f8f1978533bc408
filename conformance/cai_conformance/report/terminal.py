"""The report for people at a terminal: a table a suite, what went wrong below it, one verdict at the end.

The layout is done here, line by line, because it has one rule that table widgets don't keep: a check id stays whole.
Nothing else is assumed of the terminal than ASCII; what comes from outside is made harmless first.

Text and tables that fit a terminal: made harmless, measured in cells, folded or clipped between words.

Check ids are never cut, whatever the width: a cut id cannot be copied. No line ends in spaces. Nothing here knows about
verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cai_conformance.report import words
from cai_conformance.verdicts import Outcome, Report, Verdict

INDENT: Final = "  "
NARROWEST: Final = 10
"""A folded column gets no narrower than that, even if lines then stick out."""

_LAYOUT = Console(color_system=None, width=80)


@dataclass(frozen=True)
class Column:
    """A column: its heading, and whether numbers are aligned to the right, and cells folded to fit."""

    heading: str
    right: bool = False
    folded: bool = False


def right_columns(*headings: str) -> tuple[Column, ...]:
    """Return columns of numbers."""
    return tuple(Column(heading, right=True) for heading in headings)


def printable(text: str, encoding: str = "utf-8") -> str:
    r"""Text on one line, with everything that could disturb a terminal spelt as an escape.

    White space of any kind becomes one space; control, format and surrogate characters, and what `encoding` cannot
    express, become `\x1b`, `\u202e` and the like.
    """
    words = " ".join(text.split())
    visible = "".join(char if char.isprintable() else char.encode("unicode-escape").decode("ascii") for char in words)
    return visible.encode(encoding, "backslashreplace").decode(encoding)


def fold(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken between words.

    A word that is wider than a line is cut, unless it holds a check id (`::`): then lines are as wide as it is.
    """
    width = max([width, *(cell_len(word) for word in text.split(" ") if "::" in word)])
    return [line.plain.rstrip() for line in Text(text).wrap(_LAYOUT, width, overflow="fold")] or [""]


def clip(text: str, width: int) -> str:
    """As many whole words as fit into `width` cells, with `...` in place of the rest.

    A first word that does not fit is cut itself, unless it holds a check id.
    """
    if cell_len(text) <= width:
        return text
    kept = ""
    for word in text.split(" "):
        longer = f"{kept} {word}" if kept else word
        if cell_len(longer) + len(" ...") > width:
            break
        kept = longer
    if kept:
        return f"{kept} ..."
    word = text.split(" ")[0]
    return "..." if "::" in word else chop_cells(word, width - len("..."))[0] + "..."


def widest_word(text: str) -> int:
    """The cells that the widest word of the text takes."""
    return max(cell_len(word) for word in text.split(" "))


def paragraph(
    text: str, width: int, style: str = "", indent: str = INDENT, hanging: str | None = None
) -> Iterator[Text]:
    """Yield a text as lines of at most `width` cells, others than the first behind `hanging` if given."""
    behind = indent if hanging is None else hanging
    for place, line in enumerate(fold(printable(text), max(NARROWEST, width - cell_len(behind)))):
        yield Text((behind if place else indent) + line, style)


def table_lines(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int,
    styles: Sequence[str] | None = None,
    indent: str = INDENT,
) -> Iterator[Text]:
    """Yield the headings, if there are any, and a line a row, more where a cell is folded; `styles` are of the rows."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
        show_header=any(column.heading for column in columns),
    )
    rows = [[printable(cell) for cell in row] for row in rows]
    # Rich would cut what cannot be folded where the width is not enough; here the line sticks out.
    least = len(indent) + 2 * (len(columns) - 1)
    for place, column in enumerate(columns):
        widest = max([cell_len(column.heading), *(cell_len(row[place]) for row in rows)])
        least += NARROWEST if column.folded else widest
        table.add_column(
            column.heading,
            justify="right" if column.right else "left",
            overflow="fold",
            width=None if column.folded else widest,
            no_wrap=not column.folded,
        )
    for row, style in zip(rows, styles or [""] * len(rows), strict=True):
        table.add_row(*(Text(cell) for cell in row), style=style)
    options = _LAYOUT.options.update(width=max(width, least))
    for segments in _LAYOUT.render_lines(Padding(table, (0, 0, 0, len(indent)), expand=False), options):
        line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
        line.rstrip()
        yield line


MAX_DIFFERENCES = 10
"""How many differences of one check are printed; the rest are counted."""

_STYLES = {
    Outcome.PASS: "green",
    Outcome.NEAR_TIE: "cyan",
    Outcome.XFAIL: "yellow",
    Outcome.SKIPPED: "yellow",
    Outcome.FAIL: "bold red",
    Outcome.XPASS: "bold red",
    Outcome.BLOCKED: "bold magenta",
    Outcome.ERRORED: "bold red",
}
_MARGIN = "  "
_GAP = "  "
_LEVEL = len("level")
_VERDICT = len("near_tie")
_SECONDS = len("seconds")
_LEAST_MESSAGE = 28
_LEAST_WIDTH = 40
_MANY = 4
"""From how many checks on a common reason of a skip is told once."""


def render_table(report: Report, console: Console, verbose: int) -> None:
    """Print a report on a terminal, within its width.

    `verbose` below 0 leaves only what is not a pass and the summary; above 0 adds versions, seconds, whole messages of
    passes and the differences behind near ties and expected failures. Bad verdicts are printed in capitals, so that
    nothing depends on colour.
    """
    for line in _Page(report, console, verbose).lines():
        console.print(line, soft_wrap=True)


@dataclass(frozen=True)
class _Columns:
    """The widths, in cells, of the two columns that depend on the report and the terminal."""

    check: int
    message: int
    timed: bool

    @property
    def before_message(self) -> int:
        """Where the message column starts."""
        seconds = _SECONDS + len(_GAP) if self.timed else 0
        return len(_MARGIN) + self.check + _LEVEL + _VERDICT + seconds + 3 * len(_GAP)


@dataclass(frozen=True)
class _Page:
    """One report on its way to one console."""

    report: Report
    console: Console
    verbose: int

    def lines(self) -> Iterator[Text]:
        """All lines, top to bottom, none of them with spaces at its end."""
        if self.verbose >= 0:
            yield from self._heading()
        columns = self._columns()
        for suite, verdicts in words.by_suite(self.report).items():
            shown = [v for v in verdicts if self.verbose >= 0 or v.outcome is not Outcome.PASS]
            if shown:
                yield from self._suite(suite, shown, columns)
        for verdict in self.report.verdicts:
            if self._expanded(verdict):
                yield from self._details(verdict)
        if self.verbose >= 0 and self.report.notes:
            for note in self.report.notes:
                yield from self._folded(f"note: {self._clean(note)}", "", "yellow")
            yield Text()
        yield from self._summary()

    def _heading(self) -> Iterator[Text]:
        versions = self.report.versions
        backend = self._clean(self.report.backend)
        common = f"grammar {versions.grammar}, protocol {versions.protocol}, arithmetic {versions.arithmetic}"
        yield from self._filled([("backend", ""), (f"{backend}:", "bold"), *_styled_words(self._clean(common), "dim")])
        yield Text()

    def _suite(self, suite: str, verdicts: list[Verdict], columns: _Columns) -> Iterator[Text]:
        heading = Text(self._clean(suite), "bold")
        versions = self.report.versions
        known = [
            f"{name} {version[suite]}"
            for name, version in (("suite", versions.suites), ("vectors", versions.vectors))
            if suite in version
        ]
        if known and self.verbose >= 0:
            heading.append(_GAP + self._clean(", ".join(known)), "dim")
        yield heading
        if self.verbose >= 0:
            yield self._column_names(columns)
        folded = self._folded_reasons(verdicts)
        for verdict in verdicts:
            if not (verdict.outcome is Outcome.SKIPPED and verdict.message in folded):
                yield from self._row(verdict, columns)
        for reason, count in folded.items():
            yield from self._folded(f"{words.counted(count, 'check')} skipped: {self._clean(reason)}", _MARGIN)
        yield Text()

    def _folded_reasons(self, verdicts: list[Verdict]) -> dict[str, int]:
        """Return the reasons for which many checks were skipped; these are told once, unless all is asked for."""
        if self.verbose > 0:
            return {}
        skips = [verdict for verdict in verdicts if verdict.outcome is Outcome.SKIPPED]
        told = Counter(verdict.message for verdict in skips if not words.is_required_skip(self.report, verdict))
        return {reason: count for reason, count in told.items() if count >= _MANY}

    def _column_names(self, columns: _Columns) -> Text:
        names = [
            set_cell_size("check", columns.check),
            set_cell_size("level", _LEVEL),
            set_cell_size("verdict", _VERDICT),
        ]
        if columns.timed:
            names.append("seconds")
        return Text(_MARGIN + _GAP.join([*names, "message"]), "dim")

    def _row(self, verdict: Verdict, columns: _Columns) -> Iterator[Text]:
        name = self._clean(words.local_id(verdict))
        line = Text(_MARGIN)
        if cell_len(name) > columns.check:
            yield Text(_MARGIN + name)
            name = ""
        line.append(set_cell_size(name, columns.check) + _GAP + set_cell_size(verdict.level.value, _LEVEL) + _GAP)
        line.append(set_cell_size(self._word(verdict), _VERDICT), self._style(verdict))
        if columns.timed:
            line.append(_GAP + f"{verdict.seconds:{_SECONDS}.3f}")
        message = self._clean(words.sentence(self.report, verdict))
        passed = verdict.outcome is Outcome.PASS
        if passed and self.verbose > 0 and verdict.met:
            message += " " + self._clean(f"(met {words.met(verdict)})")
        below: list[str] = []
        if self._expanded(verdict) or (passed and self.verbose <= 0):
            message = clip(message, columns.message)
        elif widest_word(message) > columns.message:
            # A digest or an id that the column would have to cut gets the whole line below instead.
            below = [_MARGIN * 2 + part for part in fold(message, self._width - 2 * len(_MARGIN))]
            message = ""
        else:
            message, *rest = fold(message, columns.message)
            below = [" " * columns.before_message + part for part in rest]
        line.append(_GAP + message, "dim" if passed else "")
        line.rstrip()
        yield line
        yield from (Text(part) for part in below)

    def _details(self, verdict: Verdict) -> Iterator[Text]:
        line = Text(self._word(verdict), self._style(verdict))
        line.append(" " + self._clean(verdict.check), "bold")
        yield line
        yield from self._folded(f"{verdict.level} {verdict.level.meaning}: {self._clean(verdict.message)}", _MARGIN)
        if expectation := self._clean(words.explanation(verdict)):
            yield from self._folded(f"expected to fail: {expectation}", _MARGIN)
        for part in verdict.explanation.lines if verdict.explanation else ():
            yield from self._folded(self._clean(part), _MARGIN * 2)
        shown = verdict.differences[:MAX_DIFFERENCES]
        for number, difference in enumerate(shown, start=1):
            mark = f"{number:>4}. "
            head, *rest = fold(self._clean(str(difference)), self._width - len(mark))
            yield Text(mark + head)
            yield from (Text(" " * len(mark) + part) for part in rest)
        if left := len(verdict.differences) - len(shown):
            yield Text(f"{_MARGIN}and {words.counted(left, 'more difference')}")
        yield Text()

    def _summary(self) -> Iterator[Text]:
        counts = [
            (f"{count} {self._spelt(outcome)}", _STYLES[outcome] if count else "dim")
            for outcome, count in words.count_words(self.report)
        ]
        ends = [","] * (len(counts) - 1) + ["."]
        code = self.report.exit_code()
        meaning = f"Exit {code}: {words.exit_meaning(self.report)}."
        yield from self._filled(
            [
                (words.counted(len(self.report.verdicts), "check") + ":", ""),
                *((count + end, style) for (count, style), end in zip(counts, ends, strict=True)),
                *_styled_words(meaning, "bold red" if code else "bold green"),
            ]
        )

    def _columns(self) -> _Columns:
        timed = self.verbose > 0
        empty = _Columns(check=0, message=0, timed=timed)
        most = min(self._width - empty.before_message - _LEAST_MESSAGE, self._width * 2 // 5)
        widths = [cell_len(self._clean(words.local_id(verdict))) for verdict in self.report.verdicts]
        check = max([len("check"), *(width for width in widths if width <= most)])
        return _Columns(check, max(self._width - empty.before_message - check, 1), timed)

    def _expanded(self, verdict: Verdict) -> bool:
        """Whether the verdict gets a paragraph of its own below the tables."""
        if verdict.outcome is Outcome.BLOCKED:
            return bool(verdict.differences)
        if verdict.outcome in words.BAD:
            return True
        return self.verbose > 0 and bool(verdict.differences)

    def _word(self, verdict: Verdict) -> str:
        required = words.is_required_skip(self.report, verdict)
        return verdict.outcome.value.upper() if required else self._spelt(verdict.outcome)

    def _style(self, verdict: Verdict) -> str:
        return "bold red" if words.is_required_skip(self.report, verdict) else _STYLES[verdict.outcome]

    @staticmethod
    def _spelt(outcome: Outcome) -> str:
        return outcome.value.upper() if outcome in words.BAD else outcome.value

    @property
    def _width(self) -> int:
        return max(self.console.width, _LEAST_WIDTH)

    def _clean(self, text: str) -> str:
        return printable(text, self.console.encoding)

    def _folded(self, text: str, indent: str, style: str = "") -> Iterator[Text]:
        yield from (Text(indent + part, style) for part in fold(text, self._width - len(indent)))

    def _filled(self, pieces: list[tuple[str, str]]) -> Iterator[Text]:
        """Lines filled with pieces of text, each with its style, that stay whole."""
        line = Text()
        style_before = ""
        for piece, style in pieces:
            if line and line.cell_len + 1 + cell_len(piece) > self._width:
                yield line
                line = Text()
            if line:
                line.append(" ", style if style == style_before else "")
            line.append(piece, style)
            style_before = style
        yield line


def _styled_words(text: str, style: str) -> list[tuple[str, str]]:
    return [(word, style) for word in text.split(" ")]
