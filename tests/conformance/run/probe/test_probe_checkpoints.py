"""The judges of checkpoints, on small engines that are wrong in one way each, and what they compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from cai_conformance.checks import checkpoint_runs
from cai_conformance.checks.checkpoint_runs import CASES, After, Tolerance, damages, exact, measured
from cai_conformance.checks.finding import Finding, witnessed
from cai_conformance.engine import EngineBroken, EngineError, Feature, OptimizerState, Refused
from cai_conformance.verdicts import Outcome, Problem
from support_checkpoint_engine import MOMENTS, NOTE, WEIGHTS, SmallTrainer
from support_probes import check_named, under_probe

PASS, FAIL, SKIPPED, ERRORED = Outcome.PASS, Outcome.FAIL, Outcome.SKIPPED, Outcome.ERRORED
ROUNDTRIP, RESUME, STRICT = "ckpt.roundtrip", "ckpt.resume", "ckpt.strict"
Resumed = Callable[[SmallTrainer, Path], None]


def judged(name: str, engine: SmallTrainer, policy: str = "auto") -> dict[str, Finding]:
    """Return what a check finds about an engine, by cases."""
    check, probe = check_named(name), under_probe(engine, policy=policy)
    probe.model.load()
    return {found.case: witnessed(found, check.witnesses) for found in check.judge(probe)}


def outcomes(name: str, engine: SmallTrainer, policy: str = "auto") -> dict[str, Outcome]:
    """Return the outcomes by cases."""
    return {case: found.outcome for case, found in judged(name, engine, policy).items()}


def without(part: str) -> Resumed:
    """Return a resuming that loses something."""

    def resumed(engine: SmallTrainer, directory: Path) -> None:
        settings, count = engine.settings, engine.count
        engine.resume(directory)
        if part == "moments":
            engine.first = {name: 0.0 * value for name, value in engine.first.items()}
        elif part == "count":
            engine.count = count
        elif settings is not None:
            engine.settings = settings

    return resumed


def leaving(part: str) -> Resumed:
    """Return a resuming that leaves something behind when it refuses."""

    def resumed(engine: SmallTrainer, directory: Path) -> None:
        try:
            engine.resume(directory)
        except Refused:
            if part == "weights":
                engine.weights["vector"] = engine.weights["vector"] + 1.0
            else:
                engine.count += 1
            raise

    return resumed


def raising(error: Exception) -> Resumed:
    """Return a resuming that ends in an error unless the checkpoint is whole."""

    def resumed(engine: SmallTrainer, directory: Path) -> None:
        try:
            engine.resume(directory)
        except Refused:
            raise error from None

    return resumed


class TestARightEngine:
    """It passes, and what it was asked is told."""

    def test_everything_passes(self) -> None:
        """With two files that are needed and one that is not: to lose that one loses nothing."""
        found = {name: judged(name, SmallTrainer()) for name in (ROUNDTRIP, RESUME, STRICT)}
        assert {PASS} == {each.outcome for cases in found.values() for each in cases.values()}
        met = {str(each) for each in found[RESUME][""].met}
        assert {"2 tensors with moments", "2 tensors that had moved on", "4 clipped steps"} == met
        strict = found[STRICT]
        assert "or in 1 resumed with nothing lost" in strict["missing"].message
        assert "4 damaged checkpoints, 3 refusals" in strict["missing"].message
        assert list(CASES) == list(strict)

    def test_bits_that_chance_moves_are_measured(self) -> None:
        """An engine that says so has a floor; held to the bits, it fails."""
        assert {PASS} == set(outcomes(RESUME, SmallTrainer(chance=1e-15)).values())
        assert {FAIL} == set(outcomes(RESUME, SmallTrainer(chance=1e-15), "exact").values())
        assert {FAIL} == set(outcomes(RESUME, SmallTrainer(chance=1e-15, resumed=without("moments"))).values())

    def test_what_is_not_claimed_is_not_asked(self) -> None:
        """Bytes that change are no matter of an engine without digests; files that are cut or missing are."""
        found = judged(STRICT, SmallTrainer(checksums=False))
        assert [PASS, PASS, PASS, SKIPPED] == [found[case].outcome for case in CASES]
        assert "does not claim" in found["flipped"].message


class TestWrongEngines:
    """Each fails where it has to."""

    @pytest.mark.parametrize(
        ("part", "roundtrip", "step"),
        [("moments", [PASS, FAIL, FAIL], 2), ("count", [PASS, PASS, FAIL], 3), ("settings", [PASS, PASS, PASS], 3)],
    )
    def test_what_is_lost_is_named(self, part: str, roundtrip: list[Outcome], step: int) -> None:
        """The first step and part that differ; only another training between shows that settings are lost."""
        engine = SmallTrainer(resumed=without(part))
        assert roundtrip == list(outcomes(ROUNDTRIP, engine).values())
        found = judged(RESUME, SmallTrainer(resumed=without(part)))[""]
        assert FAIL is found.outcome and f"differ first at step {step}, " in found.message

    def test_saving_must_not_change_anything(self) -> None:
        """A count that moves on when it is saved shows in the step behind it."""

        def counting(engine: SmallTrainer, directory: Path) -> None:
            engine.count += 1

        assert FAIL is outcomes(ROUNDTRIP, SmallTrainer(written=counting))["saving"]

    @pytest.mark.parametrize(("part", "words"), [("weights", "has changed all the same"), ("count", "another way")])
    def test_a_refusal_that_changes_something(self, part: str, words: str) -> None:
        """Whether it is shown, or only felt in the next step."""
        found = judged(STRICT, SmallTrainer(resumed=leaving(part)))
        assert {FAIL} == {each.outcome for each in found.values()}
        assert all(words in each.message for each in found.values())

    def test_digests_that_are_claimed_and_not_compared(self) -> None:
        """Of all the damages, only bytes that change show it."""

        def unchecked(engine: SmallTrainer, directory: Path) -> None:
            engine._checksums = False
            engine.resume(directory)
            engine._checksums = True

        found = outcomes(STRICT, SmallTrainer(resumed=unchecked))
        assert {"cut": PASS, "missing": PASS, "renamed": PASS, "flipped": FAIL} == found

    def test_what_refuses_everything_is_not_strict(self) -> None:
        """The whole checkpoint has to be resumed."""

        def refusing(engine: SmallTrainer, directory: Path) -> None:
            raise Refused("small", "to resume", "it is Monday")

        for name in (ROUNDTRIP, RESUME, STRICT):
            (found,) = judged(name, SmallTrainer(resumed=refusing)).values()
            assert FAIL is found.outcome and "it is Monday" in found.message

    def test_what_accepts_anything_is_told_what_is_wrong(self) -> None:
        """It goes on from what it had."""

        def ignoring(engine: SmallTrainer, directory: Path) -> None:
            try:
                engine.resume(directory)
            except Refused:
                return

        found = judged(STRICT, SmallTrainer(resumed=ignoring))
        assert {FAIL} == {each.outcome for each in found.values()}
        assert "with all files missing" not in found["missing"].message
        assert "goes on from something else than was saved: step 2, weights of table[0]" in found["missing"].message

    def test_a_crash_is_no_refusal(self) -> None:
        """It fails, and nothing more can be asked."""
        found = outcomes(STRICT, SmallTrainer(resumed=raising(EngineBroken("small", "crashed"))))
        assert {"cut": FAIL, "missing": ERRORED, "renamed": ERRORED, "flipped": ERRORED} == found


class TestWhatCannotBeJudged:
    """It is skipped, or an error with its reason."""

    @pytest.mark.parametrize(
        ("features", "reason"),
        [
            ({Feature.TRAIN}, "the engine has no feature checkpoint"),
            ({Feature.CHECKPOINT}, "the engine does not train"),
        ],
    )
    def test_a_feature_is_missing(self, features: set[Feature], reason: str) -> None:
        """Nothing is asked."""
        for name in (ROUNDTRIP, RESUME, STRICT):
            (found,) = judged(name, SmallTrainer(features=frozenset(features))).values()
            assert (SKIPPED, reason) == (found.outcome, found.message)

    def test_files_that_are_none(self) -> None:
        """A link, or nothing at all."""

        def linking(engine: SmallTrainer, directory: Path) -> None:
            (directory / "latest").symlink_to(WEIGHTS)

        def clearing(engine: SmallTrainer, directory: Path) -> None:
            for path in directory.iterdir():
                path.unlink()

        for wrong, words in (
            (linking, "latest where plain files"),
            (clearing, "an empty directory where a checkpoint"),
        ):
            with pytest.raises(EngineError, match=words):
                judged(ROUNDTRIP, SmallTrainer(written=wrong))

    def test_a_checkpoint_that_is_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It would have to be held and written again and again."""
        monkeypatch.setattr(checkpoint_runs, "MOST_BYTES", 1000)
        (found,) = judged(ROUNDTRIP, SmallTrainer()).values()
        assert (SKIPPED, "the checkpoint is too large to be handled here") == (found.outcome, found.message)


