"""A net against what the library measured on it: everything that a sample states, and what lies beside it.

A sample of outputs `KIND.json` has siblings: `KIND.train.json` with stories and fits, the file of gradients that it
names, the nets that its fits left, and `KIND.init.nn` with the initial values. A sibling that is not there is named,
and is no error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from threadpoolctl import threadpool_limits

from cai_conformance.errors import InputUnreadable
from cai_conformance.interchange.files import read_file
from cai_conformance.interchange.nets import read_net
from cai_conformance.nets.comparing import Comparison, Tally
from cai_conformance.nets.errors import NothingToVerify, SampleDamaged, StoriesMissing
from cai_conformance.nets.memory import check_run
from cai_conformance.nets.output_checks import count_check, decode_checks, forward_check
from cai_conformance.nets.sample_parsing import parse_sample
from cai_conformance.nets.samples import (
    GradientSample,
    NetSample,
    Sample,
    SessionEdgeSample,
    TrainingSample,
)
from cai_conformance.nets.session_checks import edge_checks
from cai_conformance.nets.training_checks import fit_checks, gradient_check, weight_of
from cai_reference.arithmetic import Arithmetic
from cai_reference.legacy.initialization import initialize
from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.nets.format import NetFile
from cai_reference.nets.graph.net import Net


@dataclass(frozen=True)
class Tolerances:
    """The largest errors that pass; the library computes in binary32.

    Attributes:
        rows: of output probabilities.
        gradients: of gradients, relative to the largest of their layer.
        weights: of weights after a fit.
        reports: of the losses and errors of its steps.
    """

    rows: float = 1e-5
    gradients: float = 5e-5
    weights: float = 5e-5
    reports: float = 5e-5


@dataclass(frozen=True)
class Verification:
    """What came of verifying a net.

    Attributes:
        comparisons: one a kind of quantity and file.
        files: the files that were used beside the net, in order.
        missing: files that were looked for and are not there.
        unknown: fields that were not verified, each behind the name of its file.
    """

    comparisons: tuple[Comparison, ...]
    files: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether no comparison is over its tolerance."""
        return all(comparison.passed for comparison in self.comparisons)


def verify_net(net: Path, sample: Path, tolerances: Tolerances, arithmetic: Arithmetic) -> Verification:
    """Verify a net against a sample and what lies beside that.

    Args:
        net: a `.nn` file.
        sample: a JSON file of any of the known layouts.
        tolerances: the largest errors that pass.
        arithmetic: in which the net is run.

    Raises:
        InputUnreadable, UnreadableNet, SampleDamaged: a file cannot be used.
        StoriesMissing: gradients were given, and their stories do not lie beside them.
        NothingToVerify: the sample states nothing.
        NetTooLarge: running the net takes too much memory.
        NetError: the net cannot be made.
    """
    work = _Work(read_net(net), sample, tolerances, arithmetic)
    check_run(Net.from_file(work.file))
    # A second BLAS thread costs more than it saves on products as small as these.
    with threadpool_limits(1):
        comparisons = tuple(work.everything())
    if not comparisons:
        raise NothingToVerify(str(sample))
    return Verification(comparisons, tuple(work.files), tuple(work.missing), tuple(work.unknown))


