"""A net that computes: all layers, their outputs, and the gradients of everything learned.

This is the batch path: whole sequences at once. Layers are stored in an order in which each one reads earlier ones
only, so that going through them backwards visits every consumer of an output before its producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.nets.format import NetFile
from cai_reference.nets.graph.errors import NonFiniteOutput, WrongGradient, WrongInput
from cai_reference.nets.graph.layers.layer import EXACT, GradientRules, Layer, Learned, Saved
from cai_reference.nets.graph.making import learned_of, make_layer, neurons_of
from cai_reference.nets.shapes import layer_shapes
from cai_reference.nets.structure import LayerSpec


@dataclass(frozen=True)
class NetRun:
    """The outputs of all layers [batch, tokens, depth], and what their gradients need."""

    outputs: tuple[Array, ...]
    saved: tuple[Saved, ...]

    @property
    def output(self) -> Array:
        """The output of the last layer."""
        return self.outputs[-1]


class Net:
    """Layers with what they have learned, which an optimiser changes in place.

    Attributes:
        specs: the layers as their file states them.
        shapes: the tokens and the depth of each layer's output.
        layers: the same layers, able to compute.
        context: the longest sequence.

    Raises:
        NetError: the layers do not fit each other, or one of them is of an unknown class.
    """

    def __init__(self, specs: Sequence[LayerSpec], learned: Sequence[Learned]) -> None:
        self.specs = tuple(specs)
        self.shapes = layer_shapes(self.specs)
        self.layers: tuple[Layer, ...] = tuple(
            make_layer(index, spec, known, self.shapes[spec.inputs[0]].depth if spec.inputs else 1)
            for index, (spec, known) in enumerate(zip(self.specs, learned, strict=True))
        )
        self.context = self.specs[0].integers[0]

    @classmethod
    def from_file(cls, file: NetFile) -> Net:
        """Make a net of a file; the two share nothing."""
        return cls(file.specs, [learned_of(*layer) for layer in zip(file.specs, file.neurons, strict=True)])

    def to_file(self) -> NetFile:
        """Return the net as a file would hold it: every value rounded to binary32."""
        neurons = (neurons_of(spec, layer.learned) for spec, layer in zip(self.specs, self.layers, strict=True))
        return NetFile(self.specs, tuple(neurons))

    @property
    def weight_count(self) -> int:
        """How many weights the library counts: biases are not among them."""
        learned = [layer.learned for layer in self.layers if layer.learned is not None]
        return sum(array.size for each in learned for array in each.weights)

    def run(self, arithmetic: Arithmetic, ids: npt.ArrayLike) -> NetRun:
        """Run all layers on ids [batch, tokens].

        Raises:
            WrongInput: there are no tokens, or more than the context.
            NetTokenOutOfRange: an id has no row in the embedding.
            NonFiniteOutput: a layer's output left the range of binary64.
        """
        x = np.asarray(ids, np.float64)
        if x.ndim != 2 or not 1 <= x.shape[1] <= self.context:
            raise WrongInput(self.context, x.shape)
        outputs: list[Array] = []
        saved: list[Saved] = []
        with np.errstate(over="ignore", invalid="ignore"):
            for spec, layer in zip(self.specs, self.layers, strict=True):
                inputs = [outputs[index] for index in spec.inputs] or [x[..., None]]
                output, kept = layer.forward(arithmetic, inputs)
                outputs.append(output)
                saved.append(kept)
        self._check(outputs)
        return NetRun(tuple(outputs), tuple(saved))

    def gradients(
        self, arithmetic: Arithmetic, run: NetRun, gradient: Array, rules: GradientRules = EXACT
    ) -> tuple[Learned | None, ...]:
        """Return, for each layer, the gradient of what it has learned, given that of the output.

        Raises:
            WrongGradient: `gradient` does not have the shape of the output.
        """
        if gradient.shape != run.output.shape:
            raise WrongGradient(gradient.shape, run.output.shape)
        toward: list[Array | None] = [None] * len(self.layers)
        toward[-1] = gradient
        learned: list[Learned | None] = [None] * len(self.layers)
        for index in reversed(range(len(self.layers))):
            arrived, layer = toward[index], self.layers[index]
            if arrived is None:
                learned[index] = None if layer.learned is None else layer.learned.like()
                continue
            inputs, learned[index] = layer.backward(arithmetic, run.saved[index], arrived, rules)
            for source, part in zip(self.specs[index].inputs, inputs, strict=True):
                before = toward[source]
                toward[source] = part if before is None else before + part
            toward[index] = None
        return tuple(learned)

    def copy(self) -> Net:
        """Return a net that shares nothing with this one."""
        learned = (layer.learned for layer in self.layers)
        return Net(self.specs, [Learned((), np.zeros(0)) if known is None else known.copy() for known in learned])

    def _check(self, outputs: Sequence[Array]) -> None:
        if np.all(np.isfinite(outputs[-1])):
            return
        for index, (spec, output) in enumerate(zip(self.specs, outputs, strict=True)):
            if not np.all(np.isfinite(output)):
                raise NonFiniteOutput(index, spec.kind)
