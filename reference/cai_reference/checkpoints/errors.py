"""Errors of the checkpoints room. A checkpoint that raises one is refused as a whole; nothing is changed.

Errors of this project's own checkpoint: each says which part is missing, too many, of another shape, or damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_reference.errors import CaiReferenceError

CHECKPOINTS_TEMPLATES: Final[Mapping[str, str]] = {
    # The bytes are not those of a safetensors file.
    "not-a-tensor-file": "this is not a whole safetensors file: {reason}",
    # A safetensors file of something else.
    "not-a-checkpoint": "this file of tensors is no checkpoint: its metadata lack {key}, or hold another one",
    # The format has another version.
    "unknown-checkpoint-version": "the checkpoint has version {found}, not {known}",
    # The description of the run is not what was written.
    "state-damaged": "the checkpoint says its description has SHA-256 {stored}, but it is {actual}",
    # The description of the run lacks something, or says something that cannot be.
    "bad-description": "the checkpoint's {where}: {problem}",
    # A tensor that the description lists is not there.
    "missing-part": "the checkpoint lacks the tensor {name!r}",
    # A tensor is there that the description does not list.
    "unexpected-part": "the checkpoint has a tensor {name!r} that its description does not list",
    # A tensor has other numbers or another shape than the description says.
    "part-differs": "the tensor {name!r} is {found}, not {expected}",
    # A tensor's bytes are not those that were written.
    "part-damaged": "the tensor {name!r} should have SHA-256 {stored}, but has {actual}",
}


class CheckpointError(CaiReferenceError):
    """A checkpoint cannot be written or read."""

    templates = CHECKPOINTS_TEMPLATES
