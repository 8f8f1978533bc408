"""This project's own checkpoint: the whole state of a training run as the bytes of a safetensors file.

`write_checkpoint` and `read_checkpoint` are inverse; what is read is a `TrainingState`, which a run of the same set-up
goes on from.
"""

from cai_reference.checkpoints.saved.reading import read_checkpoint
from cai_reference.checkpoints.saved.writing import write_checkpoint

__all__ = ["read_checkpoint", "write_checkpoint"]
