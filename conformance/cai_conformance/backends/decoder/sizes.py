"""The sizes at which decode suites train and decode: a small one for goldens, and the published one.

The golden size is small enough to train in seconds in `strict/1`; the published size is for `fast`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

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
