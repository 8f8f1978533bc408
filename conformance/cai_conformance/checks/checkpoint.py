"""The judges of checkpoints: what is saved comes back, training goes on as if it had not stopped, damage is refused.

A damaged checkpoint may be accepted where nothing is lost: if the state is the one that was saved, and so is the step
behind it. Anything else has to be refused, with everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cai_conformance.backends.engine.features import checkpointing, training
from cai_conformance.checks.checkpoint_runs import (
    CASES,
    FLIPPED,
    RENAMED,
    ROWS,
    SAVED_AFTER,
    After,
    Checkpoint,
    CheckpointRuns,
    Damage,
    damages,
    exact,
    moved,
    with_moments,
)
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.probe.driven import UNTRAINED, ProbeJudge
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.self_check import self_check
from cai_conformance.checks.witness import Met, Witness, told
from cai_conformance.engine import EngineBroken, Refused
from cai_conformance.verdicts import Difference, Level, Outcome

FILES: Final = Witness("written file", "written files")
MOMENTS: Final = Witness("tensor with moments", "tensors with moments")
MOVED: Final = Witness("tensor that had moved on", "tensors that had moved on")
CLIPPED: Final = Witness("clipped step", "clipped steps")
TIED: Final = Witness(
    "row that only a tied head moved",
    "rows that only a tied head moved",
    cases=("step",),
    where="if the head is tied to the table of ids",
)
DAMAGED: Final = Witness("damaged checkpoint", "damaged checkpoints")
REFUSED: Final = Witness("refusal", "refusals", excepted=(RENAMED,))
WHOLE: Final = Witness("whole checkpoint resumed", "whole checkpoints resumed")

NO_CHECKPOINT: Final = "the engine has no feature checkpoint"
TOO_LARGE: Final = "the checkpoint is too large to be handled here"
UNCLAIMED: Final = "the engine does not claim to notice every byte that changes"


def _saving(judge: Callable[[CheckpointRuns, Checkpoint], tuple[Finding, ...]]) -> ProbeJudge:
    """Return a judge that is skipped where nothing can be saved; what trains otherwise must not refuse here."""

    def judged(probe: Probe) -> tuple[Finding, ...]:
        trainer, saver = training(probe.engine), checkpointing(probe.engine)
        if trainer is None or saver is None:
            return (Finding.skipped(UNTRAINED if trainer is None else NO_CHECKPOINT),)
        runs = CheckpointRuns(probe, trainer, saver)
        try:
            runs.tolerance()
            runs.straight()
            runs.beside()
            try:
                saved = runs.checkpoint()
                return (Finding.skipped(TOO_LARGE),) if saved is None else judge(runs, saved)
            except Refused as error:
                return (Finding.failed(f"it lists checkpoints, and trains, and yet: {error}"),)
        finally:
            # Whatever went wrong, the weights are no longer those of the folder.
            probe.model.forget()

    return judged


@self_check(
    "ckpt.roundtrip",
    Level.T3,
    "what is saved comes back in every bit, and saving changes nothing",
    "Two steps, a checkpoint, a step; then the model is loaded anew, the checkpoint resumed, and the step taken "
    "again. Weights in few digits show at once, a head that is no longer tied in the step.",
    cases=("saving", "state", "step"),
    witnesses=(FILES, MOMENTS, MOVED, TIED),
    catches=(
        "checkpoint.half-precision checkpoint.head-untied checkpoint.moments-not-saved checkpoint.six-digits "
        "checkpoint.step-not-saved checkpoint.written-late"
    ),
)
@_saving
def judge_roundtrip(runs: CheckpointRuns, saved: Checkpoint) -> tuple[Finding, ...]:
    """Save and go on; load the model anew, resume, look, and take a step."""
    steps = runs.straight().steps
    before, after = steps[SAVED_AFTER - 1], steps[SAVED_AFTER]
    runs.load()
    runs.resume(saved.files)
    found = runs.state(SAVED_AFTER)
    step = runs.step(SAVED_AFTER + 1)
    met = [
        FILES.met(len(saved.files)),
        MOMENTS.met(with_moments(saved.saved.state)),
        MOVED.met(moved(saved.saved.state, saved.later.state)),
    ]
    if runs.probe.facts.tied:
        met.append(TIED.met(runs.straight().head_rows))

    def finding(case: str, text: str, *pairs: tuple[After, After]) -> Finding:
        different = _first(runs, *pairs)
        if different is not None:
            return Finding.failed(f"{text}: {different}; {told(met)}", (different,), case)
        return Finding.passed(f"{text}: as without a checkpoint, {runs.tolerance().words}; {told(met)}", case, met)

    return (
        finding("saving", "what is shown after saving, and a step later", (before, saved.saved), (after, saved.later)),
        finding("state", "weights and moments after resuming", (before, found)),
        finding("step", "the step after resuming", (after, step)),
    )


@self_check(
    "ckpt.resume",
    Level.T3,
    "two steps, a checkpoint, another training, and two more steps are four steps in a row",
    "In every bit, unless the engine says that chance moves its bits. The first step and part that differ are "
    "named: moments that begin anew, a step that is counted from 1, settings of the training between.",
    witnesses=(MOMENTS, MOVED, CLIPPED),
    catches=(
        "checkpoint.half-precision checkpoint.head-untied checkpoint.moments-not-saved "
        "checkpoint.settings-not-saved checkpoint.six-digits checkpoint.step-not-saved "
        "checkpoint.written-late"
    ),
)
@_saving
def judge_resume(runs: CheckpointRuns, saved: Checkpoint) -> tuple[Finding, ...]:
    """Take two steps, save, train something else, resume, take two more, and compare with four in a row."""
    straight = runs.straight()
    between = runs.begin_beside()
    runs.resume(saved.files)
    found = [runs.state(SAVED_AFTER), *(runs.step(number) for number in range(SAVED_AFTER + 1, len(ROWS) + 1))]
    met = [
        MOMENTS.met(with_moments(saved.saved.state)),
        MOVED.met(moved(saved.saved.state, between.state)),
        CLIPPED.met(straight.clipped),
    ]
    pairs = list(zip(straight.steps[SAVED_AFTER - 1 :], found, strict=True))
    different = _first(runs, *pairs)
    whole = f"{len(ROWS)} steps in a row, and {SAVED_AFTER} + {len(ROWS) - SAVED_AFTER} with another training between"
    if different is not None:
        return (Finding.failed(f"{whole}, differ first at {different}; {told(met)}", (different,)),)
    return (Finding.passed(f"{whole}, are equal {runs.tolerance().words}; {told(met)}", met=met),)


@self_check(
    "ckpt.strict",
    Level.T3,
    "a damaged checkpoint is refused and everything stays, or nothing of it is lost",
    "Files that are cut, missing or renamed are asked of every engine, bytes that change of one that claims "
    "checksums. What is refused must leave weights, moments and the next step as they were.",
    cases=CASES,
    witnesses=(DAMAGED, REFUSED, MOVED, WHOLE),
    requires="ckpt.roundtrip",
    catches=(
        "checkpoint.cut-filled checkpoint.digests-ignored checkpoint.half-applied checkpoint.missing-ignored "
        "checkpoint.step-moved-on"
    ),
)
@_saving
def judge_strict(runs: CheckpointRuns, saved: Checkpoint) -> tuple[Finding, ...]:
    """Damage what was written, and ask for it in the middle of another training."""
    before = runs.begin_beside()
    runs.resume(saved.files)
    different = _first(runs, (runs.straight().steps[SAVED_AFTER - 1], runs.state(SAVED_AFTER)))
    if different is not None:
        return (Finding.failed(f"not even the whole checkpoint is resumed: {different}", (different,)),)
    shared = [MOVED.met(moved(saved.saved.state, before.state)), WHOLE.met(1)]
    findings: list[Finding] = []
    for case in CASES:
        if case == FLIPPED and not saved.checksums:
            findings.append(Finding.skipped(UNCLAIMED, case))
            continue
        try:
            findings.append(_of_damages(runs, saved, case, shared))
        except EngineBroken as error:
            findings.append(Finding.failed(f"a damaged checkpoint is more than it can refuse: {error}", case=case))
            rest = CASES[len(findings) :]
            return (*findings, *(Finding(Outcome.ERRORED, str(error), case=each) for each in rest))
    return tuple(findings)


def _of_damages(runs: CheckpointRuns, saved: Checkpoint, case: str, shared: list[Met]) -> Finding:
    """Try all damages of a case, one after the other in one training as long as they are refused."""
    before = runs.begin_beside()
    refused, accepted = list[Damage](), 0
    tried = list(damages(case, saved.files))
    for damage in tried:
        reason = _refusal(runs, damage)
        if reason is None:
            different = _of_accepted(runs)
            if different is not None:
                text = f"with {damage.words}, it goes on from something else than was saved: {different}"
                return Finding.failed(text, (different,), case)
            accepted += 1
            before = runs.begin_beside()
            continue
        refused.append(damage)
        different = exact(runs.probe.description.precision.coarsest).difference(before, runs.state(1))
        if different is not None:
            text = f"with {damage.words}, it refuses ({reason}), and has changed all the same: {different}"
            return Finding.failed(text, (different,), case)
    if accepted:
        # What is resumed covers what the refusals before it have done, so they are asked for again.
        runs.begin_beside()
        for damage in refused:
            _refusal(runs, damage)
    different = _first(runs, (runs.beside()[1], runs.step_beside(2)))
    if different is not None:
        text = f"after {counted(len(refused), 'refusal')} all that is shown stays, and the next step goes another way"
        return Finding.failed(f"{text}: {different}", (different,), case)
    met = [DAMAGED.met(len(tried)), REFUSED.met(len(refused)), *shared]
    text = "refused" if not accepted else f"refused, or in {accepted} resumed with nothing lost"
    return Finding.passed(f"{text}, and everything stays; {told(met)}", case, met)


def _refusal(runs: CheckpointRuns, damage: Damage) -> str | None:
    """Return why a damaged checkpoint is refused; None if it is not."""
    try:
        runs.resume(damage.files)
    except Refused as error:
        return error.reason
    return None


def _of_accepted(runs: CheckpointRuns) -> Difference | None:
    """Return where what was resumed is not what was saved: as it is shown, and in the step behind it."""
    before, after = runs.straight().steps[SAVED_AFTER - 1 : SAVED_AFTER + 1]
    return _first(runs, (before, runs.state(SAVED_AFTER))) or _first(runs, (after, runs.step(SAVED_AFTER + 1)))


def _first(runs: CheckpointRuns, *pairs: tuple[After, After]) -> Difference | None:
    """Return the first difference of right ones and found ones."""
    tolerance = runs.tolerance()
    return next((each for each in (tolerance.difference(*pair) for pair in pairs) if each is not None), None)
