"""The learned layers of a model in net order, each as neurons.

A neuron is a bias and a volume of weights. A convolution has one an output channel, an embedding one with the whole
table, and a layer of vectors (norm, recurrence, token shift) one a vector. The order in which a model registers its
parameters is the order in which the library creates the layers that hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.layers.attention import Attention
from cai_reference.layers.diagonal_ssm import DiagonalSsm
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.feed_forward import FeedForward
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.projection import Dense, GroupedStack, Projection
from cai_reference.models.block import Mixer
from cai_reference.models.decoder import Decoder
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.nets.conversion.errors import WeightBeyondSingle
from cai_reference.nets.format import Neuron

Model: TypeAlias = Decoder | TokenShiftDraft
Size: TypeAlias = tuple[int, int, int]


class LearnedLayer(Protocol):
    """A layer with weights: how its neurons are sized, what they are, and how they are set."""

    @property
    def biased(self) -> bool:
        """Whether the biases of the neurons mean anything."""
        ...

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The size of each neuron's volume."""
        ...

    def neurons(self) -> tuple[Neuron, ...]:
        """Return the parameters, rounded to single precision.

        Raises:
            WeightBeyondSingle: a value is too large for single precision.
        """
        ...

    def assign(self, neurons: Sequence[Neuron]) -> None:
        """Set the parameters; the neurons have the right sizes."""
        ...


@dataclass(frozen=True)
class Table:
    """An embedding: [vocabulary, width] in one neuron."""

    weight: Parameter

    @property
    def biased(self) -> bool:
        """No."""
        return False

    @property
    def sizes(self) -> tuple[Size, ...]:
        """One volume, a token a column of it."""
        vocabulary, width = self.weight.shape
        return ((vocabulary, 1, width),)

    def neurons(self) -> tuple[Neuron, ...]:
        """Return the table, row-major."""
        return (Neuron(0.0, _single(self.weight).reshape(-1), self.sizes[0]),)

    def assign(self, neurons: Sequence[Neuron]) -> None:
        """Set the table."""
        self.weight.assign(neurons[0].weights.reshape(self.weight.shape))


@dataclass(frozen=True)
class Vectors:
    """Vectors of a norm, a recurrence or a shift, one a neuron."""

    parameters: tuple[Parameter, ...]

    @property
    def biased(self) -> bool:
        """No."""
        return False

    @property
    def sizes(self) -> tuple[Size, ...]:
        """One volume a vector."""
        return tuple((1, 1, parameter.shape[0]) for parameter in self.parameters)

    def neurons(self) -> tuple[Neuron, ...]:
        """Return the vectors."""
        pairs = zip(self.parameters, self.sizes, strict=True)
        return tuple(Neuron(0.0, _single(parameter), size) for parameter, size in pairs)

    def assign(self, neurons: Sequence[Neuron]) -> None:
        """Set the vectors."""
        for parameter, neuron in zip(self.parameters, neurons, strict=True):
            parameter.assign(neuron.weights)


@dataclass(frozen=True)
class Convolution:
    """A projection, dense with W [inputs, outputs] or grouped with W [G, inputs/G, outputs/G]; a neuron an output."""

    weight: Parameter
    bias: Parameter

    @property
    def biased(self) -> bool:
        """Yes."""
        return True

    @property
    def sizes(self) -> tuple[Size, ...]:
        """One volume an output, with the inputs that it sees."""
        return ((1, 1, self.weight.shape[-2]),) * self.bias.shape[0]

    def neurons(self) -> tuple[Neuron, ...]:
        """Return a neuron an output channel."""
        rows = np.swapaxes(_single(self.weight), -1, -2).reshape(-1, self.weight.shape[-2])
        biases = _single(self.bias).tolist()
        return tuple(Neuron(bias, row, (1, 1, len(row))) for bias, row in zip(biases, rows, strict=True))

    def assign(self, neurons: Sequence[Neuron]) -> None:
        """Set weights and biases."""
        rows = np.stack([neuron.weights for neuron in neurons])
        *groups, inputs, outputs = self.weight.shape
        self.weight.assign(np.swapaxes(rows.reshape(*groups, outputs, inputs), -1, -2))
        self.bias.assign(np.array([neuron.bias for neuron in neurons]))


def learned_layers(model: Model) -> Iterator[LearnedLayer]:
    """Yield the layers with weights, in the order in which a net has them."""
    yield Table(model.table)
    if isinstance(model, TokenShiftDraft):
        yield Vectors(tuple(model.shift.parameters()))
        yield from _projections(model.hidden, model.output)
        return
    for block in model.blocks:
        yield _norm(block.norm1)
        yield from _mixer(block.mixer)
        if block.norm2 is not None:
            yield _norm(block.norm2)
        yield from _feed_forward(block.feed_forward)
    yield from _projections(model.hidden, *model.outputs)


def _mixer(mixer: Mixer) -> Iterator[LearnedLayer]:
    if isinstance(mixer, Attention):
        yield from _projections(mixer.slab, mixer.output)
    elif isinstance(mixer, LatentAttention):
        yield from _projections(mixer.query, mixer.latent, mixer.key, mixer.value)
        yield from _projections(mixer.rope_query, mixer.rope_key, mixer.output)
    else:
        assert isinstance(mixer, DiagonalSsm)
        yield from _projections(mixer.inner)
        yield Vectors((mixer.a_raw, mixer.b, mixer.c, mixer.e))
        yield from _projections(mixer.output)


def _norm(norm: DynamicTanh) -> Vectors:
    return Vectors((norm.gamma, norm.beta, norm.alpha))


def _feed_forward(layer: FeedForward) -> Iterator[LearnedLayer]:
    yield from _projections(layer.up, layer.down)


def _projections(*projections: Projection) -> Iterator[LearnedLayer]:
    for projection in projections:
        assert isinstance(projection, Dense | GroupedStack)
        parts = (projection,) if isinstance(projection, Dense) else (projection.first, projection.second)
        for part in parts:
            if part is not None:
                yield Convolution(part.weight, part.bias)


def _single(parameter: Parameter) -> Array:
    """Return the values rounded to single precision, as doubles."""
    with np.errstate(over="ignore"):
        rounded = parameter.value.astype(np.float32).astype(np.float64)
    finite = np.isfinite(rounded)
    if not finite.all():
        raise WeightBeyondSingle(parameter.name, float(parameter.value.flat[int(np.argmin(finite))]))
    return rounded
