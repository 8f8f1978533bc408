"""Projections with bias, y = x W + b: dense, or in groups.

W has shape [inputs, outputs]; x has shape [..., inputs]. Every output is the whole ascending sum over the inputs, to
which the bias, where there is one, is added last (course, chapter 19).

A grouped projection splits inputs and outputs into G contiguous groups and maps each group by itself, with G times
fewer weights. To let groups talk, its outputs are interleaved, and where there are at least as many inputs as outputs
a second grouped map follows, to which the first is added as a residual (CAI NEURAL API, "auto-grouped pointwise
convolution").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.features import permute_channels
from cai_reference.autograd.operations import add, matmul, reshape, swap_axes
from cai_reference.errors import LayerError
from cai_reference.layers.matrices import Projection, Units, check_name, xavier_limit, xavier_uniform


class LinearError(LayerError):
    """A linear map cannot be applied."""

    templates: ClassVar[Mapping[str, str]] = {
        # A weight has an input axis and an output axis.
        "weight-rank": "a linear weight has 2 axes, found {rank}",
        # A weight has no inputs.
        "zero-input-width": "a linear weight needs at least one input",
        # A weight has no outputs.
        "zero-output-width": "a linear weight needs at least one output",
        # A bias has one axis.
        "bias-rank": "a bias has 1 axis, found {rank}",
        # A bias has another width than the output.
        "bias-width-mismatch": "expected a bias of width {expected}, found {actual}",
        # An input needs at least the feature axis and one before it.
        "input-rank": "a linear input has at least 2 axes, found {rank}",
        # An input has another width than the weight takes.
        "input-width-mismatch": "expected an input of width {expected}, found {actual}",
    }


def linear(tape: Tape, x: Variable, weight: Variable, bias: Variable | None = None) -> Variable:
    """Return x W + b.

    Args:
        tape: what records.
        x: shape [..., inputs], at least 2 axes.
        weight: shape [inputs, outputs].
        bias: shape [outputs], or None.

    Returns:
        Shape [..., outputs].

    Raises:
        LinearError (weight-rank, zero-input-width, zero-output-width): the weight is not a matrix.
        LinearError (bias-rank, bias-width-mismatch): the bias does not fit it.
        LinearError (input-rank, input-width-mismatch): the input does not fit it.
    """
    if len(weight.shape) != 2:
        raise LinearError("weight-rank", rank=len(weight.shape))
    inputs, outputs = weight.shape
    if inputs == 0:
        raise LinearError("zero-input-width")
    if outputs == 0:
        raise LinearError("zero-output-width")
    if bias is not None:
        if len(bias.shape) != 1:
            raise LinearError("bias-rank", rank=len(bias.shape))
        if bias.shape[0] != outputs:
            raise LinearError("bias-width-mismatch", expected=outputs, actual=bias.shape[0])
    if len(x.shape) < 2:
        raise LinearError("input-rank", rank=len(x.shape))
    if x.shape[-1] != inputs:
        raise LinearError("input-width-mismatch", expected=inputs, actual=x.shape[-1])
    product = matmul(tape, x, weight)
    return product if bias is None else add(tape, product, bias)


@dataclass(frozen=True)
class Dense:
    """y = x W + b, with W [inputs, outputs] and b [outputs]."""

    weight: Parameter
    bias: Parameter

    @classmethod
    def initialize(cls, name: str, inputs: int, outputs: int, generator: Units) -> Dense:
        """Draw W by Xavier's rule; b is zero and draws nothing."""
        weight = xavier_uniform(f"{name}.weight", inputs, outputs, generator)
        return cls(weight, Parameter(f"{name}.bias", np.zeros(outputs)))

    def parameters(self) -> Iterator[Parameter]:
        """Yield W, b."""
        yield from (self.weight, self.bias)

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., inputs] to [..., outputs]; the bias is added after the whole sum."""
        return linear(tape, x, self.weight, self.bias)


@dataclass(frozen=True)
class GroupedLinear:
    """G maps side by side: W [G, inputs/G, outputs/G] and b [outputs]. Groups are contiguous, never strided."""

    weight: Parameter
    bias: Parameter

    @classmethod
    def initialize(cls, name: str, inputs: int, outputs: int, groups: int, generator: Units) -> GroupedLinear:
        """Draw W group by group, with the fans of one group; b is zero and draws nothing."""
        check_name(f"{name}.weight")
        shape = (groups, inputs // groups, outputs // groups)
        limit = xavier_limit(shape[1], shape[2])
        drawn = limit * (2.0 * generator.next_units(shape[0] * shape[1] * shape[2]) - 1.0)
        weight = Parameter(f"{name}.weight", drawn.reshape(shape))
        return cls(weight, Parameter(f"{name}.bias", np.zeros(outputs)))

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self.weight.shape[0]

    def parameters(self) -> Iterator[Parameter]:
        """Yield W, b."""
        yield from (self.weight, self.bias)

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., inputs] to [..., outputs], group by group."""
        groups, inputs, outputs = self.weight.shape
        rows = x.value.size // (groups * inputs)
        # groups in front, so that each is a product of its own
        split = swap_axes(tape, reshape(tape, x, (rows, groups, inputs)), 0, 1)
        mapped = swap_axes(tape, matmul(tape, split, self.weight), 0, 1)
        return add(tape, reshape(tape, mapped, (*x.shape[:-1], groups * outputs)), self.bias)


