"""Heads: from the last block's rows to logits.

| head | logits | of |
|---|---|---|
| `FuturesHead` | output_k(hidden(x)) for each predicted token k | CAI decoders, which have no final norm |
| `VocabularyHead` | output(norm(x)) | Llama models; the output may be the embedding table itself |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.layers.observation import Observe, ignore
from cai_reference.layers.projection import Projection
from cai_reference.models.block import Norm


class Head(Protocol):
    """What gives logits."""

    def parameters(self) -> Iterator[Parameter]:
        """Yield the head's own parameters, in registry order; a tied table is the embedding's, not the head's."""
        ...

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> list[Variable]:
        """Map [..., width] to logits [..., vocabulary], one for each predicted token."""
        ...


@dataclass(frozen=True)
class FuturesHead:
    """One hidden map, then one output map for each predicted token; head 0 predicts the next one."""

    hidden: Projection
    outputs: tuple[Projection, ...]

    def parameters(self) -> Iterator[Parameter]:
        """Yield hidden, then the outputs."""
        for projection in (self.hidden, *self.outputs):
            yield from projection.parameters()

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> list[Variable]:
        """Map [..., width] to logits [..., vocabulary], one for each output."""
        hidden = self.hidden(tape, x)
        observe("head.hidden", hidden)
        logits = [output(tape, hidden) for output in self.outputs]
        for future, values in enumerate(logits):
            observe(f"logits.{future}", values)
        return logits


@dataclass(frozen=True)
class VocabularyHead:
    """A final norm, then one output map: `BiasFree`, or `TiedOutput` around the embedding table."""

    norm: Norm
    output: Projection

    def parameters(self) -> Iterator[Parameter]:
        """Yield norm, then output, which is empty where it is tied."""
        yield from self.norm.parameters()
        yield from self.output.parameters()

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> list[Variable]:
        """Map [..., width] to logits [..., vocabulary], the only item of a list."""
        normed = self.norm(tape, x)
        observe("final_norm", normed)
        logits = self.output(tape, normed)
        observe("logits.0", logits)
        return [logits]
