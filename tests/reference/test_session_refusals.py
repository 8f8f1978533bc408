"""What a session refuses, in words and numbers, and that it is then as it was in every bit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import cycle

import numpy as np
import pytest

from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Parameter
from cai_reference.decoding.errors import SessionError
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.errors import AutogradError, CaiReferenceError
from cai_reference.models.decoder import AttentionSpec
from cai_reference.models.stack import DecoderStack
from support_decoder_models import small
from support_refusals import raises
from support_sessions import FED, fed, future, lone, refuses

NAMES = ["attention", "local", "ssm", "latent", "hybrid", "grouped", "parallel-hybrid"]
SAMPLE = ("local", "hybrid", "grouped")
each_name = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.exhaustive) for name in NAMES]
)


@each_name
def test_ids_outside_the_vocabulary(name: str) -> None:
    """The first offender is named by its place; what stood before it is not fed."""
    session = fed(name)
    vocabulary = session.model.configuration.vocabulary
    for ids, index in (([vocabulary], 0), ([1, 2, vocabulary + 4], 2), ([3, -1, vocabulary], 1)):
        refuses(
            session,
            SessionError("token-out-of-range", index=index, token=ids[index], vocabulary=vocabulary),
            partial(session.feed, ids),
        )


@each_name
def test_more_tokens_than_the_capacity(name: str) -> None:
    """Four do not fit where three do; nothing of the four is fed."""
    session = fed(name)
    refuses(
        session, SessionError("capacity-exceeded", length=FED, count=4, capacity=12), lambda: session.feed([1, 2, 3, 4])
    )
    session.feed([1, 2, 3])
    for ids in ([1], [1, 2]):
        with raises(SessionError("capacity-exceeded", length=12, count=len(ids), capacity=12)):
            session.feed(ids)


def test_the_capacity_is_the_context_unless_given() -> None:
    """The model's context holds one sequence; a session may hold more, windows or not."""
    for name in ("attention", "local", "hybrid"):
        model = small(name)
        session = Session(model, STRICT)
        session.feed([2] * 24)
        with raises(SessionError("capacity-exceeded", length=24, count=1, capacity=24)):
            session.feed([2])
        assert 30 == Session(model, STRICT, SessionOptions(capacity=30)).capacity


def test_nothing_to_feed() -> None:
    """No tokens are no call."""
    session = fed("hybrid")
    refuses(session, SessionError("nothing-to-feed"), lambda: session.feed([]))


@pytest.mark.parametrize("options", [(-1, 5, 0), (0, 0, 0), (0, -3, 0), (0, 5, -1)])
def test_a_session_that_cannot_be_opened(options: tuple[int, int, int]) -> None:
    """Start and slack are not negative, capacity is at least 1."""
    start, capacity, slack = options
    with raises(SessionError("invalid-capacity", start=start, capacity=capacity, slack=slack)):
        Session(small("ssm"), STRICT, SessionOptions(start, capacity, slack))


@each_name
def test_cutting_beyond_the_length(name: str) -> None:
    """Neither longer than it is nor below zero; its own length is no cut."""
    session = fed(name)
    for length in (FED + 1, 100, -1):
        refuses(
            session,
            SessionError("truncation-out-of-range", requested=length, length=FED),
            partial(session.truncate, length),
        )
    before = future(session)
    session.truncate(FED)
    assert before == future(session)


# Snapshots.


def test_snapshots_of_something_else() -> None:
    """Another model, even an equal one; another arithmetic; another capacity, slack, start or cache."""
    model = small("hybrid")
    options = SessionOptions(capacity=12, slack=2)
    session = Session(model, STRICT, options)
    session.feed([1, 2, 3])
    strangers = [("model", Session(small("hybrid"), STRICT, options)), ("arithmetic", Session(model, FAST, options))]
    others = [
        replace(options, capacity=13),
        replace(options, slack=1),
        replace(options, start=1),
        replace(options, latent=LatentCache.LATENT),
    ]
    strangers += [("kind of session", Session(model, STRICT, other)) for other in others]
    for what, stranger in strangers:
        stranger.feed([4])
        snapshot = stranger.snapshot()
        refuses(session, SessionError("snapshot-of-another-model", what=what), partial(session.restore, snapshot))


# Errors in the middle of a feed.


def parameter(model: DecoderStack, name: str) -> Parameter:
    """Return a parameter by name."""
    return next(parameter for parameter in model.parameters if parameter.name == name)


POISONS: list[tuple[str, str]] = [
    ("attention", "blocks.1.feed_forward.down.weight"),
    ("local", "blocks.2.mixer.slab.weight"),
    ("local", "head.hidden.weight"),
    ("ssm", "blocks.1.mixer.c"),
    ("ssm", "blocks.1.mixer.output.weight"),
    ("latent", "blocks.1.mixer.latent.weight"),
    ("hybrid", "blocks.2.mixer.slab.weight"),
    ("hybrid", "head.outputs.0.weight"),
    ("grouped", "blocks.2.feed_forward.up.first.weight"),
    ("parallel-hybrid", "blocks.1.norm1.gamma"),
]


@pytest.mark.parametrize(
    ("name", "poisoned", "latent"),
    [
        pytest.param(*poison, latent, marks=() if latent is chosen or poison[0] == "hybrid" else pytest.mark.exhaustive)
        for poison, chosen in zip(POISONS, cycle(LatentCache), strict=False)
        for latent in LatentCache
    ],
)
def test_an_error_inside_a_feed_changes_nothing(name: str, poisoned: str, latent: LatentCache) -> None:
    """A late layer overflows after earlier ones have taken the tokens in; healed, the session goes on as if unasked."""
    session = fed(name, latent=latent)
    before = future(session)
    weight = parameter(session.model, poisoned)
    healthy = weight.value
    weight.assign(np.full(weight.shape, 1.5e308))
    for ids in ([1], [1, 2, 3]):
        with pytest.raises(CaiReferenceError) as caught:
            session.feed(ids)
        assert caught.value.code.startswith("non-finite")
        assert FED == session.length
    weight.assign(healthy)
    assert before == future(session)


def test_a_poisoned_embedding_fails_only_where_it_is_read() -> None:
    """The tokens before it in the same feed stay unfed as well."""
    session = fed("hybrid")
    before = future(session)
    table = parameter(session.model, "embedding.weight")
    healthy, poisoned = table.value, table.value.copy()
    poisoned[6] = 1.5e308
    alpha = parameter(session.model, "blocks.0.norm1.alpha")
    small_alpha = alpha.value
    table.assign(poisoned)
    alpha.assign(np.array([4.0]))
    with raises(AutogradError("non-finite-forward", operation="multiply", index=16, value=float("inf"))):
        session.feed([3, 5, 6])
    table.assign(healthy)
    alpha.assign(small_alpha)
    assert before == future(session)


def test_a_score_beyond_every_number_is_refused() -> None:
    """A key scored −∞ would weigh 0 like one that is not visible."""
    session = lone(AttentionSpec(), 0)
    model = session.model
    slab = parameter(model, "blocks.0.mixer.slab.weight")
    slab.assign(np.zeros(slab.shape))
    bias = parameter(model, "blocks.0.mixer.slab.bias")
    values = np.zeros(bias.shape)
    values[4], values[12] = 1e200, -1e200
    bias.assign(values)
    with raises(SessionError("non-finite-score", head=1, key=0, value=float("-inf"))):
        session.feed([1])
    assert 0 == session.length
