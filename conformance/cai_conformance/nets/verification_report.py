"""A verification as lines for a terminal, and as objects for a program."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cai_conformance.nets.comparing import Comparison, Measure
from cai_conformance.nets.screens import Column, Line, paragraph, table_lines
from cai_conformance.nets.verifying import Verification


def verification_lines(found: Verification, width: int, *, quiet: bool = False) -> Iterator[Line]:
    """Yield a table of the comparisons, then what is wrong, left out, missing or not verified; the verdict comes last.

    With `quiet`, only what did not pass, and the verdict.
    """
    shown = [comparison for comparison in found.comparisons if not (quiet and comparison.passed)]
    if shown:
        columns = (
            Column("quantity", folded=True),
            Column("values", right=True),
            Column("largest error", right=True),
            Column("tolerance", right=True),
            Column("verdict"),
        )
        rows = [
            (each.quantity, f"{each.values:,}", _error(each), _tolerance(each), "pass" if each.passed else "FAIL")
            for each in shown
        ]
        styles = ["" if each.passed else "bold red" for each in shown]
        yield from table_lines(columns, rows, width, styles)
        yield Line("")
    for each in shown:
        if not each.passed:
            yield from paragraph(f"{each.quantity} ({each.source}): {each.first}", width, "bold red")
    if not quiet:
        for each in shown:
            if each.left_out:
                yield from paragraph(f"left out of {each.quantity}: {each.left_out}", width)
        yield from paragraph(f"used: {', '.join(found.files)}", width, "dim")
        for name in found.missing:
            yield from paragraph(f"not there: {name}", width)
        for name in found.unknown:
            yield from paragraph(f"not verified, since it is not known: {name}", width)
        yield Line("")
    passed = sum(each.passed for each in found.comparisons)
    values = sum(each.values for each in found.comparisons)
    verdict, style = ("as measured", "bold green") if found.passed else ("not as measured", "bold red")
    yield Line(f"{passed} of {len(found.comparisons)} quantities pass, {values:,} values: {verdict}.", style)


def verification_objects(found: Verification, *, quiet: bool = False) -> Iterator[dict[str, object]]:
    """Yield one object a comparison and a summary; an infinite error is null."""
    for each in found.comparisons:
        if quiet and each.passed:
            continue
        yield {
            "type": "comparison",
            "quantity": each.quantity,
            "source": each.source,
            "values": each.values,
            "largest_error": each.largest if math.isfinite(each.largest) else None,
            "tolerance": each.tolerance,
            "measure": each.measure.value,
            "passed": each.passed,
            "first": each.first or None,
            "left_out": each.left_out or None,
        }
    yield {
        "type": "summary",
        "passed": found.passed,
        "counts": {
            "quantities": len(found.comparisons),
            "passed": sum(each.passed for each in found.comparisons),
            "values": sum(each.values for each in found.comparisons),
        },
        "files": list(found.files),
        "missing": list(found.missing),
        "not_verified": list(found.unknown),
        "exit_code": 0 if found.passed else 1,
    }


def _error(each: Comparison) -> str:
    if math.isinf(each.largest):
        return "missing"
    if each.measure is Measure.EQUAL:
        return "equal" if each.largest == 0.0 else f"{each.largest:.0f} differ"
    return f"{each.largest:.1e}"


def _tolerance(each: Comparison) -> str:
    if each.measure is Measure.EQUAL:
        return "equal"
    return f"{each.tolerance:.0e}" + (" of layer" if each.measure is Measure.OF_LAYER else "")
