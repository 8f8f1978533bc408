"""A net against what the library measured on it: everything that a sample states, and what lies beside it.

A sample of outputs `KIND.json` has siblings: `KIND.train.json` with stories and fits, the file of gradients that it
names, the nets that its fits left, and `KIND.init.nn` with the initial values. A sibling that is not there is named,
and is no error.

A verification as lines for a terminal, and as objects for a program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from rich.text import Text
from threadpoolctl import threadpool_limits

from cai_conformance.errors import InputError
from cai_conformance.fixtures.files import read_file
from cai_conformance.report.terminal import Column, paragraph, right_columns, table_lines
from cai_neural_api.errors import NetInputError
from cai_neural_api.exchange import read_net
from cai_neural_api.format import NetFile
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net
from cai_neural_api.structure import check_run
from cai_neural_api.verify.output_checks import count_check, decode_checks, forward_check
from cai_neural_api.verify.samples import GradientSample, NetSample, Sample, TrainingSample, parse_sample
from cai_neural_api.verify.session_checks import Measure, SampleComparison, edge_checks
from cai_neural_api.verify.training_checks import fit_checks, gradient_check
from cai_reference.arithmetic import Arithmetic


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
class NetVerification:
    """What came of verifying a net.

    Attributes:
        comparisons: one a kind of quantity and file.
        files: the files that were used beside the net, in order.
        missing: files that were looked for and are not there.
        unknown: fields that were not verified, each behind the name of its file.
    """

    comparisons: tuple[SampleComparison, ...]
    files: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether no comparison is over its tolerance."""
        return all(comparison.passed for comparison in self.comparisons)


def verify_net(net: Path, sample: Path, tolerances: Tolerances, arithmetic: Arithmetic) -> NetVerification:
    """Verify a net against a sample and what lies beside that.

    Args:
        net: a `.nn` file.
        sample: a JSON file of any of the known layouts.
        tolerances: the largest errors that pass.
        arithmetic: in which the net is run.

    Raises:
        InputError (input-unreadable), ExchangeError (unreadable-net), NetInputError (sample-damaged): a file cannot
            be used.
        NetInputError (stories-missing): gradients were given, and their stories do not lie beside them.
        NetInputError (nothing-to-verify): the sample states nothing.
        NetInputError (net-too-large): running the net takes too much memory.
        NetError: the net cannot be made.
    """
    work = _Work(read_net(net), sample, tolerances, arithmetic)
    check_run(Net.from_file(work.file))
    # A second BLAS thread costs more than it saves on products as small as these.
    with threadpool_limits(1):
        comparisons = tuple(work.everything())
    if not comparisons:
        raise NetInputError("nothing-to-verify", path=str(sample))
    return NetVerification(comparisons, tuple(work.files), tuple(work.missing), tuple(work.unknown))


_Sample = TypeVar("_Sample", GradientSample, TrainingSample)


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

    def everything(self) -> Iterator[SampleComparison]:
        """Compare what the sample states, and then what its siblings state."""
        sample, name = self._sample(self.path), self.path.name
        if isinstance(sample, NetSample):
            net, rows = Net.from_file(self.file), self.tolerances.rows
            yield from count_check(net, sample, name)
            yield from forward_check(net, sample, name, self.arithmetic, rows)
            yield from decode_checks(net, sample, name, self.arithmetic, rows)
            yield from self._siblings(sample)
        elif isinstance(sample, TrainingSample):
            yield from self._training(sample, name)
        elif isinstance(sample, GradientSample):
            yield self._gradients(sample, name)
        else:
            net = Net.from_file(self.file)
            comparisons, unknown = edge_checks(net, sample, name, self.arithmetic, self.tolerances.rows)
            self.unknown.extend(f"{name}: {sequence}" for sequence in unknown)
            yield from comparisons

    def _siblings(self, sample: NetSample) -> Iterator[SampleComparison]:
        """Look for the other files of the same kind."""
        stem = self.path.name.removesuffix(".json")
        training = self.path.with_name(f"{stem}.train.json")
        if self._there(training):
            yield from self._training(self._sample_of(TrainingSample, training, "it holds no stories"), training.name)
        else:
            gradients = self.path.with_name(f"{stem}.grad.json")
            if gradients.is_file():
                self.missing.append(f"{training.name}, which holds the stories of {gradients.name}")
        initial = self.path.with_name(f"{stem}.init.nn")
        if sample.seed is not None and self._there(initial):
            self.files.append(initial.name)
            yield self._initial(read_net(initial), sample.seed, initial.name)

    def _training(self, sample: TrainingSample, name: str) -> Iterator[SampleComparison]:
        """Compare gradients and fits."""
        if sample.gradient_file is not None and sample.gradient_batch:
            path = self.path.with_name(sample.gradient_file)
            if self._there(path):
                gradients = self._sample_of(GradientSample, path, "it holds no gradients")
                yield self._gradient_comparison(sample, gradients, path.name)
        if sample.runs:
            finals = {}
            for run in sample.runs:
                path = self.path.with_name(run.final)
                if run.final not in finals and self._there(path):
                    self.files.append(path.name)
                    finals[run.final] = read_net(path)
            weights, reports = self.tolerances.weights, self.tolerances.reports
            yield from fit_checks(self.file, sample, finals, name, self.arithmetic, weights, reports)

    def _gradients(self, sample: GradientSample, name: str) -> SampleComparison:
        """Compare gradients that were given by themselves: their stories lie beside them."""
        training = self.path.with_name(f"{name.removesuffix('.json').removesuffix('.grad')}.train.json")
        if not training.is_file():
            raise NetInputError("stories-missing", path=str(self.path), wanted=training.name)
        problem = "it does not say which stories the gradients are of"
        stories = self._sample_of(TrainingSample, training, problem)
        if not stories.gradient_batch:
            raise NetInputError("sample-damaged", path=str(training), problem=problem)
        return self._gradient_comparison(stories, sample, name)

    def _gradient_comparison(self, training: TrainingSample, sample: GradientSample, name: str) -> SampleComparison:
        return gradient_check(self.file, training, sample, name, self.arithmetic, self.tolerances.gradients)

    def _initial(self, initial: NetFile, seed: int, name: str) -> SampleComparison:
        """Draw the initial values from the seed; they have to be the same in every bit."""
        tally = SampleComparison("initial values from the seed", name)
        if initial.specs != self.file.specs:
            tally.missing(f"{name} has other layers than the net")
            return tally
        drawn = initialize(initial.specs, MersenneTwister(seed))
        for layer, (expected, found) in enumerate(zip(initial.neurons, drawn.neurons, strict=True)):
            for number, (theirs, ours) in enumerate(zip(expected, found, strict=True)):
                place = f"layer {layer} ({initial.specs[layer].kind}), neuron {number}"
                tally.equal(theirs.bias, ours.bias, f"{place}, bias")
                tally.numbers(theirs.weights, ours.weights, place, "weight")
        return tally

    def _sample_of(self, kind: type[_Sample], path: Path, problem: str) -> _Sample:
        """Read a sample of one kind; `problem` says what is wrong with another."""
        found = self._sample(path)
        if not isinstance(found, kind):
            raise NetInputError("sample-damaged", path=str(path), problem=problem)
        return found

    def _sample(self, path: Path) -> Sample:
        found = parse_sample(read_file(path), str(path))
        self.files.append(path.name)
        self.unknown.extend(f"{path.name}: {name}" for name in found.unknown)
        return found

    def _there(self, path: Path) -> bool:
        """Whether a sibling is there; one that is not is noted.

        Raises:
            InputError (input-unreadable): no file can have its name.
        """
        try:
            there = path.is_file()
        except OSError as error:
            raise InputError("input-unreadable", path=str(path), problem=error.strerror or str(error)) from error
        if there:
            return True
        self.missing.append(path.name)
        return False


