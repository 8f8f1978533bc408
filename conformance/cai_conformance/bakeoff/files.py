"""The folder of a run: a net and a log a phase, and a summary of all that are done.

Nets and the summary are written whole or not at all; a log grows line by line, so that it can be followed. Two runs at
once would leave the nets of one beside the logs of the other, so that a folder belongs to one run at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from cai_conformance.bakeoff.errors import CheckpointDiffers, CheckpointMissing
from cai_conformance.bakeoff.trained import Log
from cai_conformance.goldens import strict_json
from cai_conformance.interchange.errors import OutputNotWritten
from cai_conformance.interchange.files import FilePath, write_file
from cai_conformance.interchange.nets import read_net, write_net
from cai_reference.nets.format import NetFile
from cai_reference.nets.structure import LayerSpec


class OutputFolder:
    """A folder, made when something is written for the first time; files of earlier runs are replaced.

    From then on until it is released, no other run writes there, where the operating system can tell.
    """

    def __init__(self, path: FilePath) -> None:
        self.path = Path(path)
        self._descriptor: int | None = None

    def release(self) -> None:
        """Let other runs write there."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def net(self, number: int) -> Path:
        """Return where the net of a phase is."""
        return self.path / f"phase{number}.nn"

    @contextmanager
    def log(self, number: int) -> Iterator[Log]:
        """Open the log of a phase; what it is given becomes a line at once.

        Raises:
            OutputNotWritten: the operating system refuses.
        """
        path = self.path / f"phase{number}.log"
        self._make()
        try:
            file = path.open("w", encoding="utf-8", newline="\n", buffering=1)
        except OSError as error:
            raise OutputNotWritten(os.fspath(path), error.strerror or str(error)) from error

        def add(line: str) -> None:
            try:
                file.write(f"{line}\n")
            except OSError as error:
                raise OutputNotWritten(os.fspath(path), error.strerror or str(error)) from error

        with file:
            yield add

    def write_net(self, number: int, net: NetFile) -> None:
        """Write the net of a phase.

        Raises:
            OutputNotWritten: the operating system refuses.
        """
        self._make()
        write_net(self.net(number), net)

    def write_summary(self, summary: strict_json.Object) -> None:
        """Write what is known of all phases so far.

        Raises:
            OutputNotWritten: the operating system refuses.
        """
        self._make()
        write_file(self.path / "summary.json", strict_json.write_page(summary))

    def read_target(self, expected: tuple[LayerSpec, ...]) -> NetFile:
        """Read the net of phase 1, whose layers have to be the expected ones.

        Raises:
            CheckpointMissing, CheckpointDiffers: there is none, or another.
            InputUnreadable, UnreadableNet: it cannot be read.
        """
        path, folder = os.fspath(self.net(1)), os.fspath(self.path)
        if not self.net(1).exists():
            raise CheckpointMissing(path, folder)
        found = read_net(path)
        if found.specs != expected:
            pairs = enumerate(zip_longest(found.specs, expected))
            raise CheckpointDiffers(path, folder, next(place for place, (one, other) in pairs if one != other))
        return found

    def _make(self) -> None:
        """Make the folder, and keep other runs out of it.

        Raises:
            OutputNotWritten: the operating system refuses, there is something else, or another run is at it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise OutputNotWritten(os.fspath(self.path), "there is something else than a folder") from error
        except OSError as error:
            raise OutputNotWritten(os.fspath(self.path), error.strerror or str(error)) from error
        if self._descriptor is None:
            self._descriptor = _held(self.path)


def _held(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of a folder as long as it is open; None where there are no locks.

    Raises:
        OutputNotWritten: somebody else holds it.
    """
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise OutputNotWritten(os.fspath(folder), "another run is writing there") from None
        return None
    return descriptor
