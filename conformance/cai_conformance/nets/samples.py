"""What the library measured on a net: outputs, decoded tokens, gradients, fit steps, session edges.

Fields may be missing, and those that nobody knows are kept by name, so that whoever verifies can say that they were not
looked at. `cai_conformance.nets.sample_parsing` reads such samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Ids: TypeAlias = tuple[int, ...]
Row: TypeAlias = tuple[float, ...]


@dataclass(frozen=True)
class ForwardCase:
    """One input, a row a token and mostly a row of one id, with the output row of every token."""

    input: tuple[Row, ...]
    output: tuple[Row, ...]


@dataclass(frozen=True)
class DecodeCase:
    """One prompt with what each way of decoding made of it, prompt included; None where nothing was measured.

    Attributes:
        prompt: the ids.
        greedy_full: by encoding everything again for each token, padded with zeros to the context.
        greedy_session: by the streaming session, a token a step.
        streamed: by the library's own streamed generator, which stops behind the first id below 2.
        session_rows: the output row of each step of the session.
        incremental: by the net-level incremental mode, which carries token shifts.
        width2: from the two newest tokens alone.
    """

    prompt: Ids
    greedy_full: Ids | None = None
    greedy_session: Ids | None = None
    streamed: Ids | None = None
    session_rows: tuple[Row, ...] = ()
    incremental: Ids | None = None
    width2: Ids | None = None


@dataclass(frozen=True)
class NetSample:
    """Outputs and decoded tokens of one net.

    Attributes:
        seed: from which the initial values of the same net were drawn; None if it is not stated.
        sizes: the sizes that were asked for, by the sample's own names.
        weights, layers: counts; None if they are not stated.
        session: attention caches, recurrences and rotary layers; None if they are not stated.
        forward, decode: the cases.
        unknown: fields that are not verified, by name.
    """

    seed: int | None
    sizes: Mapping[str, int]
    weights: int | None
    layers: int | None
    session: tuple[int, int, int] | None
    forward: tuple[ForwardCase, ...]
    decode: tuple[DecodeCase, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class NeuronGradient:
    """The gradient of one neuron's bias and weights, in the order of the file."""

    bias: float
    weights: Row


@dataclass(frozen=True)
class GradientSample:
    """Gradients of a whole batch, by the index of the layer."""

    layers: Mapping[int, tuple[NeuronGradient, ...]]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class FitRun:
    """Some steps of the library's fitting loop.

    Attributes:
        rate, beta1, beta2, epsilon, decay, limit: of the optimiser.
        batch: stories a step, taken in order.
        losses, errors: the reports of each step.
        final: the name of the net that was left.
    """

    rate: float
    beta1: float
    beta2: float
    epsilon: float
    decay: float
    limit: float
    batch: int
    losses: Row
    errors: Row
    final: str


@dataclass(frozen=True)
class TrainingSample:
    """Stories, which of them the gradients are of, and fits on them.

    Attributes:
        stories: ids.
        gradient_file: the name of the file with the gradients; None if there are none.
        gradient_batch: which stories they are of, in order.
        runs: the fits.
        unknown: fields that are not verified, by name.
    """

    stories: tuple[Ids, ...]
    gradient_file: str | None
    gradient_batch: tuple[int, ...]
    runs: tuple[FitRun, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class EdgeStep:
    """One step of a session: a token at a position, the row that came out, and how long the caches were then."""

    token: int
    position: int
    cache_length: int
    row: Row


@dataclass(frozen=True)
class SessionEdgeSample:
    """Sequences of session steps, by the name of what was done to the session."""

    sequences: Mapping[str, tuple[EdgeStep, ...]]
    unknown: tuple[str, ...] = ()


Sample: TypeAlias = NetSample | GradientSample | TrainingSample | SessionEdgeSample
