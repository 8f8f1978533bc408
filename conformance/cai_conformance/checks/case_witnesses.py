"""What a vector case makes a backend meet: counted by its operation, from its input and the right answer alone."""

from __future__ import annotations

import math
import sys
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.witness import Met, Witness
from cai_conformance.fixtures.text_pieces import REPLACEMENT, read_piece
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_reference.arithmetic.bits import from_hex_bits
from cai_reference.splitmix import SplitMix64
from cai_reference.text.tokenizer import BpeTokenizer

Input: TypeAlias = Mapping[str, Any]  # JSON: what each operation expects is what its cases hold
Counter: TypeAlias = Callable[[Input, Answer], Iterable[Met]]

COMPARED: Final = Witness("compared value", "compared values")
TIES: Final = Witness("tie", "ties")
DISTINCT: Final = Witness("distinct token", "distinct tokens", least=2)


def length_of(answer: Answer) -> int:
    """Return how many integers, doubles or bytes an answer has."""
    if answer.text is not None:
        return len(answer.text.replace(" ", "")) // 2
    return len(ids_of(answer)) + len(answer.values or ())


def ids_of(answer: Answer) -> Sequence[int]:
    """Return the integers of an answer; none of another one."""
    return answer.ids or ()


def doubles(digits: Iterable[str]) -> list[float]:
    """Return doubles that are written as sixteen hex digits each."""
    return [from_hex_bits(text) for text in digits]


def tied_with_largest(values: Sequence[float]) -> int:
    """Return how many values are equal to the largest one, itself left out."""
    return max(0, list(values).count(max(values)) - 1) if values else 0


MERGES: Final = Witness("learned merge", "learned merges")
OVERLAPS: Final = Witness("overlapping occurrence", "overlapping occurrences")
BORDERS: Final = Witness("border of two documents", "borders of two documents")
SINGLES: Final = Witness("merge of a pair that occurs once", "merges of a pair that occurs once")
SPACES: Final = Witness("merge with a space", "merges with a space")
MERGED: Final = Witness("applied merge", "applied merges")
LOW_BYTES: Final = Witness("byte 0 or 1", "bytes 0 or 1")
MERGED_IDS: Final = Witness("id of a merge", "ids of merges")
BROKEN: Final = Witness("text that is not UTF-8", "texts that are not UTF-8")

WINDOWS: Final = Witness("window", "windows")
SHORT: Final = Witness("document shorter than a window", "documents shorter than a window")
FITTING: Final = Witness("last window that just fits", "last windows that just fit")
NARROW: Final = Witness("narrower last batch", "narrower last batches")
MOVED: Final = Witness("window out of its order", "windows out of their order")
REJECTED_DRAWS: Final = Witness("rejected draw", "rejected draws")
LOWEST: Final = Witness("lowest draw that is kept", "lowest draws that are kept")

SPACE: Final = 32
FIRST_MERGE: Final = 258
"""The first id of a merge, where control ids are counted; among pairs of bytes it is two less."""


def _trained(given: Input, answer: Answer) -> Iterator[Met]:
    """Replay the merges of the answer, and look at each of them before it is applied."""
    documents = [list(bytes.fromhex(text)) for text in given["documents"]]
    ids = ids_of(answer)
    pairs = list(zip(ids[::2], ids[1::2], strict=True))
    borders = sum(bool(one) and bool(other) for one, other in pairwise(documents))
    ties = overlaps = singles = 0
    for made, pair in enumerate(pairs):
        counts = Tally(other for tokens in documents for other in set(pairwise(tokens)))
        counts = Tally({other: sum(_occurrences(tokens, other) for tokens in documents) for other in counts})
        ties += any(other != pair and count == counts[pair] for other, count in counts.items())
        overlaps += sum(list(pairwise(tokens)).count(pair) - _occurrences(tokens, pair) for tokens in documents)
        singles += counts[pair] == 1
        documents = [_merged(tokens, pair, FIRST_MERGE - 2 + made) for tokens in documents]
    yield MERGES.met(len(pairs))
    yield TIES.met(ties)
    yield OVERLAPS.met(overlaps)
    yield BORDERS.met(borders)
    yield SINGLES.met(singles)
    yield SPACES.met(sum(SPACE in pair for pair in pairs))


