"""The settings of the library's documented transformer example: two of its own blocks, trained on tokenised stories.

The documentation shows the blocks with 8 heads and an inner width of 2048, causal, without norms and multipliers. The
program that it comes from reads 80 tokens of 3000 ids, is 512 wide, and ends in a projection to its width, one to the
vocabulary, and a softmax. An epoch is 48,000 drawn stories, of which a batch takes 48; validation is a twentieth of it.
Adam has moments 0.9 and 0.98 and decay 0.1, and the rate changes with almost every one of the first 25 epochs, whereby
the optimiser forgets its moments.

Two things differ here. The program embeds positions together with the tokens; the net here has no positions beside the
causal order. And all of it was read: no run of this example was measured, of its net only the forward pass.

Source: CAI NEURAL API, README and examples/SimpleNLP.
"""

from __future__ import annotations

from typing import Final

from cai_reference.legacy.training.adam import AdamSettings
from cai_reference.legacy.training.fit import FitSchedule
from cai_reference.nets.builders.cai_block import CaiConfiguration

BASE_RATE: Final = 0.0005
LAST_RATE: Final = 0.0001
WARM: Final = 7
"""Epochs in which the rate rises."""
CYCLE: Final = 25
"""Epochs until the rate stays."""

CONFIGURATION: Final = CaiConfiguration(vocabulary=3000, context=80, width=512)
SETTINGS: Final = AdamSettings(BASE_RATE)
SCHEDULE: Final = FitSchedule(batch=48, samples=48_000, validation=2_400)


def rate(epoch: int) -> float:
    """Return the learning rate of an epoch, counted from 0.

    It rises by half of the base in each of seven epochs, jumps back to four times the base in the eighth, loses a tenth
    in each further one, and is a fifth of the base from the twenty-sixth on.
    """
    if epoch >= CYCLE:
        return LAST_RATE
    if epoch < WARM:
        return BASE_RATE * (1.0 + 0.5 * epoch)
    result = BASE_RATE * 4.0
    for _ in range(epoch - WARM):
        result *= 0.9
    return result
