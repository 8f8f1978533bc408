"""What is known of a model after a step of its training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UpdateFacts:
    """What an update did: its rate, the norm of its gradients before clipping, and how many were clipped so far."""

    rate: float
    norm: float
    clipped: int


@dataclass(frozen=True)
class StepRecord:
    """Losses in nats and digests after one step.

    Attributes:
        step: how many updates had been made.
        train, validation: mean losses.
        parameters, moments: digests; None where the state was not kept.
        update: of the step, where the phase tells it; zeros before the first.
    """

    step: int
    train: float
    validation: float
    parameters: str | None
    moments: str | None
    update: UpdateFacts | None = None
