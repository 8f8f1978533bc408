"""Choosing a token from a row of probabilities, once as the CAI NEURAL API does it and once as everybody else does.

The two go by the same names and differ:

| | `library`: what that library does | `standard`: what the names usually mean |
|---|---|---|
| top-k | each of the k largest is as likely as the others | drawn by probability |
| top-p | those before the one that crosses p, each as likely | those up to the one that crosses p, by probability |
| top-p with p = 1 | always the largest, without a draw | any token |
| min-p | by probability, in the order of an unstable sort | by probability, in the order of ids |
| numbers | float32 | float64 |
| draws | 32 bits of the Mersenne Twister | 53 bits of SplitMix64 |

Both are `Sampler`s. The names of the classes say which is meant: `LibraryTopK`, `StandardSampler`.
"""

from cai_reference.legacy.sampling.library import LibraryGreedy, LibraryMinP, LibraryTopK, LibraryTopP
from cai_reference.legacy.sampling.sampler import Sampler
from cai_reference.legacy.sampling.standard import StandardSampler

__all__ = ["LibraryGreedy", "LibraryMinP", "LibraryTopK", "LibraryTopP", "Sampler", "StandardSampler"]
