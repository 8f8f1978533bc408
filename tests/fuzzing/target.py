"""A reader of foreign input as the fuzzer sees it, and what it may do with bytes that it has never seen."""

from __future__ import annotations

import atexit
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cai_conformance.errors import ConformanceError
from cai_reference.errors import CaiReferenceError
from cai_reference.splitmix import SplitMix64, below
from fuzzing.mutation import mutated

OWN: Final = (ConformanceError, CaiReferenceError)
"""What a reader may raise."""

LONGEST_SENTENCE: Final = 30_000
"""What a field holds is cut in messages; a sentence may list the parameters of a small model."""

TRIES: Final = 1500
"""So often a finding is read again while it is made small."""

PACKAGES: Final = ("cai_reference", "cai_conformance", "cai_conform")


@dataclass(frozen=True)
class Target:
    """A reader, and files that it reads.

    Attributes:
        name: of the reader, such as `nets.file`.
        make_seeds: makes valid files; they are mutated.
        read: reads bytes, and raises nothing but the errors of this project.
        repair: puts checksums and counts right, so that a mistake gets past them; applied to every second input.
        share: how many of some inputs it gets, compared with other targets.
        allowed: other errors that its description promises, each exactly of its type.
        seconds: of processor time for one input.
    """

    name: str
    make_seeds: Callable[[], Sequence[bytes]]
    read: Callable[[bytes], object]
    repair: Callable[[bytes], bytes] | None = None
    share: int = 100
    allowed: tuple[type[Exception], ...] = ()
    seconds: float = 5.0

    @cached_property
    def seeds(self) -> tuple[bytes, ...]:
        """The valid files."""
        return tuple(self.make_seeds())

    def given(self, seed: int, number: int) -> bytes:
        """Return an input, the same for the same seed and number."""
        state = sha256(f"{self.name} {seed} {number}".encode()).digest()[:8]
        generator = SplitMix64(int.from_bytes(state, "little"))
        data = mutated(self.seeds, generator)
        return self.repair(data) if self.repair is not None and below(generator, 2) else data


@dataclass(frozen=True)
class Problem:
    """What a reader did that it may not do.

    Attributes:
        kind: the type of the error, or what else was wrong.
        place: the innermost line of this project that was involved.
        text: the message.
    """

    kind: str
    place: str
    text: str

    def is_like(self, other: Problem | None) -> bool:
        """Tell whether two are the same mistake."""
        return other is not None and (self.kind, self.place) == (other.kind, other.place)

    def __str__(self) -> str:
        return f"{self.kind} at {self.place or 'no line of this project'}: {self.text[:300]}"


class TooSlow(BaseException):
    """The reader has used up its time."""


def problem_of(target: Target, data: bytes, *, limited: bool = False) -> Problem | None:
    """Let a target read some bytes, and return what was wrong with that.

    Args:
        target: the reader.
        data: the bytes.
        limited: whether the reader is interrupted once its time is over; otherwise that is found out at its end.
    """
    start = time.process_time()
    try:
        with warnings.catch_warnings(), _alarm(target.seconds if limited else 0.0):
            warnings.simplefilter("error")
            target.read(data)
    except OWN as error:
        return _problem_of_sentence(error)
    except target.allowed as error:
        if type(error) not in target.allowed:
            return Problem(type(error).__name__, _place_of(error), str(error))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return Problem(type(error).__name__, _place_of(error), _shown(error))
    spent = time.process_time() - start
    return Problem("TooSlow", target.name, f"{spent:.1f} s") if spent > target.seconds else None


def _problem_of_sentence(error: Exception) -> Problem | None:
    """Return what is wrong with how an error says what is wrong."""
    kind = type(error).__name__
    try:
        text = str(error)
        text.encode("utf-8", "surrogateescape")
    except Exception as inner:
        return Problem(f"{kind} without a text", _place_of(error), repr(inner))
    if not text.strip():
        return Problem(f"{kind} with an empty text", _place_of(error), "")
    if len(text) > LONGEST_SENTENCE:
        return Problem(f"{kind} with a long text", _place_of(error), f"{len(text)} characters: {text[:100]}…")
    return None


def _shown(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as inner:
        return repr(inner)


def _place_of(error: BaseException) -> str:
    # Of an endless recursion the last lines are enough, and all of them take long to look up.
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-50:]
    for frame in reversed(frames):
        module = str(frame.f_globals.get("__name__", ""))
        if module.split(".")[0] in PACKAGES:
            return f"{module}.{frame.f_code.co_name}"
    return ""


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Interrupt what takes more processor time than that, where the system can; 0 interrupts nothing."""
    if not seconds or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: object) -> None:
        raise TooSlow(f"more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def shrunk(data: bytes, fails: Callable[[bytes], bool], tries: int = TRIES) -> bytes:
    """Return a smaller input that still fails in the same way: pieces are left out, ever shorter ones."""
    size = len(data)
    while size:
        place = 0
        while place < len(data):
            if tries == 0:
                return data
            tries -= 1
            shorter = data[:place] + data[place + size :]
            if fails(shorter):
                data = shorter
            else:
                place += size
        size //= 2
    return data


@cache
def _folder(process: int) -> Path:
    folder = TemporaryDirectory(prefix="cai-conform-fuzzing-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def scratch_folder() -> Path:
    """Return the folder of this process for readers that want a path; it is gone when the process ends."""
    return _folder(os.getpid())


def scratch_file(name: str, data: bytes) -> Path:
    """Write a file, over the one that had its name."""
    path = scratch_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
