"""Windows: the training examples of autoregressive models.

A window of context length T is T input tokens and the same tokens shifted by one as targets. Windows never leave their
document and are never padded; a document of length L has floor((L − T − 1)/stride) + 1 of them, or none (course,
chapter 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_reference.text.errors import ZeroContextLength, ZeroStride


@dataclass(frozen=True)
class Window:
    """One example: `inputs` and `targets` hold T ids each, `targets` one position later."""

    inputs: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Windowing:
    """How documents are cut.

    Raises:
        ZeroContextLength, ZeroStride: a length is below 1 (the context is looked at first).
    """

    context: int
    stride: int = 1

    def __post_init__(self) -> None:
        if self.context < 1:
            raise ZeroContextLength
        if self.stride < 1:
            raise ZeroStride

    def starts(self, length: int) -> range:
        """Return where the windows of a document of `length` tokens start."""
        return range(0, max(0, length - self.context), self.stride)

    def window(self, tokens: Sequence[int], start: int) -> Window:
        """Return the window of `tokens` that starts at `start`."""
        end = start + self.context
        return Window(tuple(tokens[start:end]), tuple(tokens[start + 1 : end + 1]))
