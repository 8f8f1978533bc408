"""Decode arms as the published programs run them, with their counters; all greedy.

======== ============================================================ =================================================
arm      what it does                                                 forwards
======== ============================================================ =================================================
full     encodes everything again, padded to the context              one a new token
cached   prefills all prompt tokens but the last, then a token a step the prefill's and one a new token
draft    a draft proposes a block, one window of the target verifies  the prefill's windows and one a pass
heads    later heads propose, head 0 verifies by encoding again       one a pass
======== ============================================================ =================================================

Every arm runs to its budget or to the end of the context; unlike a generator, it does not stop at a control id. The two
speculative arms overshoot: tokens behind the budget are dropped, their counters are not. (CAI NEURAL API,
decode-features bake-off.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_conformance.verdicts import Clock
from cai_neural_api.decode.paths import (
    PADDING,
    Heads,
    NetPath,
    PaddedPath,
    Prediction,
    PrefixPath,
    SessionPath,
    TwoTokenPath,
)
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.attention import DotProductAttention, DotProducts, TransposeXD
from cai_neural_api.net.layers.learned import DiagonalSsmLayer, TokenShiftLayer
from cai_neural_api.net.session import NetSession
from cai_reference.arithmetic import Arithmetic

REMEMBERING = (DotProductAttention, DotProducts, TransposeXD, DiagonalSsmLayer)
"""Layers that see more than the two newest tokens."""


@dataclass(frozen=True)
class Budget:
    """How far an arm runs.

    Attributes:
        new_tokens: at most so many.
        context: the longest sequence, prompt included.
        stop_below: the first id below this one ends the run and is part of it; 0 for none.
    """

    new_tokens: int
    context: int
    stop_below: int = 0

    def room(self, prompt: int) -> int:
        """How many tokens may follow a prompt of this length."""
        return max(0, min(self.new_tokens, self.context - prompt))


@dataclass(frozen=True)
class Speculation:
    """What an arm counts that proposes tokens and verifies them.

    Attributes:
        passes: runs of the verifying net, prefill not included.
        verified, accepted: for each place in a block, the proposals looked at, and those that were right. Only
            the later heads count by place; a draft has one entry with its proposals, all of them.
        committed: tokens written, those behind the budget included.
        draft_forwards: runs of a draft net.
    """

    passes: int
    verified: tuple[int, ...]
    accepted: tuple[int, ...]
    committed: int
    draft_forwards: int = 0


@dataclass(frozen=True)
class ArmRun:
    """What an arm made of one prompt.

    Attributes:
        prompt, new: ids.
        predictions: what each new token was chosen from.
        forwards: runs of the net, prefill included.
        prefill_forwards: those before the first prediction.
        prefill_seconds: the time that these took.
        steps: for each step or pass behind them, the length of the sequence before it, and its seconds.
        speculation: None of an arm that does not speculate.
    """

    prompt: tuple[int, ...]
    new: tuple[int, ...]
    predictions: tuple[Prediction, ...]
    forwards: int
    prefill_forwards: int
    prefill_seconds: float
    steps: tuple[tuple[int, float], ...]
    speculation: Speculation | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and new tokens."""
        return (*self.prompt, *self.new)

    @property
    def seconds(self) -> float:
        """The time of the whole run, prefill included."""
        return self.prefill_seconds + sum(seconds for _, seconds in self.steps)

    @property
    def milliseconds_per_token(self) -> float:
        """Of the whole run; per 1 where nothing was generated."""
        return 1000.0 * self.seconds / max(1, len(self.new))


def run_path(path: NetPath, prompt: Sequence[int], budget: Budget, clock: Clock) -> ArmRun:
    """Generate by a path: prefill all prompt tokens but the last, then ask for one prediction after the other.

    Args:
        path: fresh; its counter starts at 0.
        prompt: one id or more, fewer than the context.
        budget: how far.
        clock: what to time by.

    Raises:
        NetError: the net cannot be run on these ids.
    """
    watch = _Watch(clock)
    path.prefill(prompt[:-1])
    prefill, prefill_forwards = watch.lap(), path.forwards
    ids, predictions, steps = list(prompt), list[Prediction](), list[tuple[int, float]]()
    while len(predictions) < budget.room(len(prompt)):
        length = len(ids)
        predictions.append(path.next(ids))
        ids.append(predictions[-1].choice)
        steps.append((length, watch.lap()))
        if ids[-1] < budget.stop_below:
            break
    return ArmRun(
        tuple(prompt),
        tuple(ids[len(prompt) :]),
        tuple(predictions),
        path.forwards,
        prefill_forwards,
        prefill,
        tuple(steps),
    )


def run_full(net: Net, arithmetic: Arithmetic, prompt: Sequence[int], budget: Budget, clock: Clock) -> ArmRun:
    """Generate by encoding everything again, padded to the context."""
    return run_path(PaddedPath(net, arithmetic), prompt, budget, clock)


def run_cached(net: Net, arithmetic: Arithmetic, prompt: Sequence[int], budget: Budget, clock: Clock) -> ArmRun:
    """Generate by a session of width 1.

    Raises:
        NetSessionError (not-streamable): a layer needs the whole sequence.
    """
    return run_path(SessionPath.open(net, arithmetic), prompt, budget, clock)