def _occurrences(tokens: Sequence[int], pair: tuple[int, int]) -> int:
    """Return how often a pair occurs, none of them overlapping."""
    return len(tokens) - len(_merged(tokens, pair, -1))


def _merged(tokens: Sequence[int], pair: tuple[int, int], by: int) -> list[int]:
    merged: list[int] = []
    place = 0
    while place < len(tokens):
        found = tuple(tokens[place : place + 2]) == pair
        merged.append(by if found else tokens[place])
        place += 2 if found else 1
    return merged


def _encoded(given: Input, answer: Answer) -> Iterator[Met]:
    text = bytes.fromhex(given["bytes"])
    yield MERGED.met(len(text) - len(ids_of(answer)))
    yield LOW_BYTES.met(sum(byte < 2 for byte in text))


def _decoded(given: Input, answer: Answer) -> Iterator[Met]:
    yield MERGED_IDS.met(sum(token >= FIRST_MERGE for token in given["ids"]))
    yield BROKEN.met(not _is_utf8(bytes.fromhex(answer.text or "")))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _windowed(given: Input, answer: Answer) -> Iterator[Met]:
    context, lengths = given["context"], list(map(len, given["documents"]))
    beyond = [length - context - 1 for length in lengths]
    yield WINDOWS.met(len(ids_of(answer)) // (2 * context))
    yield SHORT.met(sum(rest < 0 for rest in beyond))
    yield FITTING.met(sum(rest > 0 and rest % given.get("stride", 1) == 0 for rest in beyond))


def _shuffled(given: Input, answer: Answer) -> Iterator[Met]:
    ids = ids_of(answer)
    slots = list(zip(ids[::2], ids[1::2], strict=True))
    yield MOVED.met(sum(slot != right for slot, right in zip(slots, sorted(slots), strict=True)))
    yield NARROW.met(len(slots) % given["batch"] > 0)


def _below(given: Input, answer: Answer) -> Iterator[Met]:
    """Draw words anew: a bound keeps those from 2^64 mod bound on."""
    generator, least = SplitMix64(given["seed"]), (1 << 64) % given["bound"]
    rejected = lowest = 0
    for _ in ids_of(answer):
        while (word := generator.next_u64()) < least:
            rejected += 1
        lowest += word == least
    yield REJECTED_DRAWS.met(rejected)
    yield LOWEST.met(lowest)


SPELLED: Final = Witness("name of a token that stays text", "names of tokens that stay text")
ASKED: Final = Witness("token that was asked for", "tokens that were asked for")
INSIDE: Final = Witness("id that ends inside a character", "ids that end inside a character")
CUT_OFF: Final = Witness("unfinished character at the end", "unfinished characters at the end")


def _special(given: Input, answer: Answer) -> Iterator[Met]:
    text, ids = bytes.fromhex(given["bytes"]), ids_of(answer)
    asked = sum(ids.count(each["id"]) for each in given["special"])
    yield ASKED.met(asked)
    yield SPELLED.met(sum(text.count(bytes.fromhex(each["spelled"])) for each in given["special"]) - asked)
    yield MERGED_IDS.met(sum(token >= FIRST_MERGE for token in ids))


def _streamed(given: Input, answer: Answer) -> Iterator[Met]:
    tokenizer = BpeTokenizer([(left, right) for left, right in given["pairs"]])
    ids = given["ids"]
    starts = [tokenizer.decode_content(ids[: place + 1]) for place in range(len(ids))]
    yield INSIDE.met(sum(start.decode("utf-8", "ignore").encode("utf-8") != start for start in starts))
    yield CUT_OFF.met(read_piece((answer.text or "").rpartition(" ")[2]) == REPLACEMENT)


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


def _argmax(given: Input, answer: Answer) -> Iterator[Met]:
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


SEEN: Final = Witness("token in front of the row", "tokens in front of the row", least=3)
FAR: Final = Witness("position beyond 1000", "positions beyond 1000")
LATER_HEADS: Final = Witness("later head", "later heads")
BEFORE: Final = Witness("token in front of the cut", "tokens in front of the cut")
BEHIND: Final = Witness("token behind the cut", "tokens behind the cut")
TOKENS: Final = Witness("generated token", "generated tokens")
TIED_CHOICES: Final = Witness("choice between equal logits", "choices between equal logits")
MOVED_ROWS: Final = Witness("row that moves", "rows that move")
IN_FRONT: Final = Witness("row in front that stays", "rows in front that stay")
OUT_OF_REACH: Final = Witness("row behind that stays", "rows behind that stay")

FAR_START: Final = 1000
"""From here on angles in few digits differ."""


def _row(given: Input, _: Answer) -> Iterator[Met]:
    yield SEEN.met(given["row"])
    yield FAR.met(given["row"] + 1 if given["start"] >= FAR_START else 0)
    yield LATER_HEADS.met(given["head"])


def _session(given: Input, _: Answer) -> Iterator[Met]:
    count, first = len(given["ids"]), given["first_chunk"]
    yield BEFORE.met(min(first, count))
    yield BEHIND.met(max(0, count - first))
    yield FAR.met(count if given["start"] >= FAR_START else 0)


def _generated(_: Input, answer: Answer) -> Iterator[Met]:
    ids = ids_of(answer)
    yield TOKENS.met(len(ids))
    yield DISTINCT.met(len(set(ids)))


def _moved(given: Input, answer: Answer) -> Iterator[Met]:
    moved = ids_of(answer)
    yield MOVED_ROWS.met(len(moved))
    yield IN_FRONT.met(min(moved, default=0))
    yield OUT_OF_REACH.met(len(given["ids"]) - 1 - max(moved, default=len(given["ids"]) - 1))


def tied_ids(given: GivenModel) -> frozenset[int]:
    """Return the ids of which another one has exactly the same logit, whatever the sequence: equal output columns."""
    columns: dict[int, list[bytes]] = {}
    for parameter in given.paired_model.parameters:
        axis = given.phase.output_axis(parameter)
        if axis is not None:
            for token, column in enumerate(np.moveaxis(np.asarray(parameter.value), axis, 0)):
                columns.setdefault(token, []).append(column.tobytes())
    joined = {token: b"".join(parts) for token, parts in columns.items()}
    counts = Tally(joined.values())
    return frozenset(token for token, column in joined.items() if counts[column] > 1)


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
    "bpe.train": _trained,
    "bpe.encode": _encoded,
    "bpe.decode": _decoded,
    "windows.list": _windowed,
    "batches.shuffled": _shuffled,
    "splitmix.below": _below,
    "bpe.encode-special": _special,
    "bpe.decode-stream": _streamed,
    "logits.argmax": _argmax,
    "ngram.greedy": _continued,
    "logits.mean-nll": _lost,
    "ngram.evaluate": _evaluated,
    "ngram.gradients": _derived,
    "adamw.run": _stepped,
    "course.update": _updated,
    "decoder.logits": _row,
    "decoder.session-logits": _session,
    "decoder.generate": _generated,
    "decoder.moved": _moved,
    "sampling.kept": _kept,
    "sampling.choose": _chosen,
    "sampling.draws": _drawn,
    "decoder.sample": _drawn,
    "speculation.acceptance": _acceptance,
    "speculation.residual": _residual,
    "speculation.law": _law,
    "speculation.pass": _pass,
}
"""By operation."""


def met_in(case: VectorCase, evidence: Evidence) -> tuple[Met, ...]:
    """Return what a backend met that gave the right answer to a case."""
    answer = case.expected
    assert answer is not None
    met = [COMPARED.met(length_of(answer))]
    if case.operation in COUNTERS:
        met += COUNTERS[case.operation](case.input, answer)
    given = evidence.question.given
    if case.input.get("tied") is True and given is not None:
        tied = evidence.remembered("tied ids", lambda: tied_ids(given))
        met.append(TIED_CHOICES.met(sum(token in tied for token in answer.ids or ())))
    return tuple(met)
