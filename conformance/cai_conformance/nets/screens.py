"""Tables of plain lines that fit a terminal: columns side by side, one of them folded where the width is not enough.

Everything that came from a file is made harmless before it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from cai_conformance.reports.screen import fold, padded, printable

INDENT: Final = "  "
GAP: Final = "  "
NARROWEST: Final = 10
"""A folded column gets no narrower than that, even if lines then stick out."""


@dataclass(frozen=True)
class Line:
    """A line for the screen, and whether it should be seen: `dim`, `bold`, `bold red`, `bold green` or nothing."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Column:
    """A column: its heading, and whether numbers are aligned to the right. One column of a table may be folded."""

    heading: str
    right: bool = False
    folded: bool = False


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, styles: Sequence[str] | None = None
) -> Iterator[Line]:
    """Yield a heading and a line a row, more where a cell is folded; `styles` are those of the rows."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [
        max([cell_len(column.heading), *(cell_len(row[place]) for row in cells)])
        for place, column in enumerate(columns)
    ]
    for place, column in enumerate(columns):
        if column.folded:
            taken = sum(widths) - widths[place] + len(GAP) * (len(columns) - 1) + len(INDENT)
            widths[place] = max(NARROWEST, min(widths[place], width - taken))
    yield Line(_line(columns, widths, [column.heading for column in columns]), "dim")
    for row, style in zip(cells, styles or [""] * len(cells), strict=True):
        folded = [fold(cell, widths[place]) if columns[place].folded else [cell] for place, cell in enumerate(row)]
        for part in range(max(map(len, folded))):
            yield Line(_line(columns, widths, [cell[part] if part < len(cell) else "" for cell in folded]), style)


def paragraph(text: str, width: int, style: str = "", indent: str = INDENT) -> Iterator[Line]:
    """Yield a text as lines of at most `width` cells."""
    for line in fold(printable(text), max(NARROWEST, width - cell_len(indent))):
        yield Line(indent + line, style)


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    parts = [
        " " * (width - cell_len(cell)) + cell if column.right else padded(cell, width)
        for column, width, cell in zip(columns, widths, cells, strict=True)
    ]
    return (INDENT + GAP.join(parts)).rstrip()
