"""Rows and tokens on given weights: the batch path, a session that is fed in two calls, every arm, and what moves."""

from __future__ import annotations

from typing import Final

from cai_conformance.checks.case_check import case_check
from cai_conformance.checks.case_witnesses import (
    BEFORE,
    BEHIND,
    COMPARED,
    DISTINCT,
    FAR,
    IN_FRONT,
    LATER_HEADS,
    MOVED_ROWS,
    OUT_OF_REACH,
    SEEN,
    TOKENS,
)
from cai_conformance.verdicts import Level

ELEMENTARY: Final = case_check(
    "num.elementary",
    Level.I1,
    "exp and log1p are those of strict/1",
    "The elementary functions that the model uses, on chosen and on drawn arguments, bit for bit.",
    COMPARED,
    catches=(
        "arithmetic.exponential-squared exp.c-library exp.flushed exp.numpy log1p.c-library log1p.log-of-sum "
        "log1p.numpy"
    ),
)
NGRAM: Final = case_check(
    "fwd.oracle",
    Level.I1,
    "the forward pass gives the exact logits of given weights",
    "Drawn weights and the shipped ones; every bit depends on the order of sums and on rounding each product.",
    COMPARED,
    catches=(
        "arithmetic.products-backwards evaluation.dropout context.newest-first product.blas "
        "product.from-the-first product.fused product.lanes product.pairwise product.single "
        "sigmoid.one-branch sigmoid.tanh"
    ),
)
BATCH: Final = case_check(
    "fwd.oracle",
    Level.I1,
    "the batch path gives the exact logits of given weights",
    "A sequence longer than the window, and one that starts at position 3000.",
    COMPARED,
    SEEN,
    FAR.of("far"),
    LATER_HEADS.of("head"),
    catches=(
        "attention.groups-strided attention.heads-unmerged attention.keys-and-values-exchanged "
        "attention.keys-unrotated attention.scale-model-width attention.unscaled block.* embedding.* "
        "evaluation.dropout head.no-final-norm loading.blocks-exchanged loading.three-digits "
        "mla.key-never-turned mla.latent-turned mla.scale-nope norm.* projection.* rope.adjacent "
        "rope.angles-in-half-precision rope.base-10000 rope.base-1000000 rope.base-500000 rope.clockwise "
        "rope.half-split rope.none ssm.euler swiglu.* window.minus-one window.plus-one context.newest-first "
        "product.blas product.from-the-first product.fused product.lanes product.pairwise product.single "
        "sigmoid.one-branch sigmoid.tanh"
    ),
)
SESSION: Final = case_check(
    "kv.split",
    Level.I2,
    "a session fed in two calls gives the exact logits of given weights",
    "Cuts after one token, in the middle, and early at a far start.",
    COMPARED,
    BEFORE,
    BEHIND,
    FAR.of("far"),
    catches=(
        "cache.chunk-unmasked cache.kept-between-sequences cache.keys-rotated-again cache.mask-top-left "
        "cache.values-one-behind cache.window-ignored mla.key-cached-unturned rope.restart "
        "rope.start-forgotten ssm.chunk-from-zero ssm.one-step-a-call ssm.state-kept"
    ),
)
GENERATION: Final = case_check(
    "gen.given",
    Level.I2,
    "every arm generates the right tokens on given weights",
    "Nobody has to train to be judged: the shipped weights are exact in bfloat16, float16 and float32.",
    TOKENS,
    DISTINCT,
    catches=(
        "cache.newest-row-only cache.position-plus-one-after-rollback cache.rollback-ignored "
        "cache.stale-row-after-rollback mla.folded-without-value-bias speculation.bonus-twice "
        "speculation.later-matches stop.budget-plus-one"
    ),
)
CAUSAL: Final = case_check(
    "causal.flip",
    Level.I1,
    "another token moves the logits behind it, and none in front of it",
    "One token in the middle is exchanged; the answer is where logits change.",
    MOVED_ROWS,
    IN_FRONT,
    catches="attention.future-token attention.softmax-over-queries",
)
REACH: Final = case_check(
    "kv.reach",
    Level.I2,
    "another first token moves exactly the logits that a window reaches through all layers",
    "The last one that moves stands at layers · (window − 1). Full and cached path are asked apart.",
    MOVED_ROWS,
    OUT_OF_REACH,
    catches="cache.window-ignored window.*",
)
