"""The nets of the nine published phases, at their published size, with the library's own initial weights."""

from __future__ import annotations

import re

from cai_conformance.backends.decoder.plan import PHASES, PUBLISHED_SIZES
from cai_conformance.interchange.configurations import Configuration
from cai_conformance.published.models import VOCABULARY
from cai_reference.legacy.initialization import initialize
from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.nets.conversion.from_decoder import build_net
from cai_reference.nets.format import NetFile

_PHASE = re.compile(r"phase([1-9])", re.ASCII)


def published_configuration(name: str) -> Configuration | None:
    """Return the configuration of `phase1` to `phase9`, or of `draft`, the small model of phase 5; None for others."""
    if name == "draft":
        return next(phase for phase in PHASES if phase.draft).draft_model(PUBLISHED_SIZES, VOCABULARY)
    found = _PHASE.fullmatch(name)
    return None if found is None else PHASES[int(found[1]) - 1].decoder(PUBLISHED_SIZES, VOCABULARY)


def published_net(configuration: Configuration, seed: int) -> NetFile:
    """Return a net as the library creates it right behind the setting of a seed.

    The published program draws before that, while it sorts its vocabulary, so that its own nets start elsewhere.
    """
    return initialize(build_net(configuration), MersenneTwister(seed))
