"""The kinds of faults that are known in public, by a letter for where they act and a number.

Each was found in several projects; the precedents of the seeded faults name some of them. A kind is a way of being
wrong, not one line of code: several seeded faults may be of one kind, and each kind is either seeded here or said to
have nothing here to be wrong (`NOT_APPLICABLE`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KINDS: Final[Mapping[str, str]] = {
    "T01": "merges applied left to right instead of by rank",
    "T02": "of pairs with equal counts another one is merged",
    "T03": "overlapping occurrences counted in another way",
    "T04": "merges counted or applied across borders, or within other ones",
    "T05": "each token decoded alone",
    "T06": "the spelling of a special token in a text becomes the token",
    "D01": "targets not shifted",
    "D02": "targets shifted twice",
    "D03": "the last full window dropped",
    "D04": "every epoch in the same order",
    "D06": "contexts that cross a document's start, or padding on the wrong side",
    "I01": "variance used as standard deviation",
    "F01": "softmax over the query axis",
    "F02": "epsilon of the norm at another place or of another size",
    "F03": "another activation function",
    "F04": "a square weight used transposed",
    "F05": "a parallel block run in sequence",
    "F07": "groups of a projection strided instead of contiguous",
    "F08": "log-softmax without subtracting the maximum",
    "A01": "rotary pairs of the other layout",
    "A02": "positions that restart in each call",
    "A03": "cached keys turned again",
    "A04": "only queries turned",
    "A05": "angles in half precision",
    "A06": "scores scaled by another width",
    "A07": "shared heads tiled instead of repeated",
    "A08": "a causal mask aligned at the top left",
    "A09": "future tokens visible",
    "A11": "positions one too high after a cut",
    "A12": "the cache not cleared between requests",
    "W01": "a window one token too long",
    "W02": "a window one token too short",
    "W03": "a cached path that ignores the window",
    "W04": "a cut behind a ring's wrap accepted as if rows were there",
    "M01": "latent attention scaled by its content part",
    "M02": "the absorbed path scaled by the latent's width",
    "M03": "the content part or the latent turned",
    "M04": "the shared rotary key not turned, or cached before it is",
    "S01": "a recurrent state kept between sequences",
    "S02": "the state of a convolution stored after its activation",
    "S03": "a prompt shorter than the kernel padded on the wrong side",
    "S04": "each chunk starting from zero",
    "S05": "a call of several tokens that takes one recurrent step",
    "S06": "Euler's step for the decay",
    "P01": "rejected rows that stay in the target's cache",
    "P02": "a draft that misses tokens after full acceptance",
    "P04": "the bonus token emitted twice",
    "P05": "acceptance of matches behind a mismatch",
    "P06": "a stop inside a block ignored",
    "P07": "a block that overshoots the budget",
    "P08": "a residual through softmax, or from the target",
    "P09": "acceptance by a law from which the guess was not drawn",
    "P10": "later heads fed with the wrong token, or read in another order",
    "K01": "top-p that drops the crossing token",
    "K02": "top-p that takes one more at an exact boundary",
    "K03": "top-k that keeps all ties",
    "K05": "a temperature of 0 that divides",
    "K06": "the last of equal maxima taken",
    "K07": "NaN logits that become token 0",
    "K08": "a token of probability 0 at a draw of 0, or none at the largest draw",
    "L01": "padding in the denominator",
    "L02": "a mean of means",
    "L03": "a tied weight with one gradient only",
    "L05": "the backward of the norm without the mean, or with the gain twice or never",
    "L06": "clipping by tensor, or by the squared norm",
    "O01": "no bias correction",
    "O02": "epsilon inside the root",
    "O03": "decay coupled into the gradient",
    "E01": "dropout in evaluation",
    "E02": "perplexity as a mean of exponentials or of batches",
    "E03": "padding scored",
    "C01": "moments or step not saved",
    "C02": "the position in data or generator not saved",
    "C03": "weights saved in half precision or few digits",
    "C05": "a tied head untied by loading",
    "R01": "NaN written as 0 or null",
}
"""What each kind is, in a few words."""

NOT_APPLICABLE: Final[Mapping[str, str]] = {
    "S02": "no model of the suites keeps the state of a convolution: the recurrence has none, and the draft's token"
    " shift, which is one over two tokens, is computed from the newest two ids each time",
    "S03": "the recurrence of our models has no convolution, and no prompt of the suites is shorter than the two tokens"
    " of the draft's token shift",
    "C02": "an engine that trains is given its batches, so that it has no position in data to lose, and no suite asks"
    " a backend to stop its own run and go on",
}
"""Kinds of faults that no seeded fault stands for, each with the reason: our models or suites have nothing to be wrong.

No suite catches them. Whoever adds the part that a reason says is missing takes the kind off this list.
"""
