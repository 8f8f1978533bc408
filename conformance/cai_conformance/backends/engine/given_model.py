"""The given model of a decode suite: as folders that engines load, and in an engine that holds one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.engine import Description, Engine, Loaded
from cai_conformance.fixtures.configurations import write_configuration
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES, sizes_for
from cai_conformance.fixtures.given_weights import Tensors, in_pairs, native_values, read_given, write_given
from cai_conformance.fixtures.phases import DecodePhase
from cai_conformance.fixtures.sizes import Sizes
from cai_conformance.fixtures.weight_files import WeightsLayout
from cai_reference.models.decoder import Decoder
from cai_reference.models.llama import Llama, LlamaConfiguration
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


@dataclass(frozen=True)
class _Variant:
    """A model folder: a name, values if they are not the suite's, and a format if it is not the engine's own."""

    name: str
    values: Tensors | None
    precision: str | None


_PLAIN: Final = _Variant("plain", None, None)


class Holding:
    """Whose model an engine holds, where it serves one suite after the other."""

    def __init__(self) -> None:
        self.owner: OpenedModel | None = None


class OpenedModel:
    """The given model of one suite, in an engine.

    Attributes:
        engine: what is driven.
        given: the model.
        loaded: what the engine said about the folder that it loaded last.
    """

    def __init__(self, engine: Engine, given: GivenModel, holding: Holding | None = None) -> None:
        """Load nothing yet.

        Args:
            engine: what is driven.
            given: the model.
            holding: shared by all models that one engine is asked about; of its own if None.
        """
        self.engine, self.given = engine, given
        self.loaded = Loaded()
        self._holding = Holding() if holding is None else holding
        self._wanted = _PLAIN
        self._holds: tuple[str, str | None] | None = None

    @property
    def description(self) -> Description:
        """Who the engine is."""
        return self.engine.description

    def load(self, *, tied: bool = False) -> Loaded:
        """Have the model loaded unless it is the one that the engine holds; all slots are empty after a load.

        Args:
            tied: whether every choice is a tie of two ids.

        Raises:
            EngineError: the engine refuses, or failed.
        """
        return self._load(_Variant("paired", self.given.paired, None) if tied else self._wanted)

    @contextmanager
    def changed(self, name: str, values: Tensors | None = None, precision: str | None = None) -> Iterator[None]:
        """Let `load` mean a changed model for a while.

        Args:
            name: of the values, by which they are known again.
            values: by the reference's names; the suite's own if None.
            precision: one of the engine's formats; its own if None.
        """
        before, self._wanted = self._wanted, _Variant(name, values, precision)
        try:
            yield
        finally:
            self._wanted = before

    def forget(self) -> None:
        """Load anew at the next call, whatever the engine holds: its weights were trained, or another suite's."""
        self._holds = None

    def _load(self, variant: _Variant) -> Loaded:
        if self._holding.owner is not self or self._holds != (variant.name, variant.precision):
            self._holds, self._holding.owner = None, self
            with folder_of(self.given.files(variant.values)) as folder:
                self.loaded = self.engine.load(folder, variant.precision)
            self._holds = (variant.name, variant.precision)
        return self.loaded
