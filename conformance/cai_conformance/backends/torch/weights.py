"""From a model folder to a model with its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load
from torch import nn

from cai_conformance import strict_json
from cai_conformance.backends.torch.llama_settings import LlamaSettings, cai_conventions, llama_conventions
from cai_conformance.backends.torch.models import Stack, cai_decoder, hugging_face_name, llama, reference_name
from cai_conformance.fixtures.configurations import read_configuration
from cai_reference.models.decoder import DecoderConfiguration


class MatrixTurn(Enum):
    """How a file's tensor is turned into a module's."""

    NONE = "none"
    TRANSPOSED = "transposed"
    GROUPED = "grouped"


@dataclass(frozen=True)
class WeightPlace:
    """Where a parameter stands in a file.

    Attributes:
        name: the file's name of it.
        turn: how the two differ.
        groups: of a grouped map, else 1.
    """

    name: str
    turn: MatrixTurn
    groups: int = 1

    def from_file(self, value: torch.Tensor) -> torch.Tensor:
        """Return a file's tensor as the module has it."""
        if self.turn is MatrixTurn.TRANSPOSED:
            return value.mT.contiguous()
        if self.turn is MatrixTurn.GROUPED:
            return value.mT.flatten(0, 1)[..., None].contiguous()
        return value

    def to_file(self, value: torch.Tensor) -> torch.Tensor:
        """Return a module's tensor as the file has it."""
        if self.turn is MatrixTurn.TRANSPOSED:
            return value.mT
        if self.turn is MatrixTurn.GROUPED:
            return value[..., 0].reshape(self.groups, -1, value.shape[1]).mT
        return value


def places_of(model: nn.Module, name_in_file: Callable[[str], str], *, transposed: bool) -> dict[str, WeightPlace]:
    """Return where each parameter of a model stands, by the module's names.

    Args:
        model: of PyTorch's modules.
        name_in_file: turns a module's name into a file's.
        transposed: whether files hold matrices as [inputs, outputs].
    """
    places: dict[str, WeightPlace] = {}
    for name, module in model.named_modules():
        for kind, _ in module.named_parameters(recurse=False):
            own = f"{name}.{kind}"
            turn, groups = MatrixTurn.NONE, 1
            if transposed and kind == "weight" and isinstance(module, nn.Linear):
                turn = MatrixTurn.TRANSPOSED
            elif kind == "weight" and isinstance(module, nn.Conv1d):
                turn, groups = MatrixTurn.GROUPED, int(module.groups)
            places[own] = WeightPlace(name_in_file(own), turn, groups)
    return places


def fill(
    model: nn.Module,
    places: Mapping[str, WeightPlace],
    tensors: Mapping[str, torch.Tensor],
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Put a file's tensors into a model, in a format and on a device.

    Raises:
        ValueError: a tensor is missing, unknown, or has another shape.
    """
    names = {place.name for place in places.values()}
    if names != tensors.keys():
        missing, unknown = sorted(names - tensors.keys()), sorted(tensors.keys() - names)
        raise ValueError(
            f"the tensor {missing[0]!r} is missing" if missing else f"the tensor {unknown[0]!r} is unknown"
        )
    state = dict(model.named_parameters())
    filled: dict[str, torch.Tensor] = {}
    for name, place in places.items():
        # A copy, so that nothing that is done to the model is done to the tensors.
        value = place.from_file(tensors[place.name]).to(device, dtype, copy=True)
        if value.shape != state[name].shape:
            raise ValueError(f"the tensor {place.name!r} has the shape {list(tensors[place.name].shape)}")
        filled[name] = value
    model.load_state_dict(filled, strict=True, assign=True)


SETTINGS: Final = "config.json"
HUGGING_FACE: Final = "model.safetensors"
REFERENCE: Final = "weights.safetensors"


@dataclass(frozen=True)
class OpenedWeights:
    """A model and what its folder says.

    Attributes:
        stack: the model, its weights filled in.
        places: where each parameter stands in the file, by the model's names.
        context: the longest sequence.
        conventions: what the model follows, in the words of a CONVENTION record.
    """

    stack: Stack
    places: Mapping[str, WeightPlace]
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


def open_folder(folder: Path, dtype: torch.dtype, device: torch.device) -> OpenedWeights:
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
    return OpenedWeights(stack, places, described.context, described.conventions)


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
