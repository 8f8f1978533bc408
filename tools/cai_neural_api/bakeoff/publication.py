"""The published figures of the nine phases, each as it was printed, by phase and name.

They were measured on four threads of an x86-64 processor with AVX2, in single precision, in training boxes of 160 to
195 s on 24,000 stories, so that nothing that has a clock in it is expected to be equal. (CAI NEURAL API,
examples/SimpleNLP/README.md, section "Decode-Efficiency Features Bakeoff".)

`MEASURED` holds what the library took on two threads of a machine like those that this program is developed on; that
was measured for this project and is not published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cai_neural_api.published import DRAFT, PHASE_WEIGHTS

WEIGHTS: Final = "weights"
SOURCE: Final = "CAI NEURAL API, examples/SimpleNLP/README.md"
CONDITIONS: Final = "4 threads, AVX2, single precision, boxes of 160 to 195 s, 24,000 stories"
MEASURED_SOURCE: Final = "measured on the library: 2 threads, AVX2, single precision"

_LOSSES: Final = {
    1: ("5.02", "2.87"),
    2: ("5.21", "4.78"),
    3: ("4.47", "2.34"),
    4: ("3.90", "2.53"),
    6: ("3.44", "1.39"),
    7: ("8.13", "1.58"),
    8: ("5.01", "2.50"),
    9: ("4.70", "2.82"),
}
"""For each phase the loss from which it fell, and that to which it fell."""
FROM_THE_START: Final = (7,)
"""Phases whose first published loss is one that an untrained net has. Those of the others were met after some steps;
they are taken for the first that was logged."""

_SHOWN: Final = {
    1: (("33.61", "1.50", "22.4"), ("45.80", "2.31", "19.9")),
    3: (("35.78", "1.59", "22.6"), ("29.22", "0.45", "65.0")),
    4: (("8.36", "0.33", "25.3"), ("10.03", "0.39", "25.8")),
    6: (("10.35", "0.34", "30.9"), ("11.57", "0.37", "31.5")),
    7: (("11.22", "0.30", "38.0"), ("10.97", "0.32", "34.3")),
    8: (("67.46", "1.13", "59.8"), ("68.81", "2.99", "23.1")),
    9: (("70.64", "2.71", "26.1"), ("82.71", "3.70", "22.4")),
}
"""For both published prompts: milliseconds a token of the full and of the cached arm, and the speedup."""

_STEPS: Final = {3: ("1.00", "1.05", "0.75"), 6: ("0.304", "0.306", "0.303"), 7: ("0.275", "0.273", "0.275")}
_OTHERS: Final = {
    (2, "all: full, a token"): "101.24",
    (2, "all: full, forwards a token"): "1.00",
    (2, "all: self-speculative, a token"): "53.18",
    (2, "all: self-speculative, forwards a token"): "0.53",
    (2, "all: self-speculative, speedup"): "1.90",
    (2, "all: self-speculative, fewer forwards"): "1.90",
    (2, "head 1, accepted"): "97.5",
    (2, "head 2, accepted"): "0.0",
    (2, "committed a pass"): "1.93",
    (4, "plain attention, a token and layer"): "256",
    (4, "latent attention as executed, a token and layer"): "384",
    (4, "latent and rotary key only, a token and layer"): "40",
    (4, "plain attention, bytes"): "1,024",
    (4, "latent attention as executed, bytes"): "1,536",
    (4, "latent and rotary key only, bytes"): "160",
    (4, "latent only, of plain attention"): "15.6",
    (4, "latent only, smaller"): "6.4",
    (5, "all: guesses accepted"): "25.2",
    (5, "all: tokens a pass"): "2.00",
    (5, "all: full, a token"): "46.38",
    (5, "all: full, forwards a token"): "1.00",
    (5, "all: full, draft forwards a token"): "0.00",
    (5, "all: cached, a token"): "1.23",
    (5, "all: cached, forwards a token"): "1.10",
    (5, "all: cached, draft forwards a token"): "0.00",
    (5, "all: speculative, a token"): "5.00",
    (5, "all: speculative, forwards a token"): "0.54",
    (5, "all: speculative, draft forwards a token"): "1.99",
    (5, "all: cached, speedup"): "37.6",
    (5, "all: speculative, speedup"): "9.3",
    (6, "states of both recurrences, in all"): "256",
    (6, "states of both recurrences, bytes"): "1,024",
    (6, "latent attention as executed, a token"): "384",
    (6, "latent attention as executed, bytes"): "1,536",
    (6, "latent and rotary key only, a token"): "40",
    (6, "latent and rotary key only, bytes"): "160",
    (6, "the transformer of phase 1, a token"): "512",
    (6, "the transformer of phase 1, bytes"): "2,048",
    (6, "all: repeated trigrams"): "11",
    (7, "all: repeated trigrams"): "0",
    (7, "all: cached, a token"): "0.31",
    (7, "examples"): "9,600",
    (7, "of the weights of phase 6"): "36.2",
    (7, "fewer weights than phase 6"): "2.76",
    (8, "two global layers, 12 tokens"): "6,144",
    (8, "two global layers, 24 tokens"): "12,288",
    (8, "two global layers, 48 tokens"): "24,576",
    (8, "two global layers, 192 tokens"): "98,304",
    (8, "local and global, 12 tokens"): "6,144",
    (8, "local and global, 24 tokens"): "9,216",
    (8, "local and global, 48 tokens"): "15,360",
    (8, "local and global, 192 tokens"): "52,224",
    (8, "saved, 12 tokens"): "0.0",
    (8, "saved, 24 tokens"): "25.0",
    (8, "saved, 48 tokens"): "37.5",
    (8, "saved, 192 tokens"): "46.9",
    (8, "bound of the local layer"): "3,072",
    (8, "bound of the local layer, bytes"): "12,288",
    (9, "fewer weights than phase 1"): "514",
    (9, "sequential blocks"): "58.36",
    (9, "parallel blocks"): "64.21",
    (9, "parallel : sequential"): "1.10",
    (9, "steps"): "149",
    (9, "examples"): "4,768",
    (9, "time"): "193",
    (9, "throughput"): "24.7",
}


def _all() -> Iterator[tuple[tuple[int, str], str]]:
    for number, (weights, _) in PHASE_WEIGHTS.items():
        yield (number, WEIGHTS), f"{weights:,}"
    yield (5, "weights of the draft"), f"{DRAFT[0]:,}"
    for number, (first, last) in _LOSSES.items():
        yield (number, "first loss" if number in FROM_THE_START else "loss of step 25"), first
        yield (number, "loss"), last
    for number in (8, 9):
        yield (number, "loss of phase 1"), _LOSSES[1][1]
    for number, shown in _SHOWN.items():
        for prompt, (full, cached, speedup) in zip(("one day", "once upon a time"), shown, strict=True):
            yield (number, f'"{prompt}": full, a token'), full
            yield (number, f'"{prompt}": cached, a token'), cached
            yield (number, f'"{prompt}": cached, speedup'), speedup
    for number, costs in _STEPS.items():
        for name, cost in zip(("<16", "16-31", ">=32"), costs, strict=True):
            yield (number, f"prefix {name}"), cost
    yield from _OTHERS.items()


PUBLISHED: Final[Mapping[tuple[int, str], str]] = dict(_all())

MEASURED: Final[Mapping[tuple[int, str], str]] = {
    (1, "throughput"): "35",
    (1, "a full forward"): "24",
    (1, "a cached step"): "0.87",
}
