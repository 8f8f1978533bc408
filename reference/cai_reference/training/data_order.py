"""The order in which examples are seen, as a place that can be written down and come back to.

Epoch after epoch is shuffled anew by one generator, and cut into batches; the last batch of an epoch keeps its true
number of examples. A place is the number of the epoch, that of the next batch in it, and the state of the generator
before the epoch was shuffled: the order of the epoch, and every order after it, follow from these three.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.splitmix import SplitMix64, shuffle
from cai_reference.text.errors import ZeroBatchSize
from cai_reference.training.state_errors import NoExamples, OrderOutOfRange


@dataclass(frozen=True)
class OrderPlace:
    """Where a run stands in its data.

    Attributes:
        epoch: how many epochs are over.
        batch: the next batch of this epoch, from 0.
        generator: the state before this epoch was shuffled.

    Raises:
        InvalidSeed: the state does not fit into 64 bits.
    """

    epoch: int
    batch: int
    generator: int

    def __post_init__(self) -> None:
        SplitMix64(self.generator)


class DataOrder:
    """Batches of indices, without end.

    Raises:
        ZeroBatchSize, NoExamples: there is nothing to take.
        OrderOutOfRange: the place does not exist.
    """

    def __init__(self, examples: int, batch_size: int, place: OrderPlace) -> None:
        check_place(examples, batch_size, place)
        self.examples = examples
        self.batch_size = batch_size
        self.go_to(place)

    @classmethod
    def from_seed(cls, examples: int, batch_size: int, seed: int) -> DataOrder:
        """Return the order that begins with this seed."""
        return cls(examples, batch_size, OrderPlace(0, 0, seed))

    @property
    def batches(self) -> int:
        """How many batches an epoch has."""
        return batch_count(self.examples, self.batch_size)

    @property
    def place(self) -> OrderPlace:
        """Where the next batch is taken from."""
        return self._place

    def go_to(self, place: OrderPlace) -> None:
        """Take the next batch from there.

        Raises:
            OrderOutOfRange: there is no such place; the order stays where it is.
        """
        check_place(self.examples, self.batch_size, place)
        generator, indices = SplitMix64(place.generator), list(range(self.examples))
        shuffle(indices, generator)
        self._place, self._indices, self._following = place, indices, generator.state

    def next_batch(self) -> tuple[int, ...]:
        """Return the indices of the next batch, without going on."""
        start = self._place.batch * self.batch_size
        return tuple(self._indices[start : start + self.batch_size])

    def advance(self) -> None:
        """Go on to the batch after the next one, and to the next epoch where this one ends."""
        place = self._place
        if place.batch + 1 < self.batches:
            self._place = OrderPlace(place.epoch, place.batch + 1, place.generator)
        else:
            self.go_to(OrderPlace(place.epoch + 1, 0, self._following))


def batch_count(examples: int, batch_size: int) -> int:
    """Return how many batches an epoch has."""
    return -(-examples // batch_size)


def check_place(examples: int, batch_size: int, place: OrderPlace) -> None:
    """Refuse a place that an order does not have.

    Raises:
        ZeroBatchSize, NoExamples: there is no order.
        OrderOutOfRange: the place is not in it.
    """
    if batch_size < 1:
        raise ZeroBatchSize
    if examples < 1:
        raise NoExamples
    batches = batch_count(examples, batch_size)
    if place.epoch < 0 or not 0 <= place.batch < batches:
        raise OrderOutOfRange(place.epoch, place.batch, batches - 1)
