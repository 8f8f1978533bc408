"""Tensors as files hold them, and as PyTorch's modules do.

| module | file of Hugging Face | file of this project |
|---|---|---|
| `Linear` | [outputs, inputs], as the module | [inputs, outputs] |
| `Conv1d` in groups | none | [groups, inputs/groups, outputs/groups] |
| the others | as the module | as the module |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import torch
from torch import nn


class Turn(Enum):
    """How a file's tensor is turned into a module's."""

    NONE = "none"
    TRANSPOSED = "transposed"
    GROUPED = "grouped"


@dataclass(frozen=True)
class Place:
    """Where a parameter stands in a file.

    Attributes:
        name: the file's name of it.
        turn: how the two differ.
        groups: of a grouped map, else 1.
    """

    name: str
    turn: Turn
    groups: int = 1

    def from_file(self, value: torch.Tensor) -> torch.Tensor:
        """Return a file's tensor as the module has it."""
        if self.turn is Turn.TRANSPOSED:
            return value.mT.contiguous()
        if self.turn is Turn.GROUPED:
            return value.mT.flatten(0, 1)[..., None].contiguous()
        return value

    def to_file(self, value: torch.Tensor) -> torch.Tensor:
        """Return a module's tensor as the file has it."""
        if self.turn is Turn.TRANSPOSED:
            return value.mT
        if self.turn is Turn.GROUPED:
            return value[..., 0].reshape(self.groups, -1, value.shape[1]).mT
        return value


def places_of(model: nn.Module, name_in_file: Callable[[str], str], *, transposed: bool) -> dict[str, Place]:
    """Return where each parameter of a model stands, by the module's names.

    Args:
        model: of PyTorch's modules.
        name_in_file: turns a module's name into a file's.
        transposed: whether files hold matrices as [inputs, outputs].
    """
    places: dict[str, Place] = {}
    for name, module in model.named_modules():
        for kind, _ in module.named_parameters(recurse=False):
            own = f"{name}.{kind}"
            turn, groups = Turn.NONE, 1
            if transposed and kind == "weight" and isinstance(module, nn.Linear):
                turn = Turn.TRANSPOSED
            elif kind == "weight" and isinstance(module, nn.Conv1d):
                turn, groups = Turn.GROUPED, int(module.groups)
            places[own] = Place(name_in_file(own), turn, groups)
    return places


def fill(
    model: nn.Module,
    places: Mapping[str, Place],
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
