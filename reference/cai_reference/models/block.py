"""The block of a decoder: a token mixer and a feed-forward layer around a residual stream.

::

    sequential   r = mixer(norm₁(x)) + x ;  x = feed_forward(norm₂(r)) + r
    parallel     n = norm(x) ;              x = (x + mixer(n)) + feed_forward(n)

What the four parts are is up to the model; the wiring is here and nowhere else. The streaming path has its own, in
`cai_reference.decoding.session`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from cai_reference.autograd import Parameter, Tape, Variable, add
from cai_reference.layers.observation import Observe, ignore, within


class Norm(Protocol):
    """What is applied in front of a layer, to each token by itself."""

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters, in registry order."""
        ...

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., width] to [..., width]."""
        ...


class Mixer(Protocol):
    """What mixes tokens: attention of one kind or another, or a recurrence."""

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters, in registry order."""
        ...

    def __call__(self, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        """Mix [batch, tokens, width]; token 0 stands at position `start`."""
        ...


class TokenLayer(Protocol):
    """A feed-forward layer: what is done to each token by itself."""

    def parameters(self) -> Iterator[Parameter]:
        """Yield the parameters, in registry order."""
        ...

    def __call__(self, tape: Tape, x: Variable, observe: Observe = ignore) -> Variable:
        """Map [..., width] to [..., width]."""
        ...


NormT = TypeVar("NormT", bound=Norm, covariant=True)
FeedForwardT = TypeVar("FeedForwardT", bound=TokenLayer, covariant=True)


@dataclass(frozen=True)
class Block(Generic[NormT, FeedForwardT]):
    """Mixer and feed-forward layer around a residual stream; a parallel block has no second norm."""

    norm1: NormT
    mixer: Mixer
    norm2: NormT | None
    feed_forward: FeedForwardT

    def parameters(self) -> Iterator[Parameter]:
        """Yield norm 1, mixer, norm 2, feed-forward."""
        yield from self.norm1.parameters()
        yield from self.mixer.parameters()
        if self.norm2 is not None:
            yield from self.norm2.parameters()
        yield from self.feed_forward.parameters()

    def __call__(self, tape: Tape, x: Variable, start: int, observe: Observe) -> Variable:
        """Map [batch, tokens, width] to the same shape."""
        normed = self.norm1(tape, x)
        observe("norm1", normed)
        mixed = self.mixer(tape, normed, start, within(observe, "mixer"))
        observe("mixed", mixed)
        if self.norm2 is None:
            fed = self.feed_forward(tape, normed, within(observe, "feed_forward"))
            output = add(tape, add(tape, x, mixed), fed)
        else:
            residual = add(tape, mixed, x)
            observe("residual", residual)
            fed = self.feed_forward(tape, self.norm2(tape, residual), within(observe, "feed_forward"))
            output = add(tape, fed, residual)
        observe("output", output)
        return output
