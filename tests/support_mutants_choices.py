"""Wrong evaluation and wrong greedy decoding: batches weighed otherwise, masks, ties, the sliding context."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape
from cai_reference.decoding import Continuation
from cai_reference.decoding import greedy_token as right_greedy_token
from cai_reference.decoding.greedy import Stop
from cai_reference.models import NeuralNgram
from cai_reference.text import EOS, Batch, Epoch
from support_mutants import Change, Mutant, replaced

EDGES, EXPERIMENT = "cai_conformance.backends.ngram.edges", "cai_conformance.backends.ngram.experiment"
GREEDY = "cai_reference.decoding.greedy"


# Evaluation.


def _evaluating(combine: Callable[[Sequence[tuple[float, int]]], float], size: int | None = None) -> Change:
    """Replace how the means of batches, with their rows, become one number; `size` cuts the batches anew."""

    def evaluate(model: NeuralNgram, epoch: Epoch, plan: Sequence[Batch], arithmetic: Arithmetic) -> float:
        if size is not None:
            slots = [slot for batch in plan for slot in batch]
            plan = [tuple(slots[start : start + size]) for start in range(0, len(slots), size)]
        tape = Tape(arithmetic, recording=False)
        return combine(
            [(float(model.loss(tape, [epoch.window(slot) for slot in batch]).value), len(batch)) for batch in plan]
        )

    return replaced((EDGES, "evaluate", evaluate), ("cai_reference.training.trainer", "evaluate", evaluate))


def _mean_of_means(means: Sequence[tuple[float, int]]) -> float:
    return sum(mean for mean, _ in means) / len(means)


def _weighted(means: Sequence[tuple[float, int]]) -> float:
    return sum(mean * rows for mean, rows in means) / sum(rows for _, rows in means)


# Greedy decoding.


def _choosing(choose: Callable[[list[float], Collection[int]], int]) -> Change:
    def token(logits: Array, masked: Collection[int] = ()) -> int:
        return choose(logits.tolist(), masked)

    return replaced(
        (GREEDY, "greedy_token", token), (EDGES, "greedy_token", token), (EXPERIMENT, "greedy_token", token)
    )


def _last_of_equals(logits: list[float], masked: Collection[int]) -> int:
    return max((value, token) for token, value in enumerate(logits) if token not in masked)[1]


def _positive_zero_first(logits: list[float], masked: Collection[int]) -> int:
    allowed = [token for token in range(len(logits)) if token not in masked]
    return max(allowed, key=lambda token: (logits[token], np.copysign(1.0, logits[token]), -token))


def _without_mask(logits: list[float], _: Collection[int]) -> int:
    return right_greedy_token(np.array(logits))


def _masked_as(number: float) -> Callable[[list[float], Collection[int]], int]:
    def choose(logits: list[float], masked: Collection[int]) -> int:
        return right_greedy_token(np.array([number if token in masked else z for token, z in enumerate(logits)]))

    return choose


def _continuing(slide: Callable[[list[int], int], list[int]], *, with_eos: bool = False) -> Change:
    def continue_greedily(
        model: NeuralNgram, prompt: Sequence[int], limit: int, arithmetic: Arithmetic, masked: Collection[int] = ()
    ) -> Continuation:
        context, ids, stop = list(prompt), list[int](), Stop.LIMIT
        for _ in range(limit):
            token = right_greedy_token(model.next_token_logits(arithmetic, context), masked)
            if token != EOS or with_eos:
                ids.append(token)
            if token == EOS:
                stop = Stop.EOS
                break
            context = slide(context, token)
        return Continuation(tuple(ids), (), stop)

    return replaced(
        (EDGES, "continue_greedily", continue_greedily), (EXPERIMENT, "continue_greedily", continue_greedily)
    )


def _slide(context: list[int], token: int) -> list[int]:
    return [*context[1:], token]


CHOICE_MUTANTS: Final = (
    Mutant(
        "evaluation.mean-of-means",
        "the mean of batch means is taken",
        ("eval.batch[narrow]",),
        "seven windows in batches of three",
        _evaluating(_mean_of_means),
        printed="both",
    ),
    Mutant(
        "evaluation.other-batches",
        "windows are evaluated in batches of another size (64)",
        ("eval.batch[rounding]",),
        "30 windows in batches of 8, bit for bit",
        _evaluating(_weighted, size=64),
    ),
    Mutant(
        "greedy.last-of-equals",
        "of equal maxima the highest id is taken",
        ("smp.tie[lowest]",),
        "three equal maxima",
        _choosing(_last_of_equals),
    ),
    Mutant(
        "greedy.signed-zeros",
        "+0.0 counts as larger than −0.0",
        ("smp.tie[zeros]",),
        "−0.0 stands before +0.0",
        _choosing(_positive_zero_first),
    ),
    Mutant(
        "greedy.unmasked",
        "BOS is not masked",
        ("smp.support[masked]", "smp.support[sliding]", "smp.support[window]"),
        "BOS has the largest logit",
        _choosing(_without_mask),
    ),
    Mutant(
        "greedy.mask-is-zero",
        "a masked logit becomes 0",
        ("smp.support[low]",),
        "all other logits are negative",
        _choosing(_masked_as(0.0)),
    ),
    Mutant(
        "greedy.mask-is-finite",
        "a masked logit becomes −10⁹",
        ("smp.support[low]",),
        "all other logits are lower still",
        _choosing(_masked_as(-1e9)),
    ),
    Mutant(
        "greedy.eos-appended",
        "EOS is part of the continuation",
        ("smp.support[eos]",),
        "EOS is the first choice",
        _continuing(_slide, with_eos=True),
    ),
    Mutant(
        "greedy.still-context",
        "the context does not slide",
        ("smp.support[window]",),
        "eight choices that depend on both tokens",
        _continuing(lambda context, _: context),
        printed="both",
    ),
    Mutant(
        "greedy.newest-replaced",
        "the new token replaces the newest, not the oldest",
        ("smp.support[window]",),
        "eight choices that depend on both tokens",
        _continuing(lambda context, token: [*context[:-1], token]),
        printed="embedded",
    ),
    Mutant(
        "greedy.slides-backwards",
        "the new token enters in front",
        ("smp.support[window]",),
        "eight choices that depend on both tokens",
        _continuing(lambda context, token: [token, *context[:-1]]),
        printed="both",
    ),
)