@dataclass
class _Work:
    """One verification under way: the files that it has met so far."""

    file: NetFile
    path: Path
    tolerances: Tolerances
    arithmetic: Arithmetic
    files: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def everything(self) -> Iterator[Comparison]:
        """Compare what the sample states, and then what its siblings state."""
        sample = self._sample(self.path)
        name = self.path.name
        if isinstance(sample, NetSample):
            yield from self._outputs(sample, name)
            yield from self._siblings(sample)
        elif isinstance(sample, TrainingSample):
            yield from self._training(sample, name)
        elif isinstance(sample, GradientSample):
            yield self._gradients(sample, name)
        else:
            yield from self._edges(sample, name)

    def _outputs(self, sample: NetSample, name: str) -> Iterator[Comparison]:
        net, rows = Net.from_file(self.file), self.tolerances.rows
        yield from count_check(net, sample, name)
        yield from forward_check(net, sample, name, self.arithmetic, rows)
        yield from decode_checks(net, sample, name, self.arithmetic, rows)

    def _siblings(self, sample: NetSample) -> Iterator[Comparison]:
        """Look for the other files of the same kind."""
        stem = self.path.name.removesuffix(".json")
        training = self.path.with_name(f"{stem}.train.json")
        if self._there(training):
            found = self._sample(training)
            if not isinstance(found, TrainingSample):
                raise SampleDamaged(str(training), "it holds no stories")
            yield from self._training(found, training.name)
        else:
            gradients = self.path.with_name(f"{stem}.grad.json")
            if gradients.is_file():
                self.missing.append(f"{training.name}, which holds the stories of {gradients.name}")
        initial = self.path.with_name(f"{stem}.init.nn")
        if sample.seed is not None and self._there(initial):
            self.files.append(initial.name)
            yield self._initial(read_net(initial), sample.seed, initial.name)

    def _training(self, sample: TrainingSample, name: str) -> Iterator[Comparison]:
        """Compare gradients and fits."""
        if sample.gradient_file is not None and sample.gradient_batch:
            path = self.path.with_name(sample.gradient_file)
            if self._there(path):
                yield self._gradient_comparison(sample, self._gradient_sample(path), path.name)
        if sample.runs:
            finals = {}
            for run in sample.runs:
                path = self.path.with_name(run.final)
                if run.final not in finals and self._there(path):
                    self.files.append(path.name)
                    finals[run.final] = read_net(path)
            weights, reports = self.tolerances.weights, self.tolerances.reports
            yield from fit_checks(self.file, sample, finals, name, self.arithmetic, weights, reports)

    def _gradients(self, sample: GradientSample, name: str) -> Comparison:
        """Compare gradients that were given by themselves: their stories lie beside them."""
        training = self.path.with_name(f"{name.removesuffix('.json').removesuffix('.grad')}.train.json")
        if not training.is_file():
            raise StoriesMissing(str(self.path), training.name)
        stories = self._sample(training)
        if not isinstance(stories, TrainingSample) or not stories.gradient_batch:
            raise SampleDamaged(str(training), "it does not say which stories the gradients are of")
        return self._gradient_comparison(stories, sample, name)

    def _gradient_comparison(self, training: TrainingSample, sample: GradientSample, name: str) -> Comparison:
        return gradient_check(self.file, training, sample, name, self.arithmetic, self.tolerances.gradients)

    def _edges(self, sample: SessionEdgeSample, name: str) -> Iterator[Comparison]:
        found = edge_checks(Net.from_file(self.file), sample, name, self.arithmetic, self.tolerances.rows)
        self.unknown.extend(f"{name}: {sequence}" for sequence in found.unknown)
        yield from found.comparisons

    def _initial(self, initial: NetFile, seed: int, name: str) -> Comparison:
        """Draw the initial values from the seed; they have to be the same in every bit."""
        tally = Tally("initial values from the seed", name)
        if initial.specs != self.file.specs:
            tally.missing(f"{name} has other layers than the net")
            return tally.result()
        drawn = initialize(initial.specs, MersenneTwister(seed))
        for layer, (expected, found) in enumerate(zip(initial.neurons, drawn.neurons, strict=True)):
            for number, (theirs, ours) in enumerate(zip(expected, found, strict=True)):
                place = f"layer {layer} ({initial.specs[layer].kind}), neuron {number}"
                tally.equal(theirs.bias, ours.bias, f"{place}, bias")
                tally.numbers(theirs.weights, ours.weights, weight_of(place))
        return tally.result()

    def _gradient_sample(self, path: Path) -> GradientSample:
        found = self._sample(path)
        if not isinstance(found, GradientSample):
            raise SampleDamaged(str(path), "it holds no gradients")
        return found

    def _sample(self, path: Path) -> Sample:
        found = parse_sample(read_file(path), str(path))
        self.files.append(path.name)
        self.unknown.extend(f"{path.name}: {name}" for name in found.unknown)
        return found

    def _there(self, path: Path) -> bool:
        """Whether a sibling is there; one that is not is noted.

        Raises:
            InputUnreadable: no file can have its name.
        """
        try:
            there = path.is_file()
        except OSError as error:
            raise InputUnreadable(str(path), error.strerror or str(error)) from error
        if there:
            return True
        self.missing.append(path.name)
        return False
