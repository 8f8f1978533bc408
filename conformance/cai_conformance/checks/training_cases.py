"""Training on vector cases: windows and batches, initial values, loss, gradients, and steps of the optimiser."""

from __future__ import annotations

from typing import Final

from cai_conformance.checks.case_check import case_check
from cai_conformance.checks.case_witnesses import (
    CLIPPED,
    COMPARED,
    FITTING,
    KEPT,
    LARGE,
    LOWEST,
    MOVED,
    NARROW,
    OVERFLOWS,
    REJECTED_DRAWS,
    REPEATED,
    ROWS,
    SHORT,
    STEPS,
    TIED_MAXIMA,
    UNDERFLOWS,
    WINDOWS,
)
from cai_conformance.verdicts import Level

DATA_WINDOWS: Final = case_check(
    "data.windows",
    Level.T0,
    "windows stay inside their document, and the last full one counts",
    "Documents shorter and longer than a window, strides, and a last window that just fits.",
    WINDOWS,
    SHORT.of("documents"),
    FITTING,
    catches=(
        "data.last-window-dropped data.padded-in-front data.windows-cross-documents "
        "data.windows-shifted-twice data.windows-unshifted windows.stride-two"
    ),
)
DATA_ORDER: Final = case_check(
    "data.order",
    Level.T0,
    "batches follow the defined shuffle and its unbiased draws",
    "Fisher–Yates from the top; a bound for which half of all draws must be rejected at the low end.",
    COMPARED,
    REJECTED_DRAWS.of("rejection", "below-threshold"),
    LOWEST.of("threshold"),
    MOVED.of("shuffle", "partial"),
    NARROW.of("partial"),
    catches=(
        "data.draws-by-remainder data.narrow-batch-dropped data.shuffled-from-the-bottom batches.last-filled "
        "draws.high-end draws.multiply-high draws.rejected-kept draws.scaled-unit draws.threshold-rejected "
        "shuffle.batches shuffle.never-in-place"
    ),
)
INITIAL: Final = case_check(
    "init.golden",
    Level.T0,
    "initial weights have the defined bits",
    "limit · (2u − 1), row by row. Interpolating between the limits instead gives other last bits.",
    COMPARED,
    catches=(
        "init.by-columns init.interpolated init.same-for-all init.variance-for-deviation init.all-64-bits "
        "init.single-precision"
    ),
)
LOSS: Final = case_check(
    "loss.weights",
    Level.T1,
    "the mean loss of given logits is exact",
    "Ties, dominated rows, long tails and many rows: which terms are summed, in which order, through log1p.",
    ROWS,
    TIED_MAXIMA.of("uniform", "ties"),
    catches=(
        "arithmetic.sums-backwards log1p.log-of-sum loss.all-ties-skipped loss.log-of-probability "
        "loss.log-sum loss.sum-minus-one tail.backwards tail.exact tail.pairwise total.backwards total.exact "
        "total.pairwise"
    ),
)
LOSS_SHIFT: Final = case_check(
    "loss.shift",
    Level.T1,
    "a constant added to all logits does not overflow",
    "Logits near 10⁴, whose exponentials do not exist.",
    LARGE,
    catches="loss.no-maximum loss.overflows",
)
EVALUATION: Final = case_check(
    "eval.batch",
    Level.T1,
    "evaluation weighs batches by their rows",
    "Seven windows in batches of three: the mean of batch means differs.",
    WINDOWS,
    NARROW,
    catches=(
        "evaluation.dropout evaluation.mean-of-batches evaluation.mean-of-exponentials "
        "evaluation.narrow-batch-dropped batches.last-filled evaluation.other-batches"
    ),
)
GRADIENTS: Final = case_check(
    "grad.golden",
    Level.T1,
    "gradients of a small model are exact",
    "Repeated ids, several rows, all five matrices: each bit depends on the order of accumulation.",
    COMPARED,
    REPEATED,
    catches=(
        "gradient.last-occurrence gradient.divided gradient.scaled-first gradient.scaled-last "
        "gradient.scatter-backwards gradient.scatter-by-position gradient.silu-output gradient.silu-product "
        "loss.first-target product.einsum"
    ),
)
ADAMW: Final = case_check(
    "opt.step",
    Level.T2,
    "AdamW steps are exact",
    "Running products against pow over fifteen steps, a large decay, a large epsilon on small gradients.",
    COMPARED,
    STEPS,
    catches=(
        "adamw.betas-exchanged adamw.coupled-decay adamw.decay-after-update adamw.eps-before-correction "
        "adamw.eps-inside-root adamw.no-bias-correction adamw.no-decay adamw.added-before-subtracting "
        "adamw.betas-fixed adamw.decay-subtracted-first adamw.decimal-complement adamw.epsilon-fixed "
        "adamw.epsilon-pytorch adamw.lerp adamw.one-step adamw.pow adamw.rate-last adamw.shrink-first "
        "adamw.single-moments adamw.square-last training.clipped training.single-weights"
    ),
)
UPDATES: Final = case_check(
    "opt.step",
    Level.T2,
    "three updates with clipping by one norm, scheduled rates and undecayed gains give the right weights",
    "Epsilon and decay are large, so that a wrong place for either shows.",
    COMPARED,
    STEPS,
    CLIPPED.of("clipped", "large"),
    KEPT.of("kept", "tiny"),
    UNDERFLOWS.of("tiny"),
    OVERFLOWS.of("large"),
    catches=(
        "clip.epsilon adamw.added-before-subtracting adamw.betas-fixed adamw.decay-subtracted-first "
        "adamw.decimal-complement adamw.epsilon-fixed adamw.epsilon-pytorch adamw.lerp adamw.one-step "
        "adamw.pow adamw.rate-last adamw.shrink-first adamw.single-moments adamw.square-last training.clipped "
        "training.single-weights"
    ),
)
