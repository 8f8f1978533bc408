"""A net that computes: all layers, their outputs, and the gradients of everything learned.

This is the batch path: whole sequences at once. Layers are stored in an order in which each one reads earlier ones
only, so that going through them backwards visits every consumer of an output before its producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cai_neural_api.errors import GraphShapeError, NetError, NetFormatError
from cai_neural_api.format import NetFile
from cai_neural_api.format.data_line import Volumes, layer_volumes
from cai_neural_api.format.structure_line import check_options
from cai_neural_api.net.layers.attention import WHOLE_SEQUENCE
from cai_neural_api.net.layers.layer import EXACT, GradientRules, Layer, Learned, Saved
from cai_neural_api.net.making import GradientTotals, check_learned, check_neurons, learned_of, make_layer, neurons_of
from cai_neural_api.net.structure import LayerSpec, Shape, layer_shapes
from cai_reference.arithmetic import Arithmetic, Array


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
        NetError: a layer is of an unknown class or asks for what is not supported, the layers do not fit each other, or
            what was learned does not fit the layers.
    """

    def __init__(self, specs: Sequence[LayerSpec], learned: Sequence[Learned | None]) -> None:
        """Take over the arrays in `learned`, one entry a layer; None of a layer that has nothing to learn."""
        self.specs = tuple(specs)
        self.shapes, self._volumes = _sizes(self.specs)
        if len(learned) != len(self.specs):
            raise NetFormatError("layer-count-mismatch", structure=len(self.specs), data=len(learned))
        for index, layer in enumerate(zip(self.specs, self._volumes, learned, strict=True)):
            check_learned(index, *layer)
        self.layers: tuple[Layer, ...] = tuple(
            make_layer(spec, self.shapes[max(spec.previous, 0)].depth, known)
            for spec, known in zip(self.specs, learned, strict=True)
        )
        self.context = self.shapes[0].tokens
        self._inputs = tuple(spec.inputs for spec in self.specs)

    @classmethod
    def from_file(cls, file: NetFile) -> Net:
        """Make a net of a file; the two share nothing.

        Raises:
            NetError: as the class, or the neurons of a layer are not those that it calls for.
        """
        _, volumes = _sizes(file.specs)
        if len(file.neurons) != len(file.specs):
            raise NetFormatError("layer-count-mismatch", structure=len(file.specs), data=len(file.neurons))
        for index, layer in enumerate(zip(file.specs, volumes, file.neurons, strict=True)):
            check_neurons(index, *layer)
        layers = zip(file.specs, file.neurons, strict=True)
        return cls(file.specs, [learned_of(spec, neurons) if neurons else None for spec, neurons in layers])

    def to_file(self) -> NetFile:
        """Return the net as a file would hold it: every value rounded to binary32."""
        layers = zip(self.specs, self.layers, strict=True)
        return NetFile(self.specs, tuple(neurons_of(spec, layer.learned) for spec, layer in layers))

    @property
    def weight_count(self) -> int:
        """How many weights the library counts: biases are not among them."""
        learned = [layer.learned for layer in self.layers if layer.learned is not None]
        return sum(array.size for each in learned for array in each.weights)

    @property
    def hidden_layer(self) -> int:
        """The index of the layer that feeds the output projection: one softmax at the end is skipped, then one layer.

        Of several heads, which end in a concatenation, this is the last softmax, as in the library.
        """
        last = len(self.specs) - 1
        if self.specs[last].kind == "TNNetPointwiseSoftMax":
            last = self.specs[last].previous
        return max(0, self.specs[last].previous)

    def run(self, arithmetic: Arithmetic, values: npt.ArrayLike) -> NetRun:
        """Run all layers on ids [batch, tokens], or on values [batch, tokens, depth] where the input is deeper than 1.

        Raises:
            NetError (wrong-input): there are no tokens, or more than the context.
            NetError (fixed-length): there are fewer, and layers turn tokens into channels that others read by number.
            NetError (net-token-out-of-range): an id has no row in the embedding.
            NetError (non-finite-output): the output is not finite; the error names the first layer whose output is not.
        """
        x = self._batch(values)
        outputs: list[Array] = []
        saved: list[Saved] = []
        with np.errstate(over="ignore", invalid="ignore"):
            for sources, layer in zip(self._inputs, self.layers, strict=True):
                output, kept = layer.forward(arithmetic, [outputs[index] for index in sources] or [x])
                outputs.append(output)
                saved.append(kept)
        self.check_finite(outputs)
        return NetRun(tuple(outputs), tuple(saved))

    def output(self, arithmetic: Arithmetic, values: npt.ArrayLike) -> Array:
        """Return the output alone, as `run` gives it; every other output is forgotten once it has been read.

        Raises:
            NetError: as `run`.
        """
        x = self._batch(values)
        last_reader = {source: index for index, sources in enumerate(self._inputs) for source in sources}
        outputs: dict[int, Array] = {}
        with np.errstate(over="ignore", invalid="ignore"):
            for index, (sources, layer) in enumerate(zip(self._inputs, self.layers, strict=True)):
                outputs[index] = layer.forward(arithmetic, [outputs[source] for source in sources] or [x])[0]
                for source in set(sources):
                    if last_reader[source] == index:
                        del outputs[source]
        result = outputs[len(self.layers) - 1]
        return result if _finite(result) else self.run(arithmetic, values).output

    def gradients(
        self, arithmetic: Arithmetic, run: NetRun, gradient: Array, rules: GradientRules = EXACT
    ) -> tuple[Learned | None, ...]:
        """Return, for each layer, the gradient of what it has learned, given that of the output.

        Raises:
            NetError (wrong-gradient): `gradient` does not have the shape of the output.
        """
        if gradient.shape != run.output.shape:
            raise NetError("wrong-gradient", given=gradient.shape, expected=run.output.shape)
        toward = GradientTotals(len(self.layers))
        toward.add(len(self.layers) - 1, gradient)
        learned: list[Learned | None] = [None] * len(self.layers)
        for index in reversed(range(len(self.layers))):
            arrived, layer = toward.take(index), self.layers[index]
            if arrived is None:
                learned[index] = None if layer.learned is None else layer.learned.like()
                continue
            inputs, learned[index] = layer.backward(arithmetic, run.saved[index], arrived, rules)
            for source, part in zip(self._inputs[index], inputs, strict=True):
                toward.add(source, part)
        return tuple(learned)

    def copy(self) -> Net:
        """Return a net that shares nothing with this one."""
        learned = (layer.learned for layer in self.layers)
        return Net(self.specs, [None if known is None else known.copy() for known in learned])

    def check_finite(self, outputs: Sequence[Array]) -> None:
        """Check the outputs of all layers.

        Raises:
            NetError (non-finite-output): the last one is not finite; the error names the first that is not.
        """
        if _finite(outputs[-1]):
            return
        for index, (spec, output) in enumerate(zip(self.specs, outputs, strict=True)):
            if not _finite(output):
                raise NetError("non-finite-output", layer=index, kind=spec.kind)

    def _batch(self, values: npt.ArrayLike) -> Array:
        x = np.asarray(values, np.float64)
        depth = self.shapes[0].depth
        if x.ndim == 2 and depth == 1:
            x = x[..., None]
        if x.ndim != 3 or x.shape[0] < 1 or not 1 <= x.shape[1] <= self.context or x.shape[2] != depth:
            raise NetError("wrong-input", context=self.context, depth=depth, shape=x.shape)
        if not self._takes(x.shape[1]):
            raise NetError("fixed-length", tokens=x.shape[1], context=self.context)
        return x

    def _takes(self, tokens: int) -> bool:
        if tokens == self.context or not any(isinstance(layer, WHOLE_SEQUENCE) for layer in self.layers):
            return True
        # Tokens become channels: whether fewer of them still fit what reads these channels, their sizes tell.
        first = replace(self.specs[0], integers=(tokens, *self.specs[0].integers[1:]))
        try:
            _, volumes = _sizes((first, *self.specs[1:]))
        except GraphShapeError:
            return False
        return volumes == self._volumes


def _sizes(specs: tuple[LayerSpec, ...]) -> tuple[tuple[Shape, ...], tuple[tuple[Volumes, ...], ...]]:
    check_options(specs)
    shapes = layer_shapes(specs)
    return shapes, layer_volumes(specs, shapes)


def _finite(values: Array) -> bool:
    return bool(np.isfinite(values).all())
