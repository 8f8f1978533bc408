"""The numbers of the protocol, and what this side is willing to read."""

from __future__ import annotations

from typing import Final

PROTOCOL: Final = "1"
"""The version of the protocol, which `start` asks for and answers."""

CLIENT: Final = "cai-conform"
"""What `start` calls this side."""

LINE_BYTES: Final = 16 << 20
"""How long a line may be, with its end."""

LARGEST: Final = 1 << 53
"""The largest integer that travels as one; a larger one is a string of bits."""

DEPTH: Final = 32
"""How deep the objects and lists of a line may be nested; the protocol needs 8."""

INLINE_BYTES: Final = 64 << 10
"""How large a tensor may be that stands in the line."""

TENSOR_BYTES: Final = 256 << 20
"""How large a tensor may be."""

ANSWER_BYTES: Final = 1 << 30
"""How large all tensors of an answer may be together."""

AXES: Final = 8
"""How many axes a tensor may have."""

NAMES: Final = 1 << 16
"""How many named things a list may hold."""

TEXT: Final = 4096
"""How many characters a name or a reason may have."""
