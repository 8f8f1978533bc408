"""The given model of a decode suite as folders that engines load, plain or changed in ways that must not matter.

| folder | what it is for |
|---|---|
| plain | what the suite ships |
| paired | output columns come in equal pairs, so that every choice is a tie of two ids |
| reordered | the same function, its sums taken in another order: see `reordering` |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cai_conformance.backends.decoder.given import Tensors, in_pairs, native_values, read_given, write_given
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.plan import DECODE_PHASES, sizes_for
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.interchange.configurations import write_configuration
from cai_reference.models.decoder import Decoder
from cai_reference.models.llama import Llama
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.models.stack import DecoderStack

SETTINGS: Final = "config.json"


@dataclass(frozen=True)
class GivenModel:
    """A suite's model, its sizes, and the file of its given weights."""

    phase: DecodePhase
    sizes: Sizes
    weights: bytes

    @classmethod
    def of(cls, request: TraceRequest) -> GivenModel | None:
        """Return the model that a request gives; None where its suite is not one of decoders."""
        phase = next((phase for phase in DECODE_PHASES if phase.suite == request.suite), None)
        if phase is None or not request.weights:
            return None
        return cls(phase, sizes_for(phase, "golden", 0), request.weights)

    @cached_property
    def model(self) -> DecoderStack:
        """The reference's model with these weights."""
        return read_given(self.phase, self.sizes, self.weights)

    @cached_property
    def tensors(self) -> Tensors:
        """The values by the reference's names."""
        return native_values(self.phase, self.weights)

    @cached_property
    def paired(self) -> Tensors:
        """The values with output columns in equal pairs."""
        changed = dict(self.tensors)
        for parameter in self.model.parameters:
            axis = self.phase.output_axis(parameter)
            if axis is not None:
                value = changed[parameter.name].reshape(parameter.shape)
                changed[parameter.name] = in_pairs(value, axis)
        return changed

    @cached_property
    def paired_model(self) -> DecoderStack:
        """The reference's model with output columns in equal pairs."""
        return read_given(self.phase, self.sizes, self.weights, tied=True)

    def files(self, values: Tensors | None = None) -> dict[str, bytes]:
        """Return the files of a model folder, with other values if given."""
        model = self.model
        settings = dict(self.phase.model_files(self.sizes, model.configuration.vocabulary))
        if SETTINGS not in settings:
            settings[SETTINGS] = (settings_of(model) + "\n").encode("utf-8")
        weights = self.weights if values is None else write_given(self.phase, values)
        return {self.phase.weights_layout.file: weights, **settings}


def model_folder(request: TraceRequest) -> dict[str, bytes]:
    """Return the weights of a request and what stands beside them, by file name; nothing where it gives none."""
    given = GivenModel.of(request)
    if given is not None:
        return given.files()
    return {WeightsLayout.NATIVE.file: request.weights} if request.weights else {}


@contextmanager
def folder_of(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Write files into a folder that is gone afterwards."""
    with TemporaryDirectory(prefix="cai-conform-") as name:
        folder = Path(name)
        for file, data in files.items():
            (folder / file).write_bytes(data)
        yield folder


def settings_of(model: DecoderStack) -> str:
    """Return the settings of a model in the words of this project, as one line of JSON."""
    if isinstance(model, Decoder):
        return write_configuration(model.configuration)
    assert isinstance(model, Llama)
    return _llama_settings(model.configuration)


def _llama_settings(sizes: LlamaConfiguration) -> str:
    settings = {
        "model": "llama",
        "vocabulary": sizes.vocabulary,
        "context": sizes.context,
        "width": sizes.width,
        "heads": sizes.heads,
        "feed_forward": sizes.feed_forward,
        "layers": sizes.layers,
        "key_value_heads": sizes.groups,
        "head_width": sizes.features,
        "window": sizes.window,
        "tied": sizes.tied,
        "rope_base": sizes.rope_base,
        "rope_layout": sizes.rope_layout.value,
        "rope_frequencies": sizes.rope_frequencies.value,
        "epsilon": sizes.epsilon,
        "norm": sizes.norm.value,
    }
    return json.dumps(settings, allow_nan=False)
