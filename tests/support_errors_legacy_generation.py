"""One call for every error of the library's generation, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cai_reference.arithmetic import STRICT
from cai_reference.errors import CaiReferenceError
from cai_reference.legacy.generation import StreamLimits, StreamStops, errors, streamed, whole_context
from cai_reference.nets.graph.session import NetSession
from support_legacy_training import CONTEXT, VOCABULARY, tiny_net

Case = tuple[CaiReferenceError, Callable[[], object]]


def whole(*prompt: int, last_input: Sequence[int] | None = None, futures: int = 1) -> Callable[[], object]:
    """Continue a prompt by whole contexts; no step is taken."""
    return lambda: whole_context(tiny_net(futures), STRICT, prompt, last_input=last_input)


def fed(*prompt: int, futures: int = 1) -> Callable[[], object]:
    """Continue a prompt by a session; no step is taken."""
    return lambda: streamed(NetSession(tiny_net(futures), STRICT, CONTEXT), prompt, StreamLimits(1, CONTEXT))


CASES: list[Case] = [
    (errors.NoPromptTokens(), whole()),
    (errors.PromptTokenUnknown(2, VOCABULARY, VOCABULARY), whole(1, 2, VOCABULARY)),
    (errors.PromptOverrunsContext(CONTEXT + 1, CONTEXT), whole(*[3] * (CONTEXT + 1))),
    (errors.LastInputLength(5, CONTEXT), whole(3, last_input=[1] * 5)),
    (errors.SeveralFutureTokens(3), whole(3, futures=3)),
    (errors.EmptyStopSequence(1), lambda: StreamStops([(4, 5), ()])),
]

MORE: list[Case] = [
    (errors.NoPromptTokens(), fed()),
    (errors.PromptTokenUnknown(0, -1, VOCABULARY), fed(-1)),
    (errors.SeveralFutureTokens(2), fed(3, futures=2)),
]
"""Further calls."""
