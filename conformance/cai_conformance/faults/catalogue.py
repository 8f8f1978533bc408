"""All seeded faults, in the order in which they are tried: the forward pass first, then sessions, choice, training.

What no diagnosis tries on rows of logits comes last: tokens, data, speculation, evaluation, traces.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.faults.attending import ATTENDING
from cai_conformance.faults.caches import CACHES
from cai_conformance.faults.checkpoints import CHECKPOINTING
from cai_conformance.faults.choosing import CHOOSING
from cai_conformance.faults.computing import COMPUTING
from cai_conformance.faults.data import LEARNING_FROM
from cai_conformance.faults.errors import UnknownFault
from cai_conformance.faults.evaluating import EVALUATING
from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.forward import FEEDING, WIRING
from cai_conformance.faults.gradients import GRADIENTS
from cai_conformance.faults.initializing import INITIALIZING
from cai_conformance.faults.latent import LATENT
from cai_conformance.faults.loading import LOADING
from cai_conformance.faults.losing import LOSING
from cai_conformance.faults.norms import NORMS
from cai_conformance.faults.optimizing import OPTIMIZING
from cai_conformance.faults.rotary import ROTARY
from cai_conformance.faults.sampling import SAMPLING
from cai_conformance.faults.selecting import SELECTING
from cai_conformance.faults.speculating import SPECULATING
from cai_conformance.faults.storing import STORING
from cai_conformance.faults.tokenizing import TOKENIZING
from cai_conformance.faults.tracing import TRACING
from cai_conformance.faults.windows import WINDOWS

FAULTS: Final = (
    *ROTARY,
    *ATTENDING,
    *WINDOWS,
    *NORMS,
    *FEEDING,
    *WIRING,
    *LATENT,
    *CACHES,
    *STORING,
    *CHOOSING,
    *SAMPLING,
    *LOSING,
    *GRADIENTS,
    *OPTIMIZING,
    *LOADING,
    *CHECKPOINTING,
    *SPECULATING,
    *TOKENIZING,
    *LEARNING_FROM,
    *INITIALIZING,
    *EVALUATING,
    *SELECTING,
    *TRACING,
    *COMPUTING,
)
"""Each with a slug of its own."""


def fault_named(slug: str) -> Fault:
    """Return a fault.

    Raises:
        UnknownFault: there is none of this slug.
    """
    for fault in FAULTS:
        if fault.slug == slug:
            return fault
    raise UnknownFault(slug)


def faults_at(*places: Place) -> tuple[Fault, ...]:
    """Return the faults that act at any of some places."""
    return tuple(fault for fault in FAULTS if fault.places & set(places))
