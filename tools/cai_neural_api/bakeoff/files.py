"""The folder of a run: a net and a log a phase, and a summary of all that are done.

Nets and the summary are written whole or not at all; a log grows line by line, so that it can be followed. Two runs at
once would leave the nets of one beside the logs of the other, so that a folder belongs to one run at a time.

The nets of a phase as the published program makes them, from one generator that is read in its order.

A run of the published program seeds the generator, loads its vocabulary, which draws while it is sorted, and then makes
its nets. Phase 5 makes the net of phase 1 while it reads its file, so that the draft's weights are drawn behind those.
In which order phase 9 makes its two nets is not known here; the one that is trained comes first. (CAI NEURAL API,
decode-features bake-off. The initial weights of a net were measured; what precedes them in phases 5 and 9 was not.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from cai_conformance import strict_json
from cai_conformance.fixtures.files import FilePath, InterchangeError, write_file
from cai_neural_api.bakeoff.settings import PHASES, BakePhase, BakeSettings
from cai_neural_api.bakeoff.training import Log
from cai_neural_api.conversion import build_net
from cai_neural_api.errors import BakeOffError
from cai_neural_api.exchange import read_net, write_net
from cai_neural_api.format import NetFile
from cai_neural_api.format.data_line import layer_volumes
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.structure import LayerSpec, layer_shapes
from cai_neural_api.tokenizer import Vocabulary


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
            InterchangeError (output-not-written): the operating system refuses.
        """
        path = self.path / f"phase{number}.log"
        self._make()
        try:
            file = path.open("w", encoding="utf-8", newline="\n", buffering=1)
        except OSError as error:
            raise _not_written(path, error) from error

        def add(line: str) -> None:
            try:
                file.write(f"{line}\n")
            except OSError as error:
                raise _not_written(path, error) from error

        with file:
            yield add

    def write_net(self, number: int, net: NetFile) -> None:
        """Write the net of a phase.

        Raises:
            InterchangeError (output-not-written): the operating system refuses.
        """
        self._make()
        write_net(self.net(number), net)

    def write_summary(self, summary: strict_json.Object) -> None:
        """Write what is known of all phases so far.

        Raises:
            InterchangeError (output-not-written): the operating system refuses.
        """
        self._make()
        write_file(self.path / "summary.json", strict_json.write_page(summary))

    def read_target(self, expected: tuple[LayerSpec, ...]) -> NetFile:
        """Read the net of phase 1, whose layers have to be the expected ones.

        Raises:
            BakeOffError (checkpoint-missing, checkpoint-differs): there is none, or another.
            InputError (input-unreadable), ExchangeError (unreadable-net): it cannot be read.
        """
        path, folder = os.fspath(self.net(1)), os.fspath(self.path)
        if not self.net(1).exists():
            raise BakeOffError("checkpoint-missing", path=path, folder=folder)
        found = read_net(path)
        if found.specs != expected:
            pairs = enumerate(zip_longest(found.specs, expected))
            layer = next(place for place, (one, other) in pairs if one != other)
            raise BakeOffError("checkpoint-differs", path=path, folder=folder, layer=layer)
        return found

    def _make(self) -> None:
        """Make the folder, and keep other runs out of it.

        Raises:
            InterchangeError (output-not-written): the operating system refuses, there is something else, or another run
                is at it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise _not_written(self.path, "there is something else than a folder") from error
        except OSError as error:
            raise _not_written(self.path, error) from error
        if self._descriptor is None:
            self._descriptor = _held(self.path)


def _not_written(path: Path, problem: OSError | str) -> InterchangeError:
    words = problem if isinstance(problem, str) else problem.strerror or str(problem)
    return InterchangeError("output-not-written", path=os.fspath(path), problem=words)


def _held(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of a folder as long as it is open; None where there are no locks.

    Raises:
        InterchangeError (output-not-written): somebody else holds it.
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
            raise _not_written(folder, "another run is writing there") from None
        return None
    return descriptor


@dataclass(frozen=True)
class PhaseNets:
    """What a phase starts with.

    Attributes:
        initial: the net that is trained, before that.
        target: the trained net of phase 1, where a draft is trained for it.
        sequential: an untrained net of phase 1, where forward passes are timed beside those of the initial net.
        generator: what batches are drawn from.
    """

    initial: NetFile
    target: NetFile | None
    sequential: NetFile | None
    generator: MersenneTwister


def make_nets(phase: BakePhase, settings: BakeSettings, vocabulary: Vocabulary, folder: OutputFolder) -> PhaseNets:
    """Make the nets of a phase.

    Raises:
        BakeOffError (checkpoint-missing, checkpoint-differs), ExchangeError (unreadable-net): the net of phase 1 is
            needed and cannot be had.
    """
    generator = MersenneTwister(settings.seed)
    vocabulary.replay_loading(generator)
    first = build_net(settings.decoder(PHASES[0]))
    target = None
    if phase.trains_draft:
        target = folder.read_target(first)
        initialize(first, generator)
    initial = initialize(build_net(settings.trained(phase)), generator)
    sequential = initialize(first, generator) if phase.times_forwards else None
    return PhaseNets(initial, target, sequential, generator)


def weights_of(specs: Sequence[LayerSpec]) -> int:
    """Return how many weights the library counts in a net; biases are not among them."""
    return sum(volume.count * volume.weights for own in layer_volumes(specs, layer_shapes(specs)) for volume in own)
