"""Choices: ties of greedy decoding, laws of samplers and what they keep, seeded draws, speculation by chance."""

from __future__ import annotations

from typing import Final

from cai_conformance.checks.case_check import case_check
from cai_conformance.checks.case_witnesses import (
    ACCEPTED,
    AT_A_BORDER,
    BONUSES,
    COMPARED,
    CONTINUED,
    DISTINCT,
    DRAWS,
    DROPPED,
    ENDED,
    MASKED,
    OUTCOMES,
    REFUSED,
    REJECTED,
    TIED_CHOICES,
    TIES,
    UNDRAWN,
    UNLIKELY,
    WITHOUT_RESIDUE,
)
from cai_conformance.verdicts import Level

GENERATED: Final = ("full", "cached", "scripted", "self-draft", "latent", "absorbed", "mtp-cached")
"""The cases of ties in generations; all others have planted logits."""
PLANTED: Final = ("top-k-border", "top-k-all-tied", "top-p-border", "greedy", "zeros")

LOWEST: Final = case_check(
    "smp.tie",
    Level.I1,
    "of equal maxima the lowest id is taken",
    "Planted ties, signed zeros among them. Trained logits practically never tie.",
    TIES,
    catches="argmax.last-maximum greedy.signed-zeros",
)
MASKING: Final = case_check(
    "smp.support",
    Level.I1,
    "masked ids are never chosen, and EOS ends without being appended",
    "In the published trace BOS is never the maximum and EOS never comes, so neither rule is exercised there.",
    MASKED.of("masked", "low"),
    ENDED.of("eos"),
    CONTINUED.of("sliding", "window"),
    catches=(
        "greedy.eos-appended greedy.mask-is-finite greedy.mask-is-zero greedy.newest-replaced "
        "greedy.slides-backwards greedy.still-context greedy.unmasked"
    ),
)
LOWER: Final = case_check(
    "smp.tie",
    Level.I2,
    "of two exactly equal maxima every arm takes the lower id",
    "Output columns come in equal pairs, so that every choice is a tie.",
    TIED_CHOICES.of(*GENERATED),
    TIES.of(*PLANTED),
    catches="argmax.last-maximum sampler.top-k-keeps-ties greedy.signed-zeros",
)
SEEDED: Final = case_check(
    "smp.seed",
    Level.I2,
    "seeded draws give the right tokens, and leave the generator in the right state",
    "Re-encoding, streaming and speculation by chance on given weights; no draw lies close to a border.",
    DRAWS,
    DISTINCT,
    catches="sampler.no-draw-for-one sampler.walked-by-rank speculation.another-law",
)
LAW: Final = case_check(
    "smp.law",
    Level.I2,
    "logits become the right probabilities",
    "Temperature, top-k, top-p and min-p, in this order; one weight is 1, so that nothing overflows.",
    COMPARED,
    catches="sampler.temperature-multiplies",
)
SUPPORT: Final = case_check(
    "smp.support",
    Level.I2,
    "temperature, top-k, top-p and min-p keep the right ids",
    "Masses that are crossed, masses that are met exactly, and what each stage sees of the one before.",
    COMPARED,
    DROPPED.but("top-p-one"),
    catches=(
        "sampler.min-p-of-mass sampler.top-p-before-temperature sampler.top-p-before-top-k "
        "sampler.top-p-one-more sampler.top-p-without-crossing greedy.eos-appended greedy.mask-is-finite "
        "greedy.mask-is-zero greedy.newest-replaced greedy.slides-backwards greedy.still-context "
        "greedy.unmasked"
    ),
)
EDGES: Final = case_check(
    "smp.edge",
    Level.I2,
    "draws at the ends, a temperature of 0 and logits that are not finite are handled",
    "A row that must be refused is answered by −1 and takes no draw.",
    COMPARED,
    AT_A_BORDER.of("first", "last", "border"),
    UNDRAWN.of("zero-temperature", "not-finite-greedy"),
    REFUSED.of("not-finite", "not-finite-greedy"),
    catches=(
        "sampler.draw-for-nothing sampler.excluded-at-zero sampler.nan-is-zero sampler.none-at-the-end "
        "sampler.zero-temperature-divides"
    ),
)
SPECULATION: Final = case_check(
    "spec.law",
    Level.I3,
    "speculation by chance keeps the law of the target",
    "Acceptance, residual, whole passes with given draws, and every outcome of one place over a grid of draws.",
    COMPARED,
    UNLIKELY.of("acceptance"),
    WITHOUT_RESIDUE.of("residual", "no-residual"),
    OUTCOMES.of("output"),
    ACCEPTED.of("all-accepted", "second-rejected"),
    REJECTED.of("first-rejected", "second-rejected", "excluded", "border"),
    BONUSES.of("all-accepted", "none-guessed"),
    catches=(
        "speculation.accepts-the-border speculation.one-draw speculation.ratio-undivided "
        "speculation.residual-of-target speculation.residual-through-softmax"
    ),
)
