"""The library's training against the library: three real steps of six nets at two rates, and one batch's gradients.

The library computes in binary32; what is left between it and this is its rounding, which is small beside any rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from cai_neural_api.format import parse_net
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.layer import GradientRules, Learned
from cai_neural_api.training import AdamSettings, LegacyTrainer
from cai_neural_api.training.pairs import difference, make_pairs
from cai_neural_api.training.trainer import GRADIENT_LIMIT
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST
from support_legacy_training import CONTENT_KEYS, FitSample, fit_sample, needs_fit_samples
from support_nn_file import KINDS, SAMPLES

pytestmark = needs_fit_samples

WEIGHTS, LOSSES, ERRORS = 6e-6, 7e-6, 2e-6
"""Largest distances of weights, of step losses and of step errors."""


def trained(sample: FitSample, run: int) -> tuple[Net, list[tuple[float, float]]]:
    """Take the three steps of a run; return the net, and loss and error of each step."""
    net = Net.from_file(sample.file)
    trainer = LegacyTrainer(net, AdamSettings(sample.runs[run]["lr"]), FAST)
    reports = [trainer.step(sample.batch(step)) for step in range(sample.runs[run]["steps"])]
    return net, [(report.loss, report.error) for report in reports]


def distances(net: Net, other: Net) -> Iterator[tuple[int, bool, float]]:
    """Yield layer, whether it is its biases, and the largest distance, for all that two nets have learned."""
    for index, (mine, theirs) in enumerate(zip(net.layers, other.layers, strict=True)):
        if mine.learned is None or theirs.learned is None:
            continue
        arrays = list(zip(mine.learned.arrays, theirs.learned.arrays, strict=True))
        for place, (left, right) in enumerate(arrays):
            yield index, place == len(arrays) - 1, float(np.max(np.abs(left - right)))


def final(sample: FitSample, run: int) -> Net:
    """Return the net that the library had after a run."""
    return Net.from_file(parse_net((SAMPLES / sample.runs[run]["final"]).read_bytes()))


@pytest.mark.parametrize("run", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
class TestSteps:
    """Three steps, two stories each, at the rates 0.01 and 0.2."""

    def test_the_weights_are_those_of_the_library(self, kind: str, run: int) -> None:
        """Biases, table and vectors included; content-key biases of a latent, whose gradient is 0, aside."""
        sample = fit_sample(kind)
        net, _ = trained(sample, run)
        exempt = (CONTENT_KEYS.get(kind, -1), True)
        found = {(index, biases): far for index, biases, far in distances(net, final(sample, run))}
        assert WEIGHTS > max(far for place, far in found.items() if place != exempt)
        assert kind not in CONTENT_KEYS or found[exempt] > WEIGHTS

    def test_the_steps_report_what_the_library_printed(self, kind: str, run: int) -> None:
        """Loss and error of each step, from before it."""
        sample = fit_sample(kind)
        _, reports = trained(sample, run)
        losses, errors = np.array(reports).T
        assert LOSSES > np.max(np.abs(losses - sample.runs[run]["step_loss"]))
        assert ERRORS > np.max(np.abs(errors - sample.runs[run]["step_error"]))


def measured(kind: str) -> dict[int, list[tuple[float, Array]]]:
    """Return the library's gradients of stories 0 and 1: for each layer its neurons' bias and weights."""
    layers = json.loads((SAMPLES / f"{kind}.grad.json").read_text("ascii"))["layers"]
    return {
        int(index): [(float(bias), np.array(weights)) for bias, weights in neurons] for index, neurons in layers.items()
    }


def flat(neurons: list[tuple[float, Array]]) -> Array:
    """Return all weights of a layer's neurons, then its biases."""
    return np.concatenate([*(weights for _, weights in neurons), np.array([bias for bias, _ in neurons])])


def ours(learned: Learned | None) -> Array:
    """Return the same of a gradient of ours."""
    assert learned is not None
    return np.concatenate([array.reshape(-1) for array in learned.arrays])


@pytest.mark.parametrize("kind", KINDS)
class TestGradients:
    """One batch of two stories, the second of which is padded."""

    def test_the_gradients_are_those_of_the_library(self, kind: str) -> None:
        """Of every layer, measured by its largest entry."""
        sample = fit_sample(kind)
        _, gradients = LegacyTrainer(Net.from_file(sample.file), AdamSettings(0.01), FAST).gradients(sample.batch(0))
        for index, neurons in measured(kind).items():
            expected = flat(neurons)
            assert 5e-5 * max(float(np.max(np.abs(expected))), 1e-3) > np.max(np.abs(ours(gradients[index]) - expected))

    def test_forgetting_the_tokens_of_the_padding_is_not_what_the_library_does(self, kind: str) -> None:
        """Without the remembered ids, the table's gradient is off by more than a tenth of its largest entry."""
        sample = fit_sample(kind)
        net = Net.from_file(sample.file)
        trainer = LegacyTrainer(net, AdamSettings(0.01), FAST)
        pairs = make_pairs(sample.batch(0), net.context, trainer.vocabulary, trainer.heads)
        run = net.run(FAST, pairs.inputs)
        clean = net.gradients(FAST, run, difference(run.output, pairs.targets), GradientRules(GRADIENT_LIMIT))[1]
        expected = flat(measured(kind)[1])
        assert 0.1 < np.max(np.abs(ours(clean) - expected)) / np.max(np.abs(expected))
