"""A session of the reference that shows the stages of a call, as a backend would, faults that are planted included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.decoding import attend, layer_states
from cai_reference.decoding.layer_states import Accounting, LayerState
from cai_reference.decoding.session import Session
from cai_reference.layers import within
from cai_reference.layers.rope import Rope
from cai_reference.models.stack import Block, Norm, TokenLayer


@dataclass
class _Seen:
    """What was computed for one block."""

    turned: list[Array] = field(default_factory=list)
    weights: list[Array] = field(default_factory=list)


@dataclass(frozen=True)
class _Watched:
    """A layer's state whose mixed rows are kept."""

    state: LayerState
    keep: Callable[[Array], None]

    def feed(self, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        """Feed the state that is watched, and return the one that comes of it."""
        mixed, after = self.state.feed(tape, x, position)
        self.keep(mixed)
        return mixed, after

    def earliest(self) -> int:
        """As the state."""
        return self.state.earliest()

    def truncated(self, length: int) -> LayerState:
        """As the state."""
        return self.state.truncated(length)

    def copy(self) -> LayerState:
        """As the state."""
        return self.state.copy()

    def accounting(self) -> Accounting:
        """As the state."""
        return self.state.accounting()


class ObservedSession(Session):
    """`seen` holds the stages of the newest call: rows of this call only, weights with a column for each token."""

    seen: dict[str, Array]

    def feed(self, ids: Sequence[int]) -> list[Array]:
        """Feed, and keep what is computed."""
        self.seen = {}
        self._block, self._total = -1, self.length + len(ids)
        logits = super().feed(ids)
        self.seen |= {f"logits.{head}": rows for head, rows in enumerate(logits)}
        return logits

    def _through(
        self, block: Block[Norm, TokenLayer], state: LayerState, x: Array, position: int
    ) -> tuple[Array, LayerState]:
        self._block += 1
        name, parts = f"blocks.{self._block}", _Seen()
        if self._block == 0:
            self.seen["embedding"] = x
        self._norms: list[tuple[Array, Array]] = []
        self._name = name

        def mixed(rows: Array) -> None:
            self.seen[f"{name}.norm1"] = self._norms[0][1]
            for stage, turned in zip(("query", "key"), parts.turned, strict=False):
                self.seen[f"{name}.mixer.{stage}"] = np.swapaxes(turned, 0, 1)
            if parts.weights:
                self.seen[f"{name}.mixer.weights"] = _over_tokens(parts.weights, self._total)
            self.seen[f"{name}.mixed"] = rows

        with _recording(parts):
            output, after = super()._through(block, _Watched(state, mixed), x, position)
        self.seen[f"{name}.output"] = output
        return output, after

    def _normed(self, norm: Norm, x: Array) -> Array:
        if self._norms:
            self.seen[f"{self._name}.residual"] = x
        normed = super()._normed(norm, x)
        self._norms.append((x, normed))
        return normed

    def _fed(self, feed_forward: TokenLayer, x: Array) -> Array:
        def observe(stage: str, value: Variable) -> None:
            self.seen[stage] = value.value

        prefix = within(observe, f"{self._name}.feed_forward")
        return feed_forward(self._tape, self._tape.constant(x), prefix).value


@contextmanager
def _recording(parts: _Seen) -> Iterator[None]:
    turn_heads, weights_of = layer_states.turn_heads, attend.weights_of

    def turned(tape: Tape, rows: Array, heads: int, position: int, rope: Rope) -> Array:
        parts.turned.append(turn_heads(tape, rows, heads, position, rope))
        return parts.turned[-1]

    def weights(arithmetic: Arithmetic, scores: Array) -> Array:
        parts.weights.append(weights_of(arithmetic, scores))
        return parts.weights[-1]

    layer_states.turn_heads, attend.weights_of = turned, weights
    try:
        yield
    finally:
        layer_states.turn_heads, attend.weights_of = turn_heads, weights_of


def _over_tokens(rows: list[Array], total: int) -> Array:
    """Lay weights [heads, visible] of each token of a call out as [heads, tokens of the call, all tokens]."""
    width = max(total, max(row.shape[1] for row in rows))
    laid = np.zeros((rows[0].shape[0], len(rows), width))
    for place, row in enumerate(rows):
        last = width - len(rows) + place + 1
        first = max(0, last - row.shape[1])
        laid[:, place, first : first + row.shape[1]] = row[:, : width - first]
    return laid
