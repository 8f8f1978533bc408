"""Sessions over small models, and all that a session can say, to see whether a call has changed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.errors import CaiReferenceError
from cai_reference.models.decoder import Decoder, MixerSpec
from cai_reference.splitmix import SplitMix64
from support_decoder_models import PLAIN, sequence, small, stir
from support_refusals import raises

FED = 9


def fed(name: str, slack: int = 2, latent: LatentCache = LatentCache.HEADS, capacity: int = 12) -> Session:
    """Return a session that has seen nine tokens, windows full."""
    session = Session(small(name), STRICT, SessionOptions(capacity=capacity, slack=slack, latent=latent))
    session.feed(sequence(session.model.configuration.vocabulary, FED))
    return session


def future(session: Session) -> tuple[int, int, list[bytes]]:
    """Return the length, how far back the session reaches, and the bits of what it will say, leaving it unchanged."""
    snapshot = session.snapshot()
    length, earliest = session.length, session.earliest()
    said = [head.tobytes() for head in session.feed([4, 2, 7])]
    session.restore(snapshot)
    for target in sorted({earliest, max(earliest, length - 1)} - {length}):
        session.truncate(target)
        said += [head.tobytes() for head in session.feed([5])]
        session.restore(snapshot)
    return length, earliest, said


def refuses(session: Session, error: CaiReferenceError, call: Callable[[], object]) -> None:
    """Require the error with its values, and an unchanged session."""
    before = future(session)
    with raises(error):
        call()
    assert before == future(session)


def lone(mixer: MixerSpec, slack: int, capacity: int = 20, latent: LatentCache = LatentCache.HEADS) -> Session:
    """Open a session over one block."""
    model = Decoder.initialize(replace(PLAIN, mixers=(mixer,)), SplitMix64(4))
    stir(model.parameters, 2)
    return Session(model, STRICT, SessionOptions(capacity=capacity, slack=slack, latent=latent))
