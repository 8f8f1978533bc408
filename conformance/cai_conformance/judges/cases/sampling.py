"""Counters of the cases about sampling and speculation by chance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from cai_conformance.judges.cases.answers import DISTINCT, TIES, Counter, Input, doubles, ids_of
from cai_conformance.judges.witness import Met, Witness
from cai_conformance.vectors import Answer

DROPPED: Final = Witness("dropped id", "dropped ids")
AT_A_BORDER: Final = Witness("draw at an end or a border", "draws at an end or a border")
REFUSED: Final = Witness("refused row", "refused rows")
UNDRAWN: Final = Witness("choice without a draw", "choices without a draw")
DRAWS: Final = Witness("draw", "draws")
UNLIKELY: Final = Witness("guess that may be rejected", "guesses that may be rejected")
WITHOUT_RESIDUE: Final = Witness("id without a residue", "ids without a residue")
OUTCOMES: Final = Witness("outcome of draws", "outcomes of draws")
ACCEPTED: Final = Witness("accepted guess", "accepted guesses")
REJECTED: Final = Witness("rejected guess", "rejected guesses")
BONUSES: Final = Witness("token behind an accepted block", "tokens behind an accepted block")

NO_TOKEN: Final = -1
"""The answer to a row from which nothing may be drawn."""
STEP: Final = 0x9E3779B97F4A7C15
"""What SplitMix64 adds to its state for each draw."""
WORDS: Final = 1 << 64
LAST_UNIT: Final = 1.0 - 2.0**-53


def draws_between(seed: int, state: int) -> int:
    """Return how many draws lead from a seed to a state."""
    return (state - seed) * pow(STEP, -1, WORDS) % WORDS


def _kept(given: Input, answer: Answer) -> Iterator[Met]:
    logits = doubles(given["logits"])
    yield DROPPED.met(len(logits) - len(ids_of(answer)))
    yield TIES.met(len(logits) - len(set(logits)))


def _chosen(given: Input, _: Answer) -> Iterator[Met]:
    logits = doubles(given["logits"])
    weights = [math.exp(logit - max(logits)) for logit in logits]
    borders = {weight / sum(weights) for weight in accumulate(weights)}
    units = doubles(given["units"])
    yield AT_A_BORDER.met(sum(unit in (0.0, LAST_UNIT) or unit in borders for unit in units))


def _drawn(given: Input, answer: Answer) -> Iterator[Met]:
    *tokens, state = ids_of(answer)
    refused, draws = tokens.count(NO_TOKEN), draws_between(given["seed"], state)
    yield REFUSED.met(refused)
    yield DRAWS.met(draws)
    yield UNDRAWN.met(max(0, len(tokens) - refused - draws))
    yield DISTINCT.met(len(set(tokens)))


def _acceptance(_: Input, answer: Answer) -> Iterator[Met]:
    yield UNLIKELY.met(sum(ratio < 1.0 for ratio in answer.values or ()))


def _residual(given: Input, _: Answer) -> Iterator[Met]:
    pairs = zip(doubles(given["target"]), doubles(given["law"]), strict=True)
    yield WITHOUT_RESIDUE.met(sum(target <= law for target, law in pairs))


def _law(_: Input, answer: Answer) -> Iterator[Met]:
    yield OUTCOMES.met(sum(ids_of(answer)))


def _pass(given: Input, answer: Answer) -> Iterator[Met]:
    accepted, guesses = ids_of(answer)[0], len(given["guesses"])
    yield ACCEPTED.met(accepted)
    yield REJECTED.met(accepted < guesses)
    yield BONUSES.met(accepted == guesses)


COUNTERS: Final[Mapping[str, Counter]] = {
    "sampling.kept": _kept,
    "sampling.choose": _chosen,
    "sampling.draws": _drawn,
    "decoder.sample": _drawn,
    "speculation.acceptance": _acceptance,
    "speculation.residual": _residual,
    "speculation.law": _law,
    "speculation.pass": _pass,
}
