"""Copies of what is trained, so that a run can leave its inputs alone and keep an earlier state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.models import NeuralNgram
from cai_reference.models.decoder import Decoder
from cai_reference.models.llama import Llama
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.splitmix import SplitMix64
from cai_reference.training.adamw import AdamW, AdamWState

Model = TypeVar("Model", NeuralNgram, Decoder, Llama, TokenShiftDraft)
"""Any model that is trained."""


@dataclass(frozen=True)
class Snapshot:
    """A model and its optimiser as they were after a step.

    Values are never written to in place, so nothing needs to be copied here.

    Attributes:
        step: how many updates had been made.
        values: of all parameters, in registry order.
        optimizer: the optimiser's state, its moments included.
    """

    step: int
    values: tuple[Array, ...]
    optimizer: AdamWState

    @classmethod
    def of(cls, step: int, parameters: Sequence[Parameter], optimizer: AdamW) -> Snapshot:
        """Return the state of these parameters and this optimiser."""
        return cls(step, tuple(parameter.value for parameter in parameters), optimizer.state)

    def matches(self, parameters: Sequence[Parameter]) -> bool:
        """Tell whether parameters have these values, bit for bit."""
        return [values.tobytes() for values in self.values] == [
            parameter.value.tobytes() for parameter in parameters
        ] and [values.shape for values in self.values] == [parameter.shape for parameter in parameters]


def copy_of(model: Model) -> Model:
    """Return a model of the same configuration and values that shares no parameter with it; gradients are zero."""
    copy = type(model).initialize(model.configuration, SplitMix64(0))
    assign_all(copy.parameters, [parameter.value for parameter in model.parameters])
    return copy


def copy_of_optimizer(optimizer: AdamW) -> AdamW:
    """Return an optimiser that goes on from the same state."""
    copy = AdamW(optimizer.configuration, optimizer.groups)
    copy.state = optimizer.state
    return copy


def assign_all(parameters: Sequence[Parameter], values: Sequence[Array]) -> None:
    """Give every parameter its value, in registry order."""
    for parameter, value in zip(parameters, values, strict=True):
        parameter.assign(value)
