"""PyTorch as an engine: an implementation of the decoders that shares nothing with the reference.

Needs the extra `torch`; importing this package without PyTorch raises `ModuleNotFoundError`.
"""

from __future__ import annotations

from cai_conformance.backends.torch.engine import TorchEngine

__all__ = ["TorchEngine"]
