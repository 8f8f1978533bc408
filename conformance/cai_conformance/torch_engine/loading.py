"""Model folders: which model a `config.json` describes, and the weights beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load

from cai_conformance.goldens import strict_json
from cai_conformance.interchange.configurations import read_configuration
from cai_conformance.torch_engine.cai_decoder import cai_decoder
from cai_conformance.torch_engine.conventions import cai_conventions, llama_conventions
from cai_conformance.torch_engine.llama import hugging_face_name, llama, reference_name
from cai_conformance.torch_engine.llama_settings import LlamaSettings
from cai_conformance.torch_engine.stack import Stack
from cai_conformance.torch_engine.weights import Place, fill, places_of
from cai_reference.models.decoder_configuration import DecoderConfiguration

SETTINGS: Final = "config.json"
HUGGING_FACE: Final = "model.safetensors"
REFERENCE: Final = "weights.safetensors"


@dataclass(frozen=True)
class OpenedModel:
    """A model and what its folder says.

    Attributes:
        stack: the model, its weights filled in.
        places: where each parameter stands in the file, by the model's names.
        context: the longest sequence.
        conventions: what the model follows, in the words of a CONVENTION record.
    """

    stack: Stack
    places: Mapping[str, Place]
    context: int
    conventions: Mapping[str, str]


@dataclass(frozen=True)
class _Described:
    """A model without weights, and how its file is to be read."""

    build: Callable[[], Stack]
    name_in_file: Callable[[str], str]
    file: str
    context: int
    conventions: Mapping[str, str]


def open_folder(folder: Path, dtype: torch.dtype, device: torch.device) -> OpenedModel:
    """Load a model folder in a format.

    Raises:
        OSError: a file cannot be read.
        ValueError: it describes no model that there is, or the weights do not fit; the message says why.
    """
    described = _described((folder / SETTINGS).read_bytes())
    try:
        tensors = load((folder / described.file).read_bytes())
    except OSError:
        raise
    except Exception as error:
        # The library's own error is of a type that it does not name.
        raise ValueError(f"{described.file} cannot be read: {error}") from error
    # What the modules draw for a start is not needed, and must not move the caller's generator.
    with torch.random.fork_rng(devices=[]):
        stack = described.build()
    places = places_of(stack, described.name_in_file, transposed=described.file == REFERENCE)
    fill(stack, places, tensors, dtype, device)
    return OpenedModel(stack, places, described.context, described.conventions)


def _described(data: bytes) -> _Described:
    settings = strict_json.parse(data)
    if not isinstance(settings, dict):
        raise ValueError(f"{SETTINGS} is no object")
    if "model_type" in settings:
        sizes = LlamaSettings.of_hugging_face(settings)
        return _Described(
            lambda: llama(sizes), hugging_face_name, HUGGING_FACE, sizes.context, llama_conventions(sizes)
        )
    if settings.get("model") == "llama":
        native = LlamaSettings.of_reference(settings)
        return _Described(lambda: llama(native), reference_name, REFERENCE, native.context, llama_conventions(native))
    decoder = read_configuration(data.decode("utf-8"))
    if not isinstance(decoder, DecoderConfiguration):
        raise ValueError(f"{SETTINGS} describes a draft, not a decoder")
    return _Described(
        lambda: cai_decoder(decoder), lambda name: name, REFERENCE, decoder.context, cai_conventions(decoder)
    )
