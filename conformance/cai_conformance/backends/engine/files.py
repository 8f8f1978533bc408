"""Reading a model folder into the reference, as a foreign engine would, and naming tensors as its file does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from cai_conformance import strict_json
from cai_conformance.backends.engine.given_model import SETTINGS
from cai_conformance.engine import EngineError
from cai_conformance.errors import InputError
from cai_conformance.fixtures import weight_files
from cai_conformance.fixtures.configurations import ModelSettings, read_configuration, tensor_shapes
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES
from cai_conformance.fixtures.given_weights import Tensors
from cai_conformance.fixtures.phases import DecodePhase
from cai_conformance.fixtures.weight_files import WeightsLayout, read_tensor_file
from cai_reference.arithmetic import Array
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.decoder import Decoder, DecoderConfiguration
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.models.stack import DecoderStack, StackSizes
from cai_reference.splitmix import SplitMix64
from cai_reference.training.model_kinds import least_weights


def file_names(layout: WeightsLayout, names: Iterable[str]) -> tuple[str, ...]:
    """Return what the file calls parameters of the reference."""
    if layout is WeightsLayout.NATIVE:
        return tuple(names)
    return tuple(map(weight_files.hugging_face_name, names))


def native_tensors(layout: WeightsLayout, tensors: Mapping[str, Array]) -> Tensors:
    """Return tensors of the file's names and shapes by the reference's.

    Raises:
        KeyError: a name is none of the file's.
    """
    if layout is WeightsLayout.NATIVE:
        return dict(tensors)
    values: Tensors = {}
    for name, tensor in tensors.items():
        ours = weight_files.native_name(name)
        values[ours] = np.ascontiguousarray(tensor.T) if weight_files.is_transposed(ours) else tensor
    return values


def file_tensors(layout: WeightsLayout, tensors: Mapping[str, Array]) -> Tensors:
    """Return parameters of the reference by the file's names, in the file's shapes."""
    if layout is WeightsLayout.NATIVE:
        return dict(tensors)
    return {
        weight_files.hugging_face_name(name): np.ascontiguousarray(
            tensor.T if weight_files.is_transposed(name) else tensor
        )
        for name, tensor in tensors.items()
    }


def answered_tensors(layout: WeightsLayout, found: Mapping[str, Array], wanted: Tensors, engine: str) -> Tensors:
    """Return what an engine gave by the file's names, by the reference's.

    Raises:
        EngineError (answer-out-of-shape): some are missing, unknown or of another shape than those wanted.
    """
    try:
        named = native_tensors(layout, found)
    except KeyError as error:
        raise EngineError(
            "answer-out-of-shape", engine=engine, found=f"a tensor {error}", wanted="those of the model's file"
        ) from None
    return checked(named, wanted, engine)


def checked(found: Tensors, wanted: Tensors, engine: str) -> Tensors:
    """Return the wanted tensors of what an engine gave.

    Raises:
        EngineError (answer-out-of-shape): one is missing, or of another shape.
    """
    for name, value in wanted.items():
        if name not in found or found[name].shape != value.shape:
            got = "nothing" if name not in found else f"shape {list(found[name].shape)}"
            raise EngineError(
                "answer-out-of-shape",
                engine=engine,
                found=got,
                wanted=f"the tensor {name} of shape {list(value.shape)}",
            )
    return {name: found[name] for name in wanted}


CONTEXT: Final = 48
"""How many tokens the folders of engines are asked about; their settings state positions, which are more."""


@dataclass(frozen=True)
class FolderModel:
    """A model, the conventions that its reader follows, and how its file names tensors."""

    model: DecoderStack
    conventions: Mapping[str, str]
    layout: WeightsLayout

    def file_tensors(self, tensors: Mapping[str, Array]) -> Tensors:
        """Return parameters by the file's names, in the file's shapes."""
        return file_tensors(self.layout, tensors)

    def native_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the reference's names of tensors of the file.

        Raises:
            KeyError: a name is none of the file's.
        """
        if self.layout is WeightsLayout.NATIVE:
            return tuple(names)
        return tuple(map(weight_files.native_name, names))


