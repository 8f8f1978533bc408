"""Counters of the cases about choices, losses, gradients and updates."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from cai_conformance.judges.cases.answers import TIES, Counter, Input, doubles, ids_of, tied_with_largest
from cai_conformance.judges.cases.texts import NARROW, WINDOWS
from cai_conformance.judges.witness import Met, Witness
from cai_conformance.vectors import Answer
from cai_reference.arithmetic import from_hex_bits

MASKED: Final = Witness("masked id above the choice", "masked ids above the choice")
CONTINUED: Final = Witness("generated token", "generated tokens")
ENDED: Final = Witness("end before the limit", "ends before the limit")
ROWS: Final = Witness("row of logits", "rows of logits")
TIED_MAXIMA: Final = Witness("other largest logit", "other largest logits")
LARGE: Final = Witness("logit without an exponential", "logits without an exponential")
REPEATED: Final = Witness("repeated id", "repeated ids")
STEPS: Final = Witness("step", "steps", least=3)
CLIPPED: Final = Witness("clipped step", "clipped steps")
KEPT: Final = Witness("step within the limit", "steps within the limit")
UNDERFLOWS: Final = Witness("gradient whose square underflows", "gradients whose squares underflow")
OVERFLOWS: Final = Witness("gradient whose square overflows", "gradients whose squares overflow")

LARGEST_EXPONENT: Final = 709.0
"""Beyond it a double has no exponential."""


def _chosen(given: Input, answer: Answer) -> Iterator[Met]:
    logits, masked = doubles(given["logits"]), set(given["masked"])
    free = [logit for token, logit in enumerate(logits) if token not in masked]
    yield TIES.met(tied_with_largest(free))
    yield MASKED.met(sum(logits[token] > logits[ids_of(answer)[0]] for token in masked))


def _continued(given: Input, answer: Answer) -> Iterator[Met]:
    ids = ids_of(answer)
    yield CONTINUED.met(len(ids))
    yield ENDED.met(len(ids) < given["limit"])


def _lost(given: Input, _: Answer) -> Iterator[Met]:
    rows = [doubles(row) for row in given["logits"]]
    yield ROWS.met(len(rows))
    yield TIED_MAXIMA.met(sum(map(tied_with_largest, rows)))
    yield LARGE.met(sum(abs(logit) > LARGEST_EXPONENT for row in rows for logit in row))


def _evaluated(given: Input, _: Answer) -> Iterator[Met]:
    windows = sum(max(0, len(tokens) - given["context"]) for tokens in given["documents"])
    yield WINDOWS.met(windows)
    yield NARROW.met(windows % given["batch"] > 0)


def _derived(given: Input, _: Answer) -> Iterator[Met]:
    inputs = [token for window in given["windows"] for token in window[:-1]]
    yield REPEATED.met(len(inputs) - len(set(inputs)))


def _stepped(given: Input, _: Answer) -> Iterator[Met]:
    yield STEPS.met(len(given["gradients"]))


def _updated(given: Input, _: Answer) -> Iterator[Met]:
    steps = [[value for each in step.values() for value in doubles(each)] for step in given["gradients"]]
    limit = from_hex_bits(given["maximum_norm"])
    # Neither underflows nor overflows where squares do.
    clipped = sum(math.hypot(*gradients) > limit for gradients in steps)
    yield STEPS.met(len(steps))
    yield CLIPPED.met(clipped)
    yield KEPT.met(len(steps) - clipped)
    squares = [value * value for gradients in steps for value in gradients if value]
    yield UNDERFLOWS.met(sum(square < sys.float_info.min for square in squares))
    yield OVERFLOWS.met(squares.count(math.inf))


COUNTERS: Final[Mapping[str, Counter]] = {
    "logits.argmax": _chosen,
    "ngram.greedy": _continued,
    "logits.mean-nll": _lost,
    "ngram.evaluate": _evaluated,
    "ngram.gradients": _derived,
    "adamw.run": _stepped,
    "course.update": _updated,
}
