"""Checkpoints of PyTorch's own: weights, the optimiser's state and settings, and a digest beside them.

| file | what it is |
|---|---|
| `training.pt` | by `torch.save`: weights, the `state_dict` of the optimiser, settings, and the format of numbers |
| `training.json` | the SHA-256 of that file, written last |

Either is written beside its place and moved there. All is read and compared before anything is changed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch

from cai_conformance.engines.training import TrainingSettings
from cai_conformance.goldens import strict_json
from cai_conformance.torch_engine.loading import OpenedModel
from cai_conformance.torch_engine.training import Trainer

CONTENT: Final = "training.pt"
SEAL: Final = "training.json"
PART: Final = ".part"
"""Behind the name of a file that is being written."""


@dataclass(frozen=True)
class ReadTraining:
    """A checkpoint that was read: what goes on, and the weights that it goes on from, by the modules' names."""

    trainer: Trainer
    weights: Mapping[str, torch.Tensor]


def write_training(directory: Path, opened: OpenedModel, trainer: Trainer) -> None:
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


def read_training(directory: Path, opened: OpenedModel) -> ReadTraining:
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


def _format(opened: OpenedModel) -> str:
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
