"""The checks that drive a backend call by call. None needs a golden; those on a suite's model rest on given weights.

Those of self-consistency compare an engine with itself, so that any model will do: a suite asks them about the model
that it gives, and `cai-conform probe` about a model folder of anybody's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.judges.engines import (
    accumulating,
    checkpointing,
    cutting,
    differencing,
    disturbing,
    edges,
    equal_heads,
    evaluating,
    loss_shifting,
    neighbours,
    receptive_field,
    recurrence,
    reusing,
    rolling_back,
    shifting,
    speculating,
)
from cai_conformance.judges.engines.comparing import ROWS
from cai_conformance.judges.engines.cutting import going_on
from cai_conformance.judges.engines.driving import ProbeJudge, probing
from cai_conformance.judges.engines.training import (
    GRADIENT_WITNESSES,
    LOSS_WITNESSES,
    STEP_WITNESSES,
    STEPS,
    judge_gradients,
    judge_loss,
    judge_steps,
)
from cai_conformance.judges.witness import Witness
from cai_conformance.suites.suite import Check
from cai_conformance.verdicts import Level


@dataclass(frozen=True)
class SelfCheck:
    """A check of self-consistency: what a `Check` says, and a judge of any model under probe.

    Attributes:
        name, level, summary, explanation, cases: as those of `Check`.
        judge: looks at a model in its engine.
        witnesses: what it must have met, whatever the model.
        requires: a check of the same kind that must not have failed; empty if there is none.
        of: what a suite's model must have to be asked: `recurrent`, `futures`, or nothing.
    """

    name: str
    level: Level
    judge: ProbeJudge
    cases: tuple[str, ...]
    summary: str
    explanation: str
    witnesses: tuple[Witness, ...]
    requires: str = ""
    of: str = ""

    def check(self) -> Check:
        """Return the check that a suite asks of its given model."""
        return Check(
            self.name,
            self.level,
            self.summary,
            self.explanation,
            probing(self.judge),
            self.cases,
            requires=(self.requires or "trace.convention",),
            of_edges=True,
            witnesses=self.witnesses,
        )

    def belongs_to(self, phase: DecodePhase) -> bool:
        """Tell whether the model of a suite can be asked."""
        if self.of == "recurrent":
            return any("ssm" in name for name in phase.mixer_names)
        return phase.futures if self.of == "futures" else True


SELF_CHECKS: Final = (
    SelfCheck(
        "kv.batch",
        Level.I2,
        neighbours.judge_neighbours,
        neighbours.CASES,
        "a sequence in a batch gives the logits that it gives alone",
        "Rounding may follow the shape of a call, where the engine says so. What the neighbours hold must not "
        "matter: if only that is changed, every bit stays.",
        neighbours.WITNESSES,
    ),
    SelfCheck(
        "rope.shift",
        Level.I1,
        shifting.judge_shift,
        shifting.CASES,
        "the same tokens from a later start give the same logits",
        "Rotary attention sees distances, so a sequence may start anywhere in an empty slot. Keys or queries that are "
        "not turned, a start that a later call forgets, and angles in few digits show here.",
        (ROWS, *shifting.WITNESSES),
    ),
    SelfCheck(
        "kv.steps",
        Level.I2,
        cutting.judge_steps,
        (),
        "token by token, a sequence gives every row of one whole call",
        "Positions that restart, keys that are turned twice, stale rows, a window that only one of the two paths has.",
        (ROWS, *cutting.STEPS_WITNESSES),
    ),
    SelfCheck(
        "kv.cuts",
        Level.I2,
        cutting.judge_cuts,
        (),
        "cut in two calls anywhere, a sequence gives every row of one whole call",
        "The smallest cut that fails says where to look: one token in front, one behind, or any length.",
        (ROWS, *cutting.CUTS_WITNESSES),
    ),
    SelfCheck(
        "kv.rollback",
        Level.I2,
        going_on(rolling_back.judge_rollback),
        (),
        "what is fed and dropped again leaves nothing behind, or is refused and everything stays",
        "From one token to a block, early and behind a full window, then a whole call, then everything. After each "
        "cut, and after each refusal, the slot goes on and must give the row of what it now holds.",
        (ROWS, *rolling_back.WITNESSES),
    ),
    SelfCheck(
        "kv.reuse",
        Level.I2,
        going_on(reusing.judge_reuse),
        reusing.CASES,
        "a slot that was emptied is as new, and a copy goes its own way",
        "Sequences A, B and A in one slot: the last gives the bits of the first. After a copy both slots go on apart.",
        (ROWS, *reusing.WITNESSES),
    ),
    SelfCheck(
        "kv.edge",
        Level.I2,
        going_on(edges.judge_edges),
        edges.CASES,
        "lengths around chunks, windows, blocks of memory and the capacity are like any other",
        "The last token that fits is right, one more is refused, and a refusal leaves the slot as it was.",
        (ROWS, *edges.WITNESSES),
    ),
    SelfCheck(
        "kv.window",
        Level.I2,
        receptive_field.judge_window,
        receptive_field.CASES,
        "the first token is felt exactly as far as the windows of all layers reach",
        "Measured by exchanging it: the last row that moves stands at the sum of window − 1 over the layers. A layer "
        "without a window would hide all of it, so such a model is not asked.",
        receptive_field.WITNESSES,
    ),
    SelfCheck(
        "kv.poison",
        Level.I2,
        going_on(disturbing.judge_poison),
        (),
        "what lies in memory that no position owns does not matter",
        "It is filled with zeros, NaN and large numbers before and within a sequence, and after a cut.",
        (ROWS, *disturbing.POISON_WITNESSES),
    ),
    SelfCheck(
        "kv.fail",
        Level.I2,
        going_on(disturbing.judge_failure),
        (),
        "a call that fails in its middle leaves the slot as it was",
        "It fails twice in front of each of three calls, at different depths; then the slot goes on.",
        (ROWS, *disturbing.FAILURE_WITNESSES),
    ),
    SelfCheck(
        "ssm.split",
        Level.I2,
        recurrence.judge_split,
        recurrence.SPLIT_CASES,
        "a recurrent state is carried over from call to call",
        "A first call of one token, of two, and of half the sequence: each hides mistakes that another one shows.",
        (ROWS, *recurrence.SPLIT_WITNESSES),
        of="recurrent",
    ),
    SelfCheck(
        "ssm.boundary",
        Level.I2,
        going_on(recurrence.judge_boundary),
        (),
        "calls a token shorter or longer than a chunk carry the state over as well",
        "Three calls each of a length one below the chunk size, at it, and one above.",
        (ROWS, *recurrence.BOUNDARY_WITNESSES),
        of="recurrent",
    ),
    SelfCheck(
        "ssm.snap",
        Level.I2,
        going_on(recurrence.judge_state_copy),
        (),
        "a copy of a state can be returned to, more than once",
        "A state that is shared instead of copied goes on when the other slot does.",
        (ROWS, *reusing.SNAPSHOT_WITNESSES),
        of="recurrent",
    ),
    SelfCheck(
        "spec.twin",
        Level.I3,
        speculating.judge_twin,
        (),
        "a model that drafts for itself in a second slot is always right",
        "Counted from the passes: tokens never show a fault on the draft's side, its acceptance does.",
        (ROWS, *speculating.TWIN_WITNESSES),
        requires="kv.steps",
    ),
    SelfCheck(
        "spec.rows",
        Level.I3,
        speculating.judge_committed_rows,
        speculating.CASES,
        "speculation commits from the rows that plain greedy decoding gives",
        "Under guesses that are all right, right up to a place, and never right. Tokens hide what rows show.",
        (ROWS, *speculating.ROWS_WITNESSES),
        requires="kv.steps",
    ),
    SelfCheck(
        "mtp.self",
        Level.I3,
        equal_heads.judge_equal_heads,
        equal_heads.CASES,
        "later heads that are copies of the first one say what it says, and guess right",
        "The folder's later heads are overwritten and one id is favoured in all. A head that reads another row, or "
        "another token, says something else.",
        (ROWS.of("rows"), *equal_heads.WITNESSES),
        of="futures",
    ),
    SelfCheck(
        "eval.pure",
        Level.T1,
        evaluating.judge_pure,
        evaluating.PURE_CASES,
        "evaluating, and asking for gradients, changes nothing",
        "Rows before are rows after, and gradients are the same when asked for again: no dropout, no hidden step.",
        (ROWS.of("rows"), *evaluating.PURE_WITNESSES),
    ),
    SelfCheck(
        "eval.batch",
        Level.T1,
        evaluating.judge_evaluated_batch,
        evaluating.BATCH_CASES,
        "the loss of a batch is the mean of its rows' weighted by their targets, in any order",
        "Rows of unequal length: padding that counts, and a mean of means, show.",
        evaluating.BATCH_WITNESSES,
    ),
    SelfCheck(
        "grad.accum",
        Level.T1,
        accumulating.judge_accumulation,
        accumulating.CASES,
        "micro batches of three rows and two, weighted by their targets, add up to five",
        "Loss and gradients of every tensor. A mean of the two means is another number, for they hold unequal parts.",
        accumulating.WITNESSES,
    ),
    SelfCheck(
        "grad.fd",
        Level.T1,
        differencing.judge_differences,
        (),
        "the loss changes by what the gradients say",
        "Central differences of the engine's own loss, all tensors moved at once, with repeated ids and padding.",
        differencing.WITNESSES,
    ),
    SelfCheck(
        "loss.shift",
        Level.T1,
        loss_shifting.judge_loss_shift,
        (),
        "a constant that is added to every logit changes no loss",
        "A logarithm of summed exponentials that does not take out the largest logit overflows.",
        loss_shifting.WITNESSES,
    ),
    SelfCheck(
        "ckpt.roundtrip",
        Level.T3,
        checkpointing.judge_roundtrip,
        checkpointing.ROUNDTRIP_CASES,
        "what is saved comes back in every bit, and saving changes nothing",
        "Two steps, a checkpoint, a step; then the model is loaded anew, the checkpoint resumed, and the step taken "
        "again. Weights in few digits show at once, a head that is no longer tied in the step.",
        checkpointing.ROUNDTRIP_WITNESSES,
    ),
    SelfCheck(
        "ckpt.resume",
        Level.T3,
        checkpointing.judge_resume,
        (),
        "two steps, a checkpoint, another training, and two more steps are four steps in a row",
        "In every bit, unless the engine says that chance moves its bits. The first step and part that differ are "
        "named: moments that begin anew, a step that is counted from 1, settings of the training between.",
        checkpointing.RESUME_WITNESSES,
    ),
    SelfCheck(
        "ckpt.strict",
        Level.T3,
        checkpointing.judge_strict,
        checkpointing.STRICT_CASES,
        "a damaged checkpoint is refused and everything stays, or nothing of it is lost",
        "Files that are cut, missing or renamed are asked of every engine, bytes that change of one that claims "
        "checksums. What is refused must leave weights, moments and the next step as they were.",
        checkpointing.STRICT_WITNESSES,
        requires="ckpt.roundtrip",
    ),
)
"""In the order of judging."""


def engine_checks(phase: DecodePhase) -> tuple[Check, ...]:
    """Return the checks of one suite that drive a backend, in the order of judging."""
    own = [each for each in SELF_CHECKS if each.belongs_to(phase)]
    return (
        *(each.check() for each in own if each.level is not Level.T3),
        *_given_training_checks(),
        *(each.check() for each in own if each.level is Level.T3),
    )


def _given_training_checks() -> tuple[Check, ...]:
    return (
        Check(
            "loss.given",
            Level.T1,
            "the loss of a ragged batch on given weights is right",
            "Another normaliser, padding that counts, or targets that are shifted show here.",
            judge_loss,
            requires=("trace.convention",),
            of_edges=True,
            witnesses=LOSS_WITNESSES,
        ),
        Check(
            "grad.given",
            Level.T1,
            "the gradients of a ragged batch on given weights are right",
            "Of every tensor, before clipping; ids repeat, so that sums into the embedding show.",
            judge_gradients,
            requires=("loss.given",),
            of_edges=True,
            witnesses=GRADIENT_WITNESSES,
        ),
        Check(
            "opt.given",
            Level.T2,
            "three steps from given weights give the right moments and weights",
            "Clipping is active, epsilon and decay are large. The first part that differs is named: loss, gradient, "
            "moments, weights.",
            judge_steps,
            STEPS,
            requires=("grad.given",),
            of_edges=True,
            witnesses=STEP_WITNESSES,
        ),
    )
