"""The matrices of a model: how they are named and drawn, how rows are looked up in one and multiplied with one.

A matrix [fan_in, fan_out] is drawn row-major from U(−limit, limit) with limit = sqrt(6 / (fan_in + fan_out)), one unit
double an element: limit · (2u − 1) (Glorot and Bengio, 2010; course, chapter 17). An embedding looks ids up: E[id]; the
gradient of a row is the sum of the adjoints at every position that used it, in row-major order (course, chapter 18).

`BiasFree` and `TiedOutput` add the gradient of their matrix in two steps: over the rows of each sequence, then over the
sequences of a batch, each sum ascending (course, chapters 26 to 39). `projection.Dense` adds over all rows of a batch
at once. The values are the same; the gradients differ by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.operations import gather, matmul, reshape, swap_axes
from cai_reference.errors import LayerError
from cai_reference.layers import HasParameters


class Units(Protocol):
    """What matrices are drawn from: a seeded generator, such as `SplitMix64`."""

    def next_units(self, count: int) -> Array:
        """Return the next `count` doubles in [0, 1)."""
        ...


def xavier_limit(fan_in: int, fan_out: int) -> float:
    """Return sqrt(6 / (fan_in + fan_out))."""
    return math.sqrt(6.0 / float(fan_in + fan_out))


def xavier_uniform(name: str, fan_in: int, fan_out: int, generator: Units) -> Parameter:
    """Draw a matrix [fan_in, fan_out]; on an error nothing is drawn.

    Raises:
        LayerError (empty-name, empty-name-segment, invalid-name-character): looked for before the widths.
        LayerError (zero-fan-in, zero-fan-out): a width is below 1.
    """
    check_name(name)
    if fan_in < 1:
        raise LayerError("zero-fan-in")
    if fan_out < 1:
        raise LayerError("zero-fan-out")
    limit = xavier_limit(fan_in, fan_out)
    # u in [0, 1) becomes [−limit, limit), element by element in row-major order
    values = limit * (2.0 * generator.next_units(fan_in * fan_out) - 1.0)
    return Parameter(name, values.reshape(fan_in, fan_out))


def check_name(name: str) -> None:
    """Refuse a name that is not segments of [a-z0-9_] joined by dots.

    Raises:
        LayerError (empty-name, empty-name-segment, invalid-name-character): with byte positions in the UTF-8 text, the
            first offence
            wins.
    """
    if not name:
        raise LayerError("empty-name")
    allowed = b"abcdefghijklmnopqrstuvwxyz0123456789_"
    data = name.encode("utf-8")
    # a name that begins with a dot has an empty first segment
    previous = ord(".")
    for index, byte in enumerate(data):
        if byte == ord("."):
            if previous == ord("."):
                raise LayerError("empty-name-segment", index=index)
        elif byte not in allowed:
            raise LayerError("invalid-name-character", index=index, byte=byte)
        previous = byte
    if previous == ord("."):
        raise LayerError("empty-name-segment", index=len(data))


def check_unique_names(names: Iterable[str]) -> None:
    """Refuse a registry in which a name stands twice.

    Raises:
        LayerError (duplicate-name): with both positions.
    """
    first_position: dict[str, int] = {}
    for position, name in enumerate(names):
        first = first_position.setdefault(name, position)
        if first != position:
            raise LayerError("duplicate-name", name=name, first=first, repeated=position)


class Projection(HasParameters, Protocol):
    """A map of the last axis."""

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., inputs] to [..., outputs]."""
        ...


@dataclass(frozen=True)
class BiasFree:
    """y = x W, with W [inputs, outputs]."""

    weight: Parameter

    @classmethod
    def initialize(cls, name: str, inputs: int, outputs: int, generator: Units) -> BiasFree:
        """Draw W by Xavier's rule."""
        return cls(xavier_uniform(f"{name}.weight", inputs, outputs, generator))

    def parameters(self) -> Iterator[Parameter]:
        """Yield W."""
        yield self.weight

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., inputs] to [..., outputs]."""
        return _product(tape, x, self.weight)


@dataclass(frozen=True)
class TiedOutput:
    """y = x Eᵀ, with the embedding table E [vocabulary, width]: a logit is the product with a token's own embedding.

    The table is one parameter in two roles, whose gradients add up. It stands at the front of the registry, so it is
    not listed here again (Press and Wolf, "Using the output embedding to improve language models", 2017).
    """

    table: Parameter

    def parameters(self) -> Iterator[Parameter]:
        """Yield nothing."""
        yield from ()

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., width] to [..., vocabulary]."""
        return _product(tape, x, swap_axes(tape, self.table, 0, 1))


def _product(tape: Tape, x: Variable, matrix: Variable) -> Variable:
    """Multiply rows with a matrix that is repeated for every sequence, so that each gives a gradient of its own."""
    # leading axes of 1 broadcast, and their gradient is summed one sequence after the other
    repeated = (1,) * (len(x.shape) - 2)
    return matmul(tape, x, reshape(tape, matrix, (*repeated, *matrix.shape)))


def embedding(
    tape: Tape, table: Variable, ids: Sequence[int], shape: tuple[int, ...], zero_id: int | None = None
) -> Variable:
    """Look `ids`, given flat and laid out as `shape`, up in a table.

    Args:
        tape: what records.
        table: shape [vocabulary, width].
        ids: as many as `shape` holds.
        shape: the layout of the ids, such as [batch, context].
        zero_id: an id whose embedding is the zero vector and whose row is never trained; None where there is none.

    Returns:
        Shape [*shape, width].

    Raises:
        LayerError (table-rank, empty-embedding-vocabulary, zero-table-width): the table is not one.
        LayerError (token-shape, token-count-mismatch, token-id-out-of-bounds): the ids do not fit.
    """
    if len(table.shape) != 2:
        raise LayerError("table-rank", rank=len(table.shape))
    vocabulary, width = table.shape
    if vocabulary == 0:
        raise LayerError("empty-embedding-vocabulary")
    if width == 0:
        raise LayerError("zero-table-width")
    count = 1
    for length in shape:
        if length < 0:
            raise LayerError("token-shape", shape=shape)
        count *= length
    if count != len(ids):
        raise LayerError("token-count-mismatch", expected=count, actual=len(ids))
    for position, token in enumerate(ids):
        if not 0 <= token < vocabulary:
            raise LayerError("token-id-out-of-bounds", position=position, token_id=token, vocabulary_size=vocabulary)
    return gather(tape, table, ids, shape, zero_id)