def run_heads(net: Net, arithmetic: Arithmetic, prompt: Sequence[int], budget: Budget, clock: Clock) -> ArmRun:
    """Generate with the later heads of a multi-token net as drafts, which head 0 verifies.

    A pass encodes the sequence with the pending guesses. Guesses are accepted as long as head 0 agrees; the first with
    which it does not is replaced, and behind the last guess a token is added if all were right. The row that the newest
    token was chosen from gives the next guesses.
    """
    watch, path, heads = _Watch(clock), PaddedPath(net, arithmetic), Heads.of(net)
    ids, predictions, steps = list(prompt), list[Prediction](), list[tuple[int, float]]()
    verified, accepted = [0] * (heads.count - 1), [0] * (heads.count - 1)
    guesses: list[int] = []
    while len(predictions) < budget.room(len(prompt)):
        length = len(ids)
        outputs = path.outputs([*ids, *guesses])
        for place in range(len(guesses) + 1):
            if length + place == budget.context:
                # All guesses were right, and they have filled the context: there is no room for one more.
                break
            predictions.append(heads.prediction(outputs, length + place - 1))
            ids.append(predictions[-1].choice)
            if place < len(guesses):
                verified[place] += 1
                if ids[-1] != guesses[place]:
                    break
                accepted[place] += 1
        # The row that the newest token was chosen from.
        guesses = [
            heads.prediction(outputs, len(ids) - 2, head).choice
            for head in range(1, heads.count)
            if len(ids) - 1 + head < budget.context
        ]
        steps.append((length, watch.lap()))
    committed = len(predictions)
    speculation = Speculation(len(steps), tuple(verified), tuple(accepted), committed)
    return _trimmed(prompt, ids, predictions, budget, path.forwards, 0, 0.0, steps, speculation)


def run_draft(
    net: Net, draft: Net, arithmetic: Arithmetic, prompt: Sequence[int], budget: Budget, block: int, clock: Clock
) -> ArmRun:
    """Generate with guesses of a draft net, `block` at a time.

    The target runs in windows of block + 1 tokens, padded with zeros on the right; behind each, its caches are cut back
    to what was decided. A pass feeds the last token and the guesses behind it; row i predicts the token at offset i.

    Raises:
        NetSessionError (not-streamable): a layer of the target needs the whole sequence.
        NetSessionError (recurrence-stays): the target has a recurrence, which cannot be cut back.
    """
    watch, heads, width = _Watch(clock), Heads.of(net), block + 1
    session = NetSession(net, arithmetic, budget.context + width)
    guesser = draft_path(draft, arithmetic)
    forwards = 0
    for first in range(0, len(prompt) - 1, width):
        done = min(first + width, len(prompt) - 1)
        session.step(_padded(prompt[first:done], width), first)
        session.truncate(done)
        forwards += 1
    prefill, prefill_forwards = watch.lap(), forwards
    ids, predictions, steps = list(prompt), list[Prediction](), list[tuple[int, float]]()
    proposed = accepted = 0
    while len(predictions) < budget.room(len(prompt)):
        length = len(ids)
        guesses: list[int] = []
        while len(guesses) < block and length + len(guesses) < budget.context:
            guesses.append(guesser.next([*ids, *guesses]).choice)
        outputs = session.step(_padded([ids[-1], *guesses], width), length - 1)
        forwards += 1
        proposed += len(guesses)
        for place in range(len(guesses) + 1):
            if length + place == budget.context:
                break
            predictions.append(heads.prediction(outputs, place))
            ids.append(predictions[-1].choice)
            if place < len(guesses):
                if ids[-1] != guesses[place]:
                    break
                accepted += 1
        session.truncate(len(ids) - 1)
        steps.append((length, watch.lap()))
    speculation = Speculation(len(steps), (proposed,), (accepted,), len(predictions), guesser.forwards)
    return _trimmed(prompt, ids, predictions, budget, forwards, prefill_forwards, prefill, steps, speculation)


def draft_path(draft: Net, arithmetic: Arithmetic) -> NetPath:
    """Return how a draft is asked: by its two newest tokens where it sees no others, else by all tokens so far."""
    return TwoTokenPath(draft, arithmetic) if sees_two_tokens(draft) else PrefixPath(draft, arithmetic)


def sees_two_tokens(net: Net) -> bool:
    """Whether a net's only memory is one token shift, or nothing at all."""
    shifts = sum(isinstance(layer, TokenShiftLayer) for layer in net.layers)
    return shifts <= 1 and not any(isinstance(layer, REMEMBERING) for layer in net.layers)


class _Watch:
    """Measures laps: the time since the last one was read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock()

    def lap(self) -> float:
        now = self._clock()
        seconds, self._last = now - self._last, now
        return seconds


def _padded(ids: Sequence[int], width: int) -> list[int]:
    return [*ids, *[PADDING] * (width - len(ids))]


def _trimmed(
    prompt: Sequence[int],
    ids: Sequence[int],
    predictions: Sequence[Prediction],
    budget: Budget,
    forwards: int,
    prefill_forwards: int,
    prefill: float,
    steps: Sequence[tuple[int, float]],
    speculation: Speculation,
) -> ArmRun:
    """Drop what a speculative arm wrote behind its budget."""
    room = budget.room(len(prompt))
    return ArmRun(
        tuple(prompt),
        tuple(ids[len(prompt) : len(prompt) + room]),
        tuple(predictions[:room]),
        forwards,
        prefill_forwards,
        prefill,
        tuple(steps),
        speculation,
    )
