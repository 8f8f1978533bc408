"""The fuzzer itself: what it makes of files, what it takes for a finding, how small it makes one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import pytest

from cai_conformance.errors import ConformanceError, InputUnreadable
from cai_reference.splitmix import SplitMix64
from fuzzing.mutation import BINARY, GROWTH, OPERATIONS, TEXTUAL, mutated
from fuzzing.shrinking import shrunk
from fuzzing.target import LONGEST_SENTENCE, Problem, Target, problem_of

SEEDS = (b'{"a": [1, -2.5e3, "x"], "b": null}\nline|of=text\n' * 3, bytes(range(256)), b"")


def target_of(read: Callable[[bytes], object], **changes: object) -> Target:
    """Return a target that reads in this way."""
    return Target("test", lambda: SEEDS, read, **changes)  # type: ignore[arg-type]


def raising(error: BaseException) -> Callable[[bytes], object]:
    """Return a reader that raises."""

    def read(data: bytes) -> object:
        raise error

    return read


class Nameless(ConformanceError):
    """An error of ours without a text."""


class TestMutation:
    """Files with mistakes."""

    def test_the_same_seed_gives_the_same_file(self) -> None:
        """And another one another file."""
        files = [[mutated(SEEDS, SplitMix64(seed)) for seed in range(200)] for _ in range(2)]
        assert files[0] == files[1]
        assert 150 < len(set(files[0]))

    def test_a_target_tells_its_inputs_apart_by_number_and_seed(self) -> None:
        """So that a finding can be repeated."""
        target = target_of(bytes)
        assert target.given(1, 2) == target.given(1, 2)
        assert 100 < len({target.given(seed, number) for seed in (1, 2) for number in range(100)})

    def test_every_second_input_is_repaired(self) -> None:
        """The others have their checksums wrong."""
        target = target_of(bytes, repair=lambda data: b"repaired")
        count = [target.given(1, number) for number in range(200)].count(b"repaired")
        assert 70 < count < 130

    @pytest.mark.parametrize(
        "operation", sorted({*OPERATIONS, *TEXTUAL, *BINARY}, key=OPERATIONS.index), ids=lambda one: one.__name__
    )
    def test_every_kind_of_mistake_changes_something(self, operation: Callable[..., bytes]) -> None:
        """Whatever it is given, and not only in one way."""
        for data in SEEDS:
            made = {operation(data, SplitMix64(seed), SEEDS) for seed in range(20)}
            assert made - {data} or not data
            assert max(map(len, made)) <= len(data) + (3 << 20)

    def test_files_stay_of_a_moderate_size(self) -> None:
        """However often a piece is doubled."""
        longest = max(map(len, SEEDS)) + GROWTH
        assert all(len(mutated(SEEDS, SplitMix64(seed))) <= longest for seed in range(300))


class TestFindings:
    """What a reader may not do."""

    def test_own_errors_are_no_finding(self) -> None:
        """They are what a reader is for."""
        assert problem_of(target_of(raising(InputUnreadable("a", "b"))), b"") is None
        assert problem_of(target_of(len), b"") is None

    @pytest.mark.parametrize(
        "error", [KeyError("a"), RecursionError(), MemoryError(), UnicodeDecodeError("a", b"", 0, 1, "b")]
    )
    def test_every_other_error_is_one(self, error: BaseException) -> None:
        """Also those of the system."""
        found = problem_of(target_of(raising(error)), b"")
        assert found is not None
        assert type(error).__name__ == found.kind

    def test_what_is_promised_must_be_of_that_very_type(self) -> None:
        """A promise to raise ValueError is not kept by one of its kinds, of which nobody has thought."""
        promising = {"allowed": (ValueError,)}
        assert problem_of(target_of(raising(ValueError("a")), **promising), b"") is None
        found = problem_of(target_of(raising(UnicodeError("a")), **promising), b"")
        assert found is not None and found.kind == "UnicodeError"

    def test_a_warning_is_one(self) -> None:
        """NumPy warns where numbers go wrong."""
        found = problem_of(target_of(lambda data: warnings.warn("a", RuntimeWarning, stacklevel=1)), b"")
        assert found is not None and found.kind == "RuntimeWarning"

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (Nameless(), "Nameless with an empty text"),
            (InputUnreadable("a", "\ud800"), "InputUnreadable without a text"),
            (InputUnreadable("a", 10**5000), "InputUnreadable without a text"),  # type: ignore[arg-type]
        ],
    )
    def test_a_sentence_that_cannot_be_printed_is_one(self, error: ConformanceError, kind: str) -> None:
        """Empty, half a character, a number too long to be spelt."""
        found = problem_of(target_of(raising(error)), b"")
        assert found is not None and kind == found.kind

    def test_a_sentence_without_end_is_one(self) -> None:
        """Nobody reads it."""

        class Long(ConformanceError):
            def __str__(self) -> str:
                return "a" * (LONGEST_SENTENCE + 1)

        found = problem_of(target_of(raising(Long())), b"")
        assert found is not None and found.kind == "Long with a long text"

    @pytest.mark.parametrize("limited", [False, True])
    def test_taking_long_is_one(self, *, limited: bool) -> None:
        """Found at the end, or by an interruption."""

        def read(data: bytes) -> None:
            end = time.process_time() + 0.2
            while time.process_time() < end:
                pass

        found = problem_of(target_of(read, seconds=0.05), b"", limited=limited)
        assert found is not None and found.kind == "TooSlow"


class TestShrinking:
    """Small findings."""

    def test_what_does_not_matter_goes(self) -> None:
        """Two bytes that must stand there in this order are left."""
        data = bytes(range(256)) * 20
        found = shrunk(data, lambda shorter: b"\x41" in shorter and b"\x99" in shorter.partition(b"\x41")[2])
        assert b"\x41\x99" == found

    def test_bytes_that_may_be_any_become_plain(self) -> None:
        """Where only their number matters."""
        assert b"00000" == shrunk(b"\xff" * 1000, lambda shorter: len(shorter) >= 5)

    def test_a_finding_stays_the_same_one(self) -> None:
        """Another mistake of the same reader is not followed."""

        def read(data: bytes) -> None:
            if len(data) > 10:
                raise KeyError
            if data:
                raise IndexError

        target = target_of(read)
        first = problem_of(target, b"a" * 40)
        assert first is not None
        assert 11 == len(shrunk(b"a" * 40, lambda shorter: first.is_like(problem_of(target, shorter))))

    def test_it_ends(self) -> None:
        """After so many tries at most."""
        tries: list[bytes] = []

        def fails(data: bytes) -> bool:
            tries.append(data)
            return False

        shrunk(b"a" * 10_000, fails, tries=50)
        assert 50 == len(tries)

    def test_problems_are_told_apart_by_kind_and_place(self) -> None:
        """Their texts differ with every input."""
        one = Problem("KeyError", "here", "a")
        assert one.is_like(Problem("KeyError", "here", "b"))
        assert not one.is_like(Problem("KeyError", "there", "a"))
        assert not one.is_like(None)
