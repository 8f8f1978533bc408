"""An epoch with the order in which its windows are seen, as decoders are trained on it (course, chapter 33).

Every window of a document is one row of a batch, and every one of its targets is predicted. A batch is handed to the
model as stories that are all of one length, so that nothing is padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_reference.text import Batch, Epoch, Slot
from cai_reference.text.story_batches import StoryBatch


@dataclass(frozen=True)
class PlannedEpoch:
    """The windows of one partition, cut into batches.

    Attributes:
        epoch: documents and how they are cut.
        plan: the batches, in order.
    """

    epoch: Epoch
    plan: tuple[Batch, ...]

    @property
    def batches(self) -> list[StoryBatch]:
        """Every batch of the plan as the model takes it."""
        return [window_batch(self.epoch, batch) for batch in self.plan]


def window_batch(epoch: Epoch, batch: Sequence[Slot]) -> StoryBatch:
    """Return windows as stories whose every token but the first is a target.

    The window with inputs (3, 4) and targets (4, 0) becomes the story (3, 4, 0) of width 2.
    """
    windows = [epoch.window(slot) for slot in batch]
    return StoryBatch(tuple((*window.inputs, window.targets[-1]) for window in windows), epoch.windowing.context)