FILES: Final = {WEIGHTS: bytes(range(200)), MOMENTS: b"1234", NOTE: b"", "more/part": b"x"}


class TestDamages:
    """Each is one, and the largest file comes first."""

    @pytest.mark.parametrize(
        ("case", "words"),
        [
            (
                "cut",
                [
                    f"{WEIGHTS} cut to 100 of 200 bytes",
                    f"{WEIGHTS} emptied",
                    f"{MOMENTS} cut to 2 of 4 bytes",
                    "more/part cut to 0 of 1 bytes",
                ],
            ),
            ("missing", [*(f"{name} missing" for name in (WEIGHTS, MOMENTS, "more/part", NOTE)), "all files missing"]),
            ("renamed", [f"{WEIGHTS} called {WEIGHTS}.old"]),
            (
                "flipped",
                [
                    *(f"a bit of byte {place} of {WEIGHTS} changed" for place in (100, 50, 150)),
                    f"a bit of byte 2 of {MOMENTS} changed",
                    "a bit of byte 0 of more/part changed",
                ],
            ),
        ],
    )
    def test_what_is_done(self, case: str, words: list[str]) -> None:
        """In words, and in bytes."""
        found = list(damages(case, FILES))
        assert words == [each.words for each in found]
        assert all(dict(each.files) != FILES for each in found)
        assert len({repr(sorted(each.files.items())) for each in found}) == len(found)


