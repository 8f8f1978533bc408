"""Does the plumbing work? A backend is asked as little as possible, and each step of that is a verdict.

| backend | steps |
|---|---|
| an engine | it starts; it loads the smallest model folder; it evaluates two tokens; a slot goes on and is emptied |
| another one | it prints the answers to the vector cases of one suite; they are a trace; it states its conventions |

Nothing here says that a number is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.backends.engine.session import EngineSession
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.engine import Description
from cai_conformance.errors import BackendError
from cai_conformance.verdicts import Level, Outcome, Verdict

SUITE: Final = "llama.dense"
"""Whose model folder an engine loads: the shape that most engines have."""
PROMPT: Final = (0, 34)


def smoke_engine(backend: EngineBackend, request: TraceRequest) -> Iterator[Verdict]:
    """Yield a verdict a step, up to the first step that fails."""
    steps: tuple[tuple[str, Callable[[], str]], ...] = (
        ("start", lambda: _started(backend.engine.description)),
        ("load", lambda: _loaded(_opened(backend, request))),
        ("evaluate", lambda: _evaluated(_opened(backend, request))),
    )
    for name, step in steps:
        try:
            message = step()
        except BackendError as error:
            late = "; --timeout allows more" if " within " in str(error) else ""
            yield _verdict(name, Outcome.ERRORED, f"{error}{late}")
            return
        yield _verdict(name, Outcome.PASS, message)


def _opened(backend: EngineBackend, request: TraceRequest) -> OpenedModel:
    opened = backend.opened(request)
    assert opened is not None
    return opened


def _started(description: Description) -> str:
    features = ", ".join(sorted(description.features)) or "nothing more"
    return (
        f"{description.name} {description.version}, {description.arithmetic}, {description.slots} slots; "
        f"offers {features}"
    )


def _loaded(opened: OpenedModel) -> str:
    loaded = opened.load()
    stated = len(loaded.conventions)
    claimed = "".join(f"; claims {name} {size}" for name, size in loaded.claimed.items())
    return f"the model folder of {SUITE}; {stated} conventions stated{claimed}"


def _evaluated(opened: OpenedModel) -> str:
    session = EngineSession(opened.engine)
    first = session.feed(PROMPT[:1])
    second = session.feed(PROMPT[1:])
    opened.engine.clear(0)
    rows = np.stack([first[0][-1], second[0][-1]])
    finite = "finite" if np.isfinite(rows).all() else "not all finite"
    return f"two calls of one token: logits of shape {list(rows.shape)}, {finite}"


def _verdict(name: str, outcome: Outcome, message: str) -> Verdict:
    return Verdict(f"smoke::{name}", Level.I1 if name == "evaluate" else Level.I0, outcome, message)
