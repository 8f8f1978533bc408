"""What one decode suite trains and decodes, as data: nine phases, two sizes.

The phases are the published ones (CAI NEURAL API, decode-features bake-off). The golden size is small enough to train
in seconds in `strict/1`; the published size is for `fast`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    DraftConfiguration,
    LatentSpec,
    MixerSpec,
    SsmSpec,
    Wiring,
)
from cai_reference.training import AdamWConfiguration


@dataclass(frozen=True)
class Sizes:
    """Everything that a suite's trace states in CONFIG, besides the model's wiring.

    Attributes:
        merges: requested byte-pair merges; with bytes and control ids they make 258 more.
        vocabulary: how many ids the models know, at least as many as the tokenizer makes; None for as many.
        merge_stories: how many training stories the merges are learned on.
        context: the longest sequence.
        width, heads, feed_forward: of the decoder.
        window, latent, rope: of local and of latent attention.
        channels_per_group: the least inputs of a group in the grouped suite.
        futures: heads of the multi-token suite.
        draft_width, draft_hidden: of the token-shift draft.
        stories, story_seed, validation_every: the generated stories and their split.
        batch, steps: stories an update, and updates.
        evaluation_batch, evaluation_stories: stories an evaluation batch, and how many training stories are evaluated.
        init_seed, order_seed: two independent generators.
        optimizer, clip: AdamW and the largest gradient norm.
        prompts, prompt_tokens, new_tokens: how many prompts, how long, and the budget of each.
        chunk, block, slack: tokens a prefill chunk, guesses a pass, rows kept for rolling back.
    """

    merges: int
    vocabulary: int | None
    merge_stories: int
    context: int
    width: int
    heads: int
    feed_forward: int
    window: int
    latent: int
    rope: int
    channels_per_group: int
    futures: int
    draft_width: int
    draft_hidden: int
    stories: int
    story_seed: int
    validation_every: int
    batch: int
    evaluation_batch: int
    evaluation_stories: int
    steps: int
    init_seed: int
    order_seed: int
    optimizer: AdamWConfiguration
    clip: float
    prompts: int
    prompt_tokens: int
    new_tokens: int
    chunk: int
    block: int
    slack: int

    @property
    def reported_steps(self) -> frozenset[int]:
        """The steps after which losses are computed: before, halfway, after."""
        return frozenset({0, self.steps // 2, self.steps})


GOLDEN_SIZES: Final = Sizes(
    merges=62,
    vocabulary=None,
    merge_stories=24,
    context=48,
    width=24,
    heads=3,
    feed_forward=48,
    window=7,
    latent=6,
    rope=4,
    channels_per_group=8,
    futures=3,
    draft_width=16,
    draft_hidden=32,
    stories=80,
    story_seed=5,
    validation_every=10,
    batch=3,
    evaluation_batch=16,
    evaluation_stories=16,
    steps=60,
    init_seed=11,
    order_seed=12,
    optimizer=AdamWConfiguration(0.02, 0.9, 0.98, 1e-8, 0.01),
    clip=1.0,
    prompts=3,
    prompt_tokens=16,
    new_tokens=32,
    chunk=5,
    block=4,
    slack=4,
)

PUBLISHED_SIZES: Final = replace(
    GOLDEN_SIZES,
    # Generated stories would shrink to a dozen tokens under 2,742 merges, so most of the published ids stay unused.
    merges=262,
    vocabulary=3000,
    merge_stories=100,
    width=128,
    heads=8,
    feed_forward=512,
    window=12,
    latent=32,
    rope=8,
    channels_per_group=16,
    draft_width=64,
    draft_hidden=256,
    stories=800,
    validation_every=20,
    batch=32,
    evaluation_batch=30,
    evaluation_stories=60,
    steps=20,
    optimizer=AdamWConfiguration(0.002, 0.9, 0.98, 1e-8, 0.01),
)


@dataclass(frozen=True)
class Phase:
    """What sets one suite apart: the mixers, their wiring, whether projections are grouped, and the extra arms.

    Attributes:
        suite: the id of the suite.
        mixers: a letter a block: `a` attention, `w` attention with a window, `l` latent attention, `s` recurrence.
        wiring: of the blocks.
        grouped: whether projections are grouped.
        futures: whether the model predicts several tokens.
        draft: whether a token-shift draft is trained beside it.
        steps: updates at the golden size, where they differ from the common number.
    """

    suite: str
    mixers: str
    wiring: Wiring = Wiring.SEQUENTIAL
    grouped: bool = False
    futures: bool = False
    draft: bool = False
    steps: int | None = None

    @property
    def has_latent(self) -> bool:
        """Whether a layer is latent attention, so that there are two more arms."""
        return "l" in self.mixers

    def specs(self, sizes: Sizes) -> tuple[MixerSpec, ...]:
        """Return the mixers at a size."""
        made: dict[str, MixerSpec] = {
            "a": AttentionSpec(),
            "w": AttentionSpec(sizes.window),
            "l": LatentSpec(sizes.latent, sizes.rope),
            "s": SsmSpec(),
        }
        return tuple(made[letter] for letter in self.mixers)

    def decoder(self, sizes: Sizes, vocabulary: int) -> DecoderConfiguration:
        """Return the model of the suite at a size."""
        return DecoderConfiguration(
            vocabulary,
            sizes.context,
            sizes.width,
            sizes.heads,
            sizes.feed_forward,
            self.specs(sizes),
            self.wiring,
            sizes.channels_per_group if self.grouped else None,
            sizes.futures if self.futures else 1,
        )

    def draft_model(self, sizes: Sizes, vocabulary: int) -> DraftConfiguration:
        """Return the draft of the suite at a size."""
        return DraftConfiguration(vocabulary, sizes.context, sizes.draft_width, sizes.draft_hidden)


PHASES: Final = (
    Phase("cai.kv-cache", "aa"),
    Phase("cai.multi-token", "aa", futures=True),
    Phase("cai.diagonal-ssm", "ss", steps=36),
    Phase("cai.latent-attention", "ll"),
    Phase("cai.speculative", "aa", draft=True),
    Phase("cai.hybrid", "sls"),
    Phase("cai.grouped-hybrid", "sls", grouped=True, steps=40),
    Phase("cai.local-global", "wa", steps=36),
    Phase("cai.parallel-block", "aa", wiring=Wiring.PARALLEL, steps=56),
)


def phase_of(suite: str) -> Phase:
    """Return the phase of a suite id; StopIteration if it is none."""
    return next(phase for phase in PHASES if phase.suite == suite)


def sizes_for(phase: Phase, profile: str, examples: int) -> Sizes:
    """Return the sizes of a profile; `examples`, where not 0, decides the number of updates."""
    if profile == "published":
        steps = max(1, examples // PUBLISHED_SIZES.batch) if examples else PUBLISHED_SIZES.steps
        return replace(PUBLISHED_SIZES, steps=steps)
    sizes = GOLDEN_SIZES if phase.steps is None else replace(GOLDEN_SIZES, steps=phase.steps)
    return replace(sizes, steps=max(1, examples // sizes.batch)) if examples else sizes