def after(step: int = 1, loss: float | None = 1.0, **tensors: list[float]) -> After:
    """Return what a step left, the same for weights and moments."""
    arrays = {name: np.array(value) for name, value in tensors.items()}
    return After(step, loss, OptimizerState(arrays, arrays, arrays))


class TestComparing:
    """By bits, or by floors that were measured."""

    def test_equal_bits_and_unknown_losses_are_no_difference(self) -> None:
        """NaN is equal to itself, too."""
        one = after(a=[1.0, float("nan")])
        assert exact("float64").difference(one, after(a=[1.0, float("nan")])) is None
        assert exact("float64").difference(one, After(1, None, one.state)) is None

    @pytest.mark.parametrize(
        ("found", "problem", "record", "index"),
        [
            (after(loss=2.0, a=[1.0, 0.0]), Problem.VALUE, "step 1, loss", None),
            (after(a=[1.0, -0.0]), Problem.VALUE, "step 1, weights of a", 1),
            (after(a=[float("nan"), 0.0]), Problem.NAN, "step 1, weights of a", 0),
            (after(a=[1.0]), Problem.SHAPE, "step 1, weights of a", None),
            (after(), Problem.MISSING, "step 1, weights of a", None),
            (after(a=[1.0, 0.0], b=[1.0]), Problem.EXTRA, "step 1, weights of b", None),
        ],
    )
    def test_the_first_difference_is_named(
        self, found: After, problem: Problem, record: str, index: int | None
    ) -> None:
        """The loss first, then weights."""
        different = exact("float64").difference(after(a=[1.0, 0.0]), found)
        assert different is not None
        assert (problem, record, index) == (different.problem, different.record, different.index)

    def test_a_floor_allows_four_times_what_chance_does(self) -> None:
        """In units of the largest number of the tensor and of the part, never less than two of them."""
        unit = 2.0**-52
        runs = [[after(loss=None, a=[1.0])], [after(loss=None, a=[1.0 + 6 * unit])]]
        tolerance = measured(runs, "float64")
        assert {3.0} == set(tolerance.floors.values())
        assert tolerance.difference(runs[0][0], after(loss=None, a=[1.0 + 24 * unit])) is None
        assert tolerance.difference(runs[0][0], after(loss=None, a=[1.0 + 25 * unit])) is not None
        assert {2.0} == set(measured([runs[0], runs[0]], "float64").floors.values())
        assert Tolerance("float64").words == "in every bit" != tolerance.words
