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
from cai_reference.arithmetic import Arithmetic, Array

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
    record = _Record(prompt, budget, clock)
    path.prefill(prompt[:-1])
    record.end_prefill(path.forwards)
    while record.goes_on():
        length = len(record.ids)
        record.add(path.next(record.ids))
        record.end_step(length)
        if record.ids[-1] < budget.stop_below:
            break
    return record.run(path.forwards)


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

    A pass encodes the sequence with the pending guesses. The row that the newest token was chosen from gives the next
    guesses.
    """
    record, path, heads = _Record(prompt, budget, clock), PaddedPath(net, arithmetic), Heads.of(net)
    verified, accepted = [0] * (heads.count - 1), [0] * (heads.count - 1)
    guesses: list[int] = []
    while record.goes_on():
        length = len(record.ids)
        outputs = path.outputs([*record.ids, *guesses])
        right = record.verify(guesses, heads, outputs, length - 1)
        for place, is_right in enumerate(right):
            verified[place] += 1
            accepted[place] += is_right
        guesses = [
            heads.prediction(outputs, len(record.ids) - 2, head).choice
            for head in range(1, heads.count)
            if len(record.ids) - 1 + head < budget.context
        ]
        record.end_step(length)
    committed = len(record.predictions)
    return record.run(path.forwards, Speculation(len(record.steps), tuple(verified), tuple(accepted), committed))


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
    record, heads, width = _Record(prompt, budget, clock), Heads.of(net), block + 1
    session = NetSession(net, arithmetic, budget.context + width)
    # By its two newest tokens where it sees no others, else by all tokens so far.
    guesser = (TwoTokenPath if sees_two_tokens(draft) else PrefixPath)(draft, arithmetic)
    windows = range(0, len(prompt) - 1, width)
    for first in windows:
        done = min(first + width, len(prompt) - 1)
        session.step(_padded(prompt[first:done], width), first)
        session.truncate(done)
    record.end_prefill(len(windows))
    proposed = accepted = 0
    while record.goes_on():
        length = len(record.ids)
        guesses: list[int] = []
        while len(guesses) < block and length + len(guesses) < budget.context:
            guesses.append(guesser.next([*record.ids, *guesses]).choice)
        outputs = session.step(_padded([record.ids[-1], *guesses], width), length - 1)
        proposed += len(guesses)
        accepted += sum(record.verify(guesses, heads, outputs, 0))
        session.truncate(len(record.ids) - 1)
        record.end_step(length)
    passes = len(record.steps)
    speculation = Speculation(passes, (proposed,), (accepted,), len(record.predictions), guesser.forwards)
    return record.run(record.prefill_forwards + passes, speculation)


def sees_two_tokens(net: Net) -> bool:
    """Whether a net's only memory is one token shift, or nothing at all."""
    shifts = sum(isinstance(layer, TokenShiftLayer) for layer in net.layers)
    return shifts <= 1 and not any(isinstance(layer, REMEMBERING) for layer in net.layers)


class _Record:
    """A run under way: the tokens so far, what each was chosen from, and how long each step took."""

    def __init__(self, prompt: Sequence[int], budget: Budget, clock: Clock) -> None:
        self.ids = list(prompt)
        self.predictions: list[Prediction] = []
        self.steps: list[tuple[int, float]] = []
        self.prefill_forwards = 0
        self._prefill = 0.0
        self._prompt, self._context, self._room = tuple(prompt), budget.context, budget.room(len(prompt))
        self._clock = clock
        self._last = clock()

    def goes_on(self) -> bool:
        """Whether there is room for another token."""
        return len(self.predictions) < self._room

    def add(self, prediction: Prediction) -> None:
        """Append the token that a prediction chooses."""
        self.predictions.append(prediction)
        self.ids.append(prediction.choice)

    def verify(self, guesses: Sequence[int], heads: Heads, outputs: Sequence[Array], row: int) -> list[bool]:
        """Append tokens as long as the guesses are right, then one that replaces the wrong guess or follows the last.

        What head 0 predicts in `row` decides on the first guess. Returns for each that was looked at whether it was
        right.
        """
        length, right = len(self.ids), list[bool]()
        for place in range(len(guesses) + 1):
            # All guesses may be right and fill the context: then there is no room for one more.
            if length + place == self._context or not all(right):
                break
            self.add(heads.prediction(outputs, row + place))
            if place < len(guesses):
                right.append(self.ids[-1] == guesses[place])
        return right

    def end_prefill(self, forwards: int) -> None:
        """Note the runs and the time before the first prediction."""
        self.prefill_forwards, self._prefill = forwards, self._lap()

    def end_step(self, length: int) -> None:
        """Note the time of a step, before which the sequence had this length."""
        self.steps.append((length, self._lap()))

    def run(self, forwards: int, speculation: Speculation | None = None) -> ArmRun:
        """Return the run, without what a speculative arm wrote behind its budget."""
        return ArmRun(
            self._prompt,
            tuple(self.ids[len(self._prompt) : len(self._prompt) + self._room]),
            tuple(self.predictions[: self._room]),
            forwards,
            self.prefill_forwards,
            self._prefill,
            tuple(self.steps),
            speculation,
        )

    def _lap(self) -> float:
        before, self._last = self._last, self._clock()
        return self._last - before


def _padded(ids: Sequence[int], width: int) -> list[int]:
    return [*ids, *[PADDING] * (width - len(ids))]
