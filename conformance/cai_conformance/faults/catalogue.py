"""All seeded faults, in the order in which they are tried: the forward pass first, then sessions, choice, training.

What no diagnosis tries on rows of logits comes last: tokens, data, speculation, evaluation, traces.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.faults.arithmetic import ARITHMETIC
from cai_conformance.faults.attention import ATTENTION
from cai_conformance.faults.block import BLOCK
from cai_conformance.faults.cache import CACHE, MEMORY
from cai_conformance.faults.checkpoint import CHECKPOINT
from cai_conformance.faults.data import DATA
from cai_conformance.faults.errors import FaultError
from cai_conformance.faults.evaluation import EVALUATION
from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.gradient import GRADIENT
from cai_conformance.faults.initialization import INITIALIZATION
from cai_conformance.faults.latent import LATENT
from cai_conformance.faults.loading import LOADING
from cai_conformance.faults.loss import LOSS
from cai_conformance.faults.norm import NORM
from cai_conformance.faults.optimizer import OPTIMIZER
from cai_conformance.faults.recurrence import DECAY, RECURRENCE
from cai_conformance.faults.rotary import ROTARY
from cai_conformance.faults.sampling import CHOICE, SAMPLING
from cai_conformance.faults.selection import SELECTION
from cai_conformance.faults.speculation import SPECULATION
from cai_conformance.faults.tokenizer import TOKENIZER
from cai_conformance.faults.trace import TRACE
from cai_conformance.faults.window import WINDOW

FAULTS: Final[tuple[Fault, ...]] = (
    *ROTARY,
    *ATTENTION,
    *WINDOW,
    *NORM,
    *BLOCK,
    *DECAY,
    *LATENT,
    *CACHE,
    *RECURRENCE,
    *MEMORY,
    *CHOICE,
    *SAMPLING,
    *LOSS,
    *GRADIENT,
    *OPTIMIZER,
    *LOADING,
    *CHECKPOINT,
    *SPECULATION,
    *TOKENIZER,
    *DATA,
    *INITIALIZATION,
    *EVALUATION,
    *SELECTION,
    *TRACE,
    *ARITHMETIC,
)
"""Each with a slug of its own."""

GUESSES: Final = tuple(fault for fault in FAULTS if fault.guessed)
"""What an explanation tries, and may name."""


def fault_named(slug: str) -> Fault:
    """Return a fault.

    Raises:
        FaultError (unknown-fault): there is none of this slug.
    """
    for fault in FAULTS:
        if fault.slug == slug:
            return fault
    raise FaultError("unknown-fault", slug=slug)


def faults_at(*places: Place) -> tuple[Fault, ...]:
    """Return the faults that act at any of some places and that an explanation may name."""
    return tuple(fault for fault in GUESSES if fault.places & set(places))
