"""A look over all bytes of a trace, block by block: where its lines begin, and whether any of them is no line.

The same faults in the same order of precedence as `cai_conformance.trace.lines` finds in a text at hand, but for one
thing: what stands within a line beyond the limit is not looked at.
"""

from __future__ import annotations

import hashlib
from array import array

import numpy as np
import numpy.typing as npt

from cai_conformance.trace.errors import CutOff, ForbiddenCharacter, TooLarge, TraceFault
from cai_conformance.trace.lines import (
    BYTE_ORDER_MARK,
    FILE_LIMIT,
    LINE_LIMIT,
    blank_in,
    cut_off_after,
    decoded,
    forbidden_in,
    overlong_in,
    trailing_space_in,
)
from cai_conformance.trace.reading import label_of
from cai_conformance.trace.source import Block, Source, blocks

Integers = npt.NDArray[np.int64]


def survey(source: Source, *, line_limit: int = LINE_LIMIT, file_limit: int = FILE_LIMIT) -> Integers:
    """Return where each line of a complete text begins, and at last where the text ends.

    Raises:
        TooLarge, ForbiddenCharacter, NotUtf8, CutOff, BlankLine, TrailingSpace: as `lines_of` does.
        InputUnreadable: the source cannot be read.
    """
    if source.size > file_limit:
        raise TooLarge(0, "", "", source.size, file_limit)
    if source.read(0, min(3, source.size)) == BYTE_ORDER_MARK:
        raise ForbiddenCharacter(1, "", "", 1, "the byte order mark")
    looking = _Survey(line_limit)
    for block in blocks(source, line_limit=line_limit):
        looking.look_at(block)
    return looking.result(source.size)


def digest_before(source: Source, end: int) -> str:
    """Return the SHA-256 of the bytes before a place, in the form of a trace."""
    hasher = hashlib.sha256()
    for block in blocks(source, 0, end):
        hasher.update(block.data)
    return f"sha256:{hasher.hexdigest()}"


class _Survey:
    """What was found so far: the line starts, and the first fault of each class, in order of precedence."""

    def __init__(self, line_limit: int) -> None:
        self._limit = line_limit
        self._offsets = array("q", [0])
        self._last = self._last_not_blank = ""
        self._faults: list[TraceFault | None] = [None] * 5

    def look_at(self, block: Block) -> None:
        """Take the next block; raise the fault that precedes all others, bytes that are no text."""
        before = len(self._offsets) - 1
        if block.overlong:
            self._look_at_overlong(block, before)
            return
        try:
            text = decoded(block.data)
        except CutOff as fault:
            raise (cut_off_after(before, self._last_not_blank) if block.start else fault) from None
        except TraceFault as fault:
            raise _moved(fault, before) from None
        blank = blank_in(text)
        if blank is not None and blank.line == 1 and before:
            blank.record = label_of(self._last)
        lengths = overlong_in(text.split("\n"), self._limit) if len(block.data) > self._limit else None
        cut_off = None if text.endswith("\n") else cut_off_after(0, self._last_not_blank)
        self._note(forbidden_in(block.data), cut_off, blank, trailing_space_in(text), lengths, before=before)
        if cut_off is None:
            line_feeds = np.flatnonzero(np.frombuffer(block.data, np.uint8) == 0x0A)
            self._offsets.frombytes((line_feeds + (block.start + 1)).astype(np.int64).tobytes())
            self._remember(text)

    def result(self, size: int) -> Integers:
        """Return the line starts of so many bytes; raise the fault that comes first."""
        for fault in self._faults:
            if fault is not None:
                raise fault
        if not size:
            raise cut_off_after(0, "", empty=True)
        return np.frombuffer(self._offsets, np.int64)

    def _look_at_overlong(self, block: Block, before: int) -> None:
        first = block.data[:4096].decode("utf-8", "replace")
        if block.complete:
            fault = TooLarge(1, label_of(first), "", block.overlong, self._limit)
            self._note(None, None, None, None, fault, before=before)
            self._offsets.append(block.start + block.overlong + 1)
            self._remember(first + "\n")
        else:
            self._note(None, cut_off_after(0, self._last_not_blank), None, None, None, before=before)

    def _note(self, *faults: TraceFault | None, before: int) -> None:
        for place, fault in enumerate(faults):
            if fault is not None and self._faults[place] is None:
                self._faults[place] = _moved(fault, before)

    def _remember(self, text: str) -> None:
        """Keep the last line of some whole ones, and the last that is not blank."""
        self._last = text[text.rfind("\n", 0, -1) + 1 : -1]
        kept = text.rstrip("\n")
        self._last_not_blank = kept[kept.rfind("\n") + 1 :] or self._last_not_blank


def _moved(fault: TraceFault, lines: int) -> TraceFault:
    """Return a fault of a block with its line in the whole text, of which so many lines stand before the block."""
    fault.line += lines
    return fault