def read_folder(folder: Path) -> FolderModel:
    """Read the settings and weights of a model folder.

    No size in the settings is believed before the tensors are found to have it.

    Raises:
        OSError: a file cannot be read.
        ValueError: the settings or tensors are not those of a model of the reference.
        CaiReferenceError: the sizes do not fit.
    """
    text = (folder / SETTINGS).read_bytes()
    settings = strict_json.parse(text)
    if not isinstance(settings, dict):
        raise ValueError(f"{SETTINGS} is no object")
    stated = ModelSettings(settings)
    hugging_face_names = "hidden_size" in settings
    layout = WeightsLayout.HUGGING_FACE if hugging_face_names else WeightsLayout.NATIVE
    data = (folder / layout.file).read_bytes()
    try:
        values = weight_files.read_tensors(data) if hugging_face_names else read_tensor_file(data, layout.file)
        if hugging_face_names or settings.get("model") == "llama":
            sizes = _hugging_face(stated) if hugging_face_names else _llama(stated)
            needed, found = least_weights(sizes), sum(value.size for value in values.values())
            if needed > found:
                raise ValueError(f"{SETTINGS} describes more weights than the {found} of {layout.file}")
            return _filled(Llama.initialize(sizes, SplitMix64(0)), values, layout)
        described = read_configuration(text.decode("utf-8"))
        if not isinstance(described, DecoderConfiguration):
            raise ValueError(f"{SETTINGS} describes no decoder")
        for name, shape in tensor_shapes(described):
            _check_size(values, name, shape)
    except InputError as error:
        if error.code != "input-unreadable":
            raise
        raise ValueError(str(error)) from error
    return _filled(Decoder.initialize(described, SplitMix64(0)), values)


def _filled(model: Decoder | Llama, values: Tensors, layout: WeightsLayout = WeightsLayout.NATIVE) -> FolderModel:
    names = {parameter.name for parameter in model.parameters}
    if names != set(values):
        raise ValueError(f"tensors differ: {', '.join(sorted(names ^ set(values))[:3])}")
    for parameter in model.parameters:
        _check_size(values, parameter.name, parameter.shape)
        parameter.assign(values[parameter.name].reshape(parameter.shape))
    return FolderModel(model, _conventions(model.configuration), layout)


def _check_size(values: Tensors, name: str, shape: tuple[int, ...]) -> None:
    if name not in values:
        raise ValueError(f"tensors differ: {name}")
    if values[name].size != prod(shape):
        raise ValueError(f"the tensor {name!r} has the shape {list(values[name].shape)}, not {list(shape)}")


@lru_cache(maxsize=len(DECODE_PHASES))
def _conventions(found: DecoderConfiguration | LlamaConfiguration) -> Mapping[str, str]:
    """Return what the reference says of a model: the words of the suite whose model it is."""
    for phase, built in _suite_models():
        if replace(built, vocabulary=found.vocabulary) == _spelt_out(found):
            return dict(phase.conventions(phase.golden_sizes))
    return {}


@lru_cache(maxsize=1)
def _suite_models() -> tuple[tuple[DecodePhase, DecoderConfiguration | LlamaConfiguration], ...]:
    """Return the model of each suite, spelt out, at the least vocabulary: to learn it, all of them have to be drawn."""
    return tuple(
        (phase, _spelt_out(phase.initialized(phase.golden_sizes, 1, SplitMix64(0)).configuration))
        for phase in DECODE_PHASES
    )


def _spelt_out(sizes: StackSizes) -> DecoderConfiguration | LlamaConfiguration:
    """Return a configuration with what it leaves to its defaults written out."""
    if isinstance(sizes, LlamaConfiguration):
        return replace(sizes, key_value_heads=sizes.groups, head_width=sizes.features)
    assert isinstance(sizes, DecoderConfiguration)
    return sizes


def _hugging_face(settings: ModelSettings) -> LlamaConfiguration:
    return LlamaConfiguration(
        settings.size("vocab_size"),
        CONTEXT,
        settings.size("hidden_size"),
        settings.size("num_attention_heads"),
        settings.size("intermediate_size"),
        settings.size("num_hidden_layers"),
        key_value_heads=settings.optional_size("num_key_value_heads"),
        head_width=settings.optional_size("head_dim"),
        window=settings.optional_size("sliding_window"),
        tied=settings.flag("tie_word_embeddings"),
        rope_base=settings.real("rope_theta"),
        epsilon=settings.real("rms_norm_eps"),
    )


def _llama(settings: ModelSettings) -> LlamaConfiguration:
    return LlamaConfiguration(
        settings.size("vocabulary"),
        settings.size("context"),
        settings.size("width"),
        settings.size("heads"),
        settings.size("feed_forward"),
        settings.size("layers"),
        key_value_heads=settings.optional_size("key_value_heads"),
        head_width=settings.optional_size("head_width"),
        window=settings.optional_size("window"),
        tied=settings.flag("tied"),
        rope_base=settings.real("rope_base"),
        rope_layout=RopeLayout(settings.word("rope_layout", list(RopeLayout))),
        rope_frequencies=Frequencies(settings.word("rope_frequencies", list(Frequencies))),
        epsilon=settings.real("epsilon"),
        norm=InverseForm(settings.word("norm", list(InverseForm))),
    )