@dataclass(frozen=True)
class GroupedStack:
    """A grouped map, the interleaving of its outputs, and a second grouped map around which the first is a residual.

    `second` is None where there are fewer inputs than outputs; the interleaving stays, and permutes the result.
    """

    first: GroupedLinear
    second: GroupedLinear | None
    interleaved: bool

    @classmethod
    def initialize(
        cls, name: str, inputs: int, outputs: int, channels_per_group: int, generator: Units, *, mix: bool = True
    ) -> GroupedStack:
        """Choose the largest number of groups that leaves `channels_per_group` inputs to each, and draw the weights.

        Without `mix` the groups do not talk: one grouped map, no interleaving.
        """
        groups = group_count(inputs, outputs, channels_per_group)
        first = GroupedLinear.initialize(f"{name}.first", inputs, outputs, groups, generator)
        interleaved = mix and groups > 1
        second = None
        if interleaved and inputs >= outputs:
            second = GroupedLinear.initialize(f"{name}.second", outputs, outputs, groups, generator)
        return cls(first, second, interleaved)

    def parameters(self) -> Iterator[Parameter]:
        """Yield the first map, then the second, if there is one."""
        yield from self.first.parameters()
        if self.second is not None:
            yield from self.second.parameters()

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., inputs] to [..., outputs]."""
        first = self.first(tape, x)
        if not self.interleaved:
            return first
        outputs = first.shape[-1]
        mixed = permute_channels(tape, first, interleaving(outputs, outputs // self.first.groups))
        # the residual is around the second map, from before the interleaving
        return mixed if self.second is None else add(tape, self.second(tape, mixed), first)


def group_count(inputs: int, outputs: int, channels_per_group: int) -> int:
    """Return the largest common divisor of both widths that is at most min(inputs, outputs, inputs / channels)."""
    most = max(1, min(inputs, outputs, inputs // channels_per_group))
    # group counts have to divide both widths
    return max(groups for groups in range(1, most + 1) if inputs % groups == 0 and outputs % groups == 0)


def interleaving(width: int, step: int) -> list[int]:
    """Return where each feature of an interleaved vector comes from.

    Feature i moves to T(i) = ((i · step) mod width + (i · step) div width) mod width; where step divides the width this
    lays the features out as `step` rows and reads them column by column.
    """
    sources = [0] * width
    for source in range(width):
        product = source * step
        # the feature that moves to this place
        sources[(product % width + product // width) % width] = source
    return sources


def project(
    name: str, inputs: int, outputs: int, channels_per_group: int | None, generator: Units, *, mix: bool = True
) -> Projection:
    """Make a dense projection, or a grouped stack where a number of channels per group is given."""
    if channels_per_group is None:
        return Dense.initialize(name, inputs, outputs, generator)
    return GroupedStack.initialize(name, inputs, outputs, channels_per_group, generator, mix=mix)
