"""Errors of this project's own checkpoint: each says which part is missing, too many, of another shape, or damaged."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.checkpoints.errors import CheckpointError


class SavedCheckpointError(CheckpointError):
    """Bytes are no checkpoint of a training run, or a damaged one."""


@dataclass(eq=False)
class NotATensorFile(SavedCheckpointError):
    """The bytes are not those of a safetensors file."""

    template = "this is not a whole safetensors file: {reason}"
    reason: str


@dataclass(eq=False)
class NotACheckpoint(SavedCheckpointError):
    """A safetensors file of something else."""

    template = "this file of tensors is no checkpoint: its metadata lack {key}, or hold another one"
    key: str


@dataclass(eq=False)
class UnknownCheckpointVersion(SavedCheckpointError):
    """The format has another version."""

    template = "the checkpoint has version {found}, not {known}"
    found: str
    known: str


@dataclass(eq=False)
class StateDamaged(SavedCheckpointError):
    """The description of the run is not what was written."""

    template = "the checkpoint says its description has SHA-256 {stored}, but it is {actual}"
    stored: str
    actual: str


@dataclass(eq=False)
class BadDescription(SavedCheckpointError):
    """The description of the run lacks something, or says something that cannot be."""

    template = "the checkpoint's {where}: {problem}"
    where: str
    problem: str


@dataclass(eq=False)
class MissingPart(SavedCheckpointError):
    """A tensor that the description lists is not there."""

    template = "the checkpoint lacks the tensor {name!r}"
    name: str


@dataclass(eq=False)
class UnexpectedPart(SavedCheckpointError):
    """A tensor is there that the description does not list."""

    template = "the checkpoint has a tensor {name!r} that its description does not list"
    name: str


@dataclass(eq=False)
class PartDiffers(SavedCheckpointError):
    """A tensor has other numbers or another shape than the description says."""

    template = "the tensor {name!r} is {found}, not {expected}"
    name: str
    expected: str
    found: str


@dataclass(eq=False)
class PartDamaged(SavedCheckpointError):
    """A tensor's bytes are not those that were written."""

    template = "the tensor {name!r} should have SHA-256 {stored}, but has {actual}"
    name: str
    stored: str
    actual: str
