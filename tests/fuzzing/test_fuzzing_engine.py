"""The fuzzer itself: what it makes of files, what it takes for a finding, how small it makes one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import ClassVar

import pytest

from cai_conformance.errors import ConformanceError, InputError
from cai_reference.splitmix import SplitMix64
from fuzzing.mutation import BINARY, GROWTH, OPERATIONS, TEXTUAL, mutated
from fuzzing.target import LONGEST_SENTENCE, Problem, Target, problem_of, shrunk

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

    templates: ClassVar[Mapping[str, str]] = {"nameless": ""}


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


class Long(ConformanceError):
    """An error of ours whose text nobody reads to its end."""

    def __str__(self) -> str:
        return "a" * (LONGEST_SENTENCE + 1)


def warning(data: bytes) -> None:
    """Warn, as NumPy does where numbers go wrong."""
    warnings.warn("a", RuntimeWarning, stacklevel=1)


def slow(data: bytes) -> None:
    """Take long."""
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (len, None),
        (raising(InputError("input-unreadable", path="a", problem="b")), None),
        (raising(KeyError("a")), "KeyError"),
        (raising(RecursionError()), "RecursionError"),
        (raising(MemoryError()), "MemoryError"),
        (raising(UnicodeDecodeError("a", b"", 0, 1, "b")), "UnicodeDecodeError"),
        (raising(Nameless("nameless")), "Nameless with an empty text"),
        (raising(InputError("input-unreadable", path="a", problem="\ud800")), "InputError without a text"),
        (raising(InputError("input-unreadable", path="a", problem=10**5000)), "InputError without a text"),
        (raising(Long("long")), "Long with a long text"),
        (raising(ZeroDivisionError("a")), None),
        (raising(FloatingPointError("a")), "FloatingPointError"),
        (warning, "RuntimeWarning"),
    ],
)
def test_own_and_promised_errors_alone_are_no_finding(read: Callable[[bytes], object], kind: str | None) -> None:
    """A promise to raise an error is not kept by one of its kinds; a sentence that cannot be printed is a finding."""
    found = problem_of(target_of(read, allowed=(ZeroDivisionError, ArithmeticError)), b"")
    assert kind == (None if found is None else found.kind)


@pytest.mark.parametrize("limited", [False, True])
def test_taking_long_is_a_finding(*, limited: bool) -> None:
    """Found at the end, or by an interruption."""
    found = problem_of(target_of(slow, seconds=0.05), b"", limited=limited)
    assert found is not None and found.kind == "TooSlow"


class TestShrinking:
    """Small findings."""

    def test_what_does_not_matter_goes(self) -> None:
        """Two bytes that must stand there in this order are left."""
        data = bytes(range(256)) * 20
        found = shrunk(data, lambda shorter: b"\x41" in shorter and b"\x99" in shorter.partition(b"\x41")[2])
        assert b"\x41\x99" == found

    def test_a_finding_stays_the_same_one(self) -> None:
        """Another mistake of the same reader is not followed; mistakes are told apart by kind and place."""

        def read(data: bytes) -> None:
            if len(data) > 10:
                raise KeyError(len(data))
            if data:
                raise IndexError

        target = target_of(read)
        first = problem_of(target, b"a" * 40)
        assert first is not None and not first.is_like(Problem(first.kind, "elsewhere", first.text))
        assert 11 == len(shrunk(b"a" * 40, lambda shorter: first.is_like(problem_of(target, shorter))))

    def test_it_ends(self) -> None:
        """After so many tries at most."""
        tries = iter(range(50))
        shrunk(b"a" * 10_000, lambda _: next(tries) < 0, tries=50)
        assert [] == list(tries)