COLUMNS: Final = (
    Column("quantity", folded=True),
    *right_columns("values", "largest error", "tolerance"),
    Column("verdict"),
)


def verification_lines(found: NetVerification, width: int, *, quiet: bool = False) -> Iterator[Text]:
    """Yield a table of the comparisons, then what is wrong, left out, missing or not verified; the verdict comes last.

    With `quiet`, only what did not pass, and the verdict.
    """
    shown = [comparison for comparison in found.comparisons if not (quiet and comparison.passed)]
    if shown:
        rows = [
            (each.quantity, f"{each.values:,}", _error(each), _tolerance(each), "pass" if each.passed else "FAIL")
            for each in shown
        ]
        styles = ["" if each.passed else "bold red" for each in shown]
        yield from table_lines(COLUMNS, rows, width, styles)
        yield Text("")
    for each in shown:
        if not each.passed:
            yield from paragraph(f"{each.quantity} ({each.source}): {each.first}", width, "bold red")
    if not quiet:
        for each in shown:
            if each.left_out:
                yield from paragraph(f"left out of {each.quantity}: {each.left_out}", width)
        yield from paragraph(f"used: {', '.join(found.files)}", width, "dim")
        for name in found.missing:
            yield from paragraph(f"not there: {name}", width)
        for name in found.unknown:
            yield from paragraph(f"not verified, since it is not known: {name}", width)
        yield Text("")
    passed = sum(each.passed for each in found.comparisons)
    values = sum(each.values for each in found.comparisons)
    verdict, style = ("as measured", "bold green") if found.passed else ("not as measured", "bold red")
    yield Text(f"{passed} of {len(found.comparisons)} quantities pass, {values:,} values: {verdict}.", style)


def verification_objects(found: NetVerification, *, quiet: bool = False) -> Iterator[dict[str, object]]:
    """Yield one object a comparison and a summary; an infinite error is null."""
    for each in found.comparisons:
        if quiet and each.passed:
            continue
        yield {
            "type": "comparison",
            "quantity": each.quantity,
            "source": each.source,
            "values": each.values,
            "largest_error": each.largest if math.isfinite(each.largest) else None,
            "tolerance": each.tolerance,
            "measure": each.measure.value,
            "passed": each.passed,
            "first": each.first or None,
            "left_out": each.left_out or None,
        }
    yield {
        "type": "summary",
        "passed": found.passed,
        "counts": {
            "quantities": len(found.comparisons),
            "passed": sum(each.passed for each in found.comparisons),
            "values": sum(each.values for each in found.comparisons),
        },
        "files": list(found.files),
        "missing": list(found.missing),
        "not_verified": list(found.unknown),
        "exit_code": 0 if found.passed else 1,
    }


def _error(each: SampleComparison) -> str:
    if math.isinf(each.largest):
        return "missing"
    if each.measure is Measure.EQUAL:
        return "equal" if each.largest == 0.0 else f"{each.largest:.0f} differ"
    return f"{each.largest:.1e}"


def _tolerance(each: SampleComparison) -> str:
    if each.measure is Measure.EQUAL:
        return "equal"
    return f"{each.tolerance:.0e}" + (" of layer" if each.measure is Measure.OF_LAYER else "")
