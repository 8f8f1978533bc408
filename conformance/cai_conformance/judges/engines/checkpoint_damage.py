"""What may happen to a checkpoint: files that are cut, missing, renamed, and bytes that change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

CUT, MISSING, RENAMED, FLIPPED = "cut", "missing", "renamed", "flipped"
CASES: Final = (CUT, MISSING, RENAMED, FLIPPED)
MOST_FILES: Final = 8
"""How many files are damaged, the largest first."""
BIT: Final = 0x10
"""Which bit of a byte changes."""
PLACES: Final = (2, 1, 3)
"""Where a byte of the largest file changes, in quarters of it; in the others at the first of these."""


@dataclass(frozen=True)
class Damage:
    """One damage: what was done, in words, and the files as they are then."""

    words: str
    files: Mapping[str, bytes]


def damages(case: str, files: Mapping[str, bytes]) -> Iterator[Damage]:
    """Yield the damages of a case; each changes the bytes or the names of files."""
    names = sorted(files, key=lambda name: (-len(files[name]), name))[:MOST_FILES]
    for place, name in enumerate(names):
        data, others = files[name], {other: value for other, value in files.items() if other != name}
        if case == CUT and data:
            half = len(data) // 2
            yield Damage(f"{name} cut to {half} of {len(data)} bytes", {**others, name: data[:half]})
            if half and not place:
                yield Damage(f"{name} emptied", {**others, name: b""})
        elif case == MISSING:
            yield Damage(f"{name} missing", others)
        elif case == RENAMED and not place:
            yield Damage(f"{name} called {name}.old", {**others, f"{name}.old": data})
        elif case == FLIPPED and data:
            for quarters in PLACES if not place else PLACES[:1]:
                at = len(data) * quarters // 4
                changed = data[:at] + bytes([data[at] ^ BIT]) + data[at + 1 :]
                yield Damage(f"a bit of byte {at} of {name} changed", {**others, name: changed})
    if case == MISSING and len(files) > 1:
        yield Damage("all files missing", {})
