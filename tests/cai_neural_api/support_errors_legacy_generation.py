"""One call for every error of the library's generation, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cai_neural_api.errors import LegacyError
from cai_neural_api.generation import StreamLimits, StreamStops, streamed, whole_context
from cai_neural_api.net.session import NetSession
from cai_reference.arithmetic.instances import STRICT
from cai_reference.errors import CaiReferenceError
from support_legacy_training import CONTEXT, VOCABULARY, tiny_net

Case = tuple[CaiReferenceError, Callable[[], object]]


def whole(*prompt: int, last_input: Sequence[int] | None = None, futures: int = 1) -> Callable[[], object]:
    """Continue a prompt by whole contexts; no step is taken."""
    return lambda: whole_context(tiny_net(futures), STRICT, prompt, last_input=last_input)


def fed(*prompt: int, futures: int = 1) -> Callable[[], object]:
    """Continue a prompt by a session; no step is taken."""
    return lambda: streamed(NetSession(tiny_net(futures), STRICT, CONTEXT), prompt, StreamLimits(1, CONTEXT))


CASES: list[Case] = [
    (LegacyError("no-prompt-tokens"), whole()),
    (LegacyError("prompt-token-unknown", position=2, token=VOCABULARY, vocabulary=VOCABULARY), whole(1, 2, VOCABULARY)),
    (LegacyError("prompt-overruns-context", tokens=CONTEXT + 1, context=CONTEXT), whole(*[3] * (CONTEXT + 1))),
    (LegacyError("last-input-length", tokens=5, context=CONTEXT), whole(3, last_input=[1] * 5)),
    (LegacyError("several-future-tokens", heads=3), whole(3, futures=3)),
    (LegacyError("empty-stop-sequence", index=1), lambda: StreamStops([(4, 5), ()])),
]

MORE: list[Case] = [
    (LegacyError("no-prompt-tokens"), fed()),
    (LegacyError("prompt-token-unknown", position=0, token=-1, vocabulary=VOCABULARY), fed(-1)),
    (LegacyError("several-future-tokens", heads=2), fed(3, futures=2)),
]
"""Further calls."""
