"""Reading a model folder into the reference, as a foreign engine would: from its files alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors.numpy import load

from cai_conformance.backends.decoder import hugging_face
from cai_conformance.backends.decoder.given import Tensors
from cai_conformance.backends.decoder.plan import DECODE_PHASES
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_conformance.engines.given_model import SETTINGS
from cai_conformance.engines.tensor_names import file_tensors
from cai_conformance.interchange.configurations import read_configuration
from cai_reference.arithmetic import Array
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import DecoderConfiguration
from cai_reference.models.llama import Llama
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.models.stack import DecoderStack, Sizes
from cai_reference.splitmix import SplitMix64

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
        return tuple(map(hugging_face.native_name, names))


def read_folder(folder: Path) -> FolderModel:
    """Read the settings and weights of a model folder.

    Raises:
        OSError: a file cannot be read.
        ValueError: the settings or tensors are not those of a model of the reference.
        CaiReferenceError: the sizes do not fit.
    """
    text = (folder / SETTINGS).read_text(encoding="utf-8")
    settings = json.loads(text)
    if not isinstance(settings, dict):
        raise ValueError(f"{SETTINGS} is no object")
    if "hidden_size" in settings:
        data = (folder / WeightsLayout.HUGGING_FACE.file).read_bytes()
        values = hugging_face.read_tensors(data)
        return _filled(Llama.initialize(_hugging_face(settings), SplitMix64(0)), values, WeightsLayout.HUGGING_FACE)
    data = (folder / WeightsLayout.NATIVE.file).read_bytes()
    values = {name: np.asarray(value, dtype=np.float64) for name, value in load(data).items()}
    if settings.get("model") == "llama":
        return _filled(Llama.initialize(_llama(settings), SplitMix64(0)), values)
    sizes = read_configuration(text)
    if not isinstance(sizes, DecoderConfiguration):
        raise ValueError(f"{SETTINGS} describes no decoder")
    return _filled(Decoder.initialize(sizes, SplitMix64(0)), values)


def _filled(model: DecoderStack, values: Tensors, layout: WeightsLayout = WeightsLayout.NATIVE) -> FolderModel:
    names = {parameter.name for parameter in model.parameters}
    if names != set(values):
        raise ValueError(f"tensors differ: {', '.join(sorted(names ^ set(values))[:3])}")
    for parameter in model.parameters:
        parameter.assign(values[parameter.name].reshape(parameter.shape))
    sizes = model.configuration
    assert isinstance(sizes, DecoderConfiguration | LlamaConfiguration)
    return FolderModel(model, _conventions(sizes), layout)


@lru_cache(maxsize=len(DECODE_PHASES))
def _conventions(found: DecoderConfiguration | LlamaConfiguration) -> Mapping[str, str]:
    """Return what the reference says of a model: the words of the suite whose model it is."""
    for phase in DECODE_PHASES:
        sizes = phase.golden_sizes
        built = phase.initialized(sizes, found.vocabulary, SplitMix64(0))
        if _spelt_out(built.configuration) == _spelt_out(found):
            return dict(phase.conventions(sizes))
    return {}


def _spelt_out(sizes: Sizes) -> Sizes:
    """Return a configuration with what it leaves to its defaults written out."""
    if isinstance(sizes, LlamaConfiguration):
        return replace(sizes, key_value_heads=sizes.groups, head_width=sizes.features)
    return sizes


def _hugging_face(settings: Mapping[str, Any]) -> LlamaConfiguration:
    return LlamaConfiguration(
        settings["vocab_size"],
        CONTEXT,
        settings["hidden_size"],
        settings["num_attention_heads"],
        settings["intermediate_size"],
        settings["num_hidden_layers"],
        key_value_heads=settings["num_key_value_heads"],
        head_width=settings["head_dim"],
        window=settings["sliding_window"],
        tied=settings["tie_word_embeddings"],
        rope_base=settings["rope_theta"],
        epsilon=settings["rms_norm_eps"],
    )


def _llama(settings: Mapping[str, Any]) -> LlamaConfiguration:
    return LlamaConfiguration(
        settings["vocabulary"],
        settings["context"],
        settings["width"],
        settings["heads"],
        settings["feed_forward"],
        settings["layers"],
        key_value_heads=settings["key_value_heads"],
        head_width=settings["head_width"],
        window=settings["window"],
        tied=settings["tied"],
        rope_base=settings["rope_base"],
        rope_layout=RopeLayout(settings["rope_layout"]),
        rope_frequencies=Frequencies(settings["rope_frequencies"]),
        epsilon=settings["epsilon"],
        norm=InverseForm(settings["norm"]),
    )
