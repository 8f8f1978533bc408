"""Steps of training in PyTorch, and the checkpoints that they can go on from."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from cai_conformance import strict_json
from cai_conformance.backends.torch.computing import as_array, widened
from cai_conformance.backends.torch.weights import OpenedWeights
from cai_conformance.engine import LossAndGradients, OptimizerState, TrainingBatch, TrainingSettings
from cai_reference.arithmetic import Array

IGNORED = -1
"""Stands where nothing is to be predicted."""


class Trainer:
    """Takes steps of AdamW on a model, beginning with fresh moments.

    Attributes:
        settings: with which it was made.
        optimizer: PyTorch's.

    Raises:
        ValueError: a tensor that is to decay is none of the model's.
    """

    def __init__(self, opened: OpenedWeights, settings: TrainingSettings) -> None:
        unknown = sorted(set(settings.decayed) - {place.name for place in opened.places.values()})
        if unknown:
            raise ValueError(f"there is no tensor {unknown[0]!r} to decay")
        self._opened, self.settings = opened, settings
        named = dict(opened.stack.named_parameters())
        groups = []
        for decays in (True, False):
            members = [
                value for name, value in named.items() if (opened.places[name].name in settings.decayed) is decays
            ]
            if members:
                groups.append({"params": members, "weight_decay": settings.weight_decay if decays else 0.0})
        self.optimizer = torch.optim.AdamW(
            groups,
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
            foreach=False,
        )

    def step(self, batch: TrainingBatch) -> float:
        """Take one step, and return the loss before it.

        Raises:
            ValueError: the batch does not fit the model.
        """
        loss = _backward(self._opened, batch)
        parameters = list(self._opened.stack.parameters())
        clip = self.settings.clip
        if clip is not None:
            norm = float(clip_grad_norm_(parameters, math.inf))
            if norm > clip:
                for parameter in parameters:
                    if parameter.grad is not None:
                        parameter.grad.mul_(clip / norm)
        self.optimizer.step()
        self._opened.stack.zero_grad()
        return loss

    def state(self) -> OptimizerState:
        """Return weights and moments; moments are zero before the first step."""
        return OptimizerState(
            weights=_in_file(self._opened, dict(self._opened.stack.named_parameters())),
            first_moments=self._moments("exp_avg"),
            second_moments=self._moments("exp_avg_sq"),
        )

    def _moments(self, kind: str) -> Mapping[str, Array]:
        state = self.optimizer.state
        return _in_file(
            self._opened,
            {
                name: state[parameter][kind] if parameter in state else torch.zeros_like(parameter)
                for name, parameter in self._opened.stack.named_parameters()
            },
        )


def gradients_of(opened: OpenedWeights, batch: TrainingBatch) -> LossAndGradients:
    """Return loss and gradients on the present weights.

    Raises:
        ValueError: the batch does not fit the model.
    """
    loss = _backward(opened, batch)
    gradients = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in opened.stack.named_parameters()
    }
    found = LossAndGradients(loss, _in_file(opened, gradients))
    opened.stack.zero_grad()
    return found


def _backward(opened: OpenedWeights, batch: TrainingBatch) -> float:
    """Leave the gradients of the loss in the parameters; return the loss."""
    ids = _tensor(batch.inputs, opened)
    targets = [_tensor(rows, opened) for rows in batch.targets]
    _check(opened, ids, targets)
    heads = opened.stack.from_the_start(ids)
    if len(heads) != len(targets):
        raise ValueError(f"there are targets for {len(targets)} heads, of which the model has {len(heads)}")
    losses = [
        cross_entropy(widened(logits).flatten(0, 1), rows.flatten(), ignore_index=IGNORED)
        for logits, rows in zip(heads, targets, strict=True)
    ]
    loss = torch.stack(losses).mean()
    opened.stack.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
    return float(loss.detach())


def _check(opened: OpenedWeights, ids: torch.Tensor, targets: list[torch.Tensor]) -> None:
    vocabulary = opened.stack.vocabulary
    if ids.dim() != 2 or not ids.numel():
        raise ValueError("there are no tokens")
    if ids.shape[1] > opened.context:
        raise ValueError(f"rows of {ids.shape[1]} tokens are longer than the context of {opened.context}")
    for head, rows in enumerate(targets):
        if rows.shape != ids.shape:
            raise ValueError(f"the targets of head {head} are {list(rows.shape)}, the inputs {list(ids.shape)}")
        if bool((rows == IGNORED).all()):
            raise ValueError(f"head {head} has nothing to predict")
    for name, lowest, values in [("an input", 0, ids), *(("a target", IGNORED, rows) for rows in targets)]:
        if int(values.min()) < lowest or int(values.max()) >= vocabulary:
            raise ValueError(f"{name} is none of the ids 0 … {vocabulary - 1}")


def _tensor(rows: tuple[tuple[int, ...], ...], opened: OpenedWeights) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.int64, device=opened.stack.device)


def _in_file(opened: OpenedWeights, values: Mapping[str, torch.Tensor]) -> Mapping[str, Array]:
    """Return tensors by the file's names, in the file's shapes."""
    places = opened.places
    return {places[name].name: as_array(places[name].to_file(value)) for name, value in values.items()}


CONTENT: Final = "training.pt"
SEAL: Final = "training.json"
PART: Final = ".part"
"""Behind the name of a file that is being written."""


@dataclass(frozen=True)
class ReadTraining:
    """A checkpoint that was read: what goes on, and the weights that it goes on from, by the modules' names."""

    trainer: Trainer
    weights: Mapping[str, torch.Tensor]


def write_training(directory: Path, opened: OpenedWeights, trainer: Trainer) -> None:
    """Write a training.

    Raises:
        OSError: the operating system refuses.
    """
    content = {
        "format": _format(opened),
        "weights": {name: value.detach() for name, value in opened.stack.named_parameters()},
        "optimizer": trainer.optimizer.state_dict(),
        "settings": asdict(trainer.settings),
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    data = buffer.getvalue()
    _put(directory / CONTENT, data)
    _put(directory / SEAL, json.dumps({"sha256": hashlib.sha256(data).hexdigest()}).encode("ascii"))


def read_training(directory: Path, opened: OpenedWeights) -> ReadTraining:
    """Read a training of a model; the model is not changed.

    Raises:
        OSError: a file is missing, or cannot be read.
        ValueError: it is damaged, or one of another model; the message says why.
    """
    seal = strict_json.parse((directory / SEAL).read_bytes())
    data = (directory / CONTENT).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if seal != {"sha256": digest}:
        raise ValueError(f"{CONTENT} has the SHA-256 {digest}, and {SEAL} states another one")
    try:
        content: dict[str, Any] = torch.load(io.BytesIO(data), map_location=opened.stack.device, weights_only=True)
        weights: dict[str, torch.Tensor] = content["weights"]
        settings = TrainingSettings(**content["settings"] | {"decayed": tuple(content["settings"]["decayed"])})
        found = content["format"], _shapes(weights)
    except Exception as error:
        # Whatever the library raises, it is no checkpoint of this engine.
        raise ValueError(f"{CONTENT} cannot be read: {error}") from error
    own = _format(opened), _shapes(dict(opened.stack.named_parameters()))
    if found != own:
        raise ValueError("it is a checkpoint of another model, or in another format")
    trainer = Trainer(opened, settings)
    trainer.optimizer.load_state_dict(content["optimizer"])
    return ReadTraining(trainer, weights)


def _format(opened: OpenedWeights) -> str:
    return str(next(opened.stack.parameters()).dtype)


def _shapes(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in tensors.items()}


def _put(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + PART)
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
