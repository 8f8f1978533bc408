"""One decode suite from stories to everything that its trace states."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cai_conformance.backends.engine.stages import Stage, record_stages
from cai_conformance.backends.reference.arms import (
    ArmResult,
    Bench,
    CacheCount,
    Rollback,
    check_rollback,
    count_caches,
    run_arms,
)
from cai_conformance.backends.reference.story_training import (
    StoryData,
    Trained,
    first_steps_replay,
    prepare,
    train_models,
)
from cai_conformance.errors import FixtureError
from cai_conformance.fixtures.decoder_phases import phase_of, sizes_for
from cai_conformance.fixtures.phases import DecodePhase
from cai_conformance.fixtures.sizes import Sizes
from cai_reference.arithmetic import Arithmetic
from cai_reference.errors import CaiReferenceError
from cai_reference.models.registry import parameter_count, weight_count

REPLAYED_STEPS = 2
"""How many steps a backend replays within its own run; a judge replays all of it in a fresh process."""
ROLLED_BACK_TOKENS = 32
"""How long the sequence is along which a session is cut back and fed again."""
ABSORBED_TOLERANCE = 1e-12
"""Folding regroups sums; this is what it may cost, in logits of order 1."""
FAST_TOLERANCE = 1e-9
"""Between paths in `fast`, whose products depend on the batch; only the proof's wording depends on it."""


@dataclass(frozen=True)
class DecodeExperiment:
    """A finished experiment."""

    phase: DecodePhase
    sizes: Sizes
    arithmetic: Arithmetic
    data: StoryData
    trained: Trained
    stages: tuple[Stage, ...]
    arms: tuple[ArmResult, ...]
    caches: tuple[CacheCount, ...]
    rollback: Rollback
    replays: bool

    @property
    def parameters(self) -> int:
        """Every trained scalar of the decoder."""
        return parameter_count(self.trained.model.parameters)

    @property
    def weights(self) -> int:
        """The same without biases of projections."""
        return weight_count(self.trained.model.parameters)

    def of_arm(self, arm: str) -> list[ArmResult]:
        """Return the results of one arm, by prompt."""
        return [result for result in self.arms if result.arm == arm]

    def full_of(self, prompt: int) -> ArmResult:
        """Return the batch path's result for a prompt."""
        return self.of_arm("full")[prompt]

    def tokens_equal(self) -> bool:
        """Whether every arm generates what the batch path does, up to where the arm is stopped earlier."""
        return all(
            result.generation.ids == self.full_of(result.prompt).generation.ids[: len(result.generation.ids)]
            for result in self.arms
        )

    def logits_agreement(self) -> str:
        """Return how the logits of all arms compare with the batch path's: `bitwise`, `close` or `different`."""
        worst = "bitwise"
        for result in self.arms:
            expected = self.full_of(result.prompt).generation.rows
            for row, other in zip(result.generation.rows, expected, strict=False):
                if row.tobytes() == other.tobytes():
                    continue
                distance = float(np.max(np.abs(row - other)))
                absorbed = result.arm == "absorbed" and distance <= ABSORBED_TOLERANCE
                if self.arithmetic.bitwise and absorbed:
                    continue
                if self.arithmetic.bitwise or distance > FAST_TOLERANCE:
                    return "different"
                worst = "close"
        return worst

    def caches_exact(self) -> bool:
        """Whether live floats and slack fit into what is allocated, in every layer and arm."""
        return all(
            0 < count.accounting.floats + count.accounting.slack <= count.accounting.allocated for count in self.caches
        )

    def witnesses_met(self) -> bool:
        """Whether every accepted length and every offset of EOS occurred, and a window was left where there is one."""
        block = self.sizes.block
        accepted = {p.accepted for result in self.of_arm("scripted") for p in result.generation.passes}
        stopped = {result.arm for result in self.arms}
        offsets = {f"scripted.eos-{offset}" for offset in range(block + 1)}
        longest = max(count.prefix for count in self.caches)
        left = not self.phase.has_window or longest > self.sizes.window
        return accepted == set(range(block + 1)) and offsets <= stopped and left


def run_decode_experiment(
    suite: str, profile: str, examples: int, stories: bytes, arithmetic: Arithmetic
) -> DecodeExperiment:
    """Prepare, train, decode by every arm, count caches, roll back, replay.

    Raises:
        FixtureError: a stage failed; the reference's error is the cause.
        InputError: the user's stories cannot be used.
    """
    phase = phase_of(suite)
    sizes = sizes_for(phase, profile, examples)
    data = prepare(sizes, stories)
    trained = train_models(phase, sizes, data, arithmetic)
    bench = Bench(phase, sizes, trained.model, trained.draft, arithmetic)
    prompts = data.prompts(sizes)
    try:
        arms = run_arms(bench, prompts)
        sequence = [*prompts[0], *arms[0].generation.ids][: sizes.context]
        return DecodeExperiment(
            phase,
            sizes,
            arithmetic,
            data,
            trained,
            record_stages(trained.model, prompts[0], arithmetic),
            arms,
            count_caches(bench, sequence, prefixes(sizes, len(sequence))),
            check_rollback(bench, sequence[:ROLLED_BACK_TOKENS]),
            first_steps_replay(phase, sizes, data, arithmetic, REPLAYED_STEPS),
        )
    except CaiReferenceError as error:
        raise FixtureError("Decoding", str(error)) from error


def prefixes(sizes: Sizes, longest: int) -> list[int]:
    """Return the lengths at which caches are counted: one below the window, the prompt, and the whole sequence."""
    wanted = sorted({min(sizes.window - 2, longest), min(sizes.prompt_tokens, longest), longest})
    assert all(earlier < later for earlier, later in pairwise(wanted))
    return wanted
