"""What a net learns, beside what the library measured: gradients of a batch, and some steps of its fitting loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from cai_neural_api.format import NetFile
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.layer import Learned
from cai_neural_api.net.making import CONVOLUTIONS, learned_of
from cai_neural_api.net.structure import LayerSpec
from cai_neural_api.structure import EMBEDDING, constant_key_biases
from cai_neural_api.training import AdamSettings, BatchReport, LegacyTrainer
from cai_neural_api.verify.samples import FitRun, GradientSample, Ids, NeuronGradient, TrainingSample
from cai_neural_api.verify.session_checks import Measure, SampleComparison
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.errors import CaiReferenceError

NO_RATE: Final = 0.0
"""Of a trainer that only computes gradients."""


def gradient_check(
    file: NetFile,
    training: TrainingSample,
    gradients: GradientSample,
    source: str,
    arithmetic: Arithmetic,
    tolerance: float,
) -> SampleComparison:
    """Compare the gradients of one batch; each error is taken relative to the largest gradient of its layer."""
    tally = SampleComparison("gradients", source, tolerance, Measure.OF_LAYER)
    stories = [training.stories[number] for number in training.gradient_batch]
    try:
        net = Net.from_file(file)
        _, found = LegacyTrainer(net, AdamSettings(NO_RATE), arithmetic).gradients(stories)
    except CaiReferenceError as error:
        tally.missing(str(error))
        return tally
    learned = {
        index: gradient
        for index, gradient in enumerate(found)
        if gradient is not None and any(array.size for array in gradient.arrays)
    }
    for layer in sorted(gradients.layers.keys() | learned.keys()):
        if layer not in gradients.layers or layer not in learned:
            has, lacks = ("net", "sample") if layer in learned else ("sample", "net")
            tally.missing(f"layer {layer}: the {has} has a gradient for it, the {lacks} has none")
            continue
        _layer_gradients(tally, file.specs[layer], layer, gradients.layers[layer], learned[layer])
    return tally


def _layer_gradients(
    tally: SampleComparison, spec: LayerSpec, layer: int, expected: Sequence[NeuronGradient], found: Learned
) -> None:
    neurons = neurons_of_layer(spec, found)
    where = f"layer {layer} ({spec.kind})"
    if len(neurons) != len(expected):
        tally.missing(f"{where}: expected {len(expected)} neurons, found {len(neurons)}")
        return
    largest = max((abs(number) for neuron in expected for number in (neuron.bias, *neuron.weights)), default=0.0)
    for number, (wanted, (bias, weights)) in enumerate(zip(expected, neurons, strict=True)):
        place = f"{where}, neuron {number}"
        tally.numbers(wanted.bias, bias, f"{place}, bias", scale=largest or 1.0)
        tally.numbers(wanted.weights, weights, place, "weight", largest or 1.0)


def fit_checks(
    file: NetFile,
    training: TrainingSample,
    finals: Mapping[str, NetFile],
    source: str,
    arithmetic: Arithmetic,
    weight_tolerance: float,
    report_tolerance: float,
) -> list[SampleComparison]:
    """Compare fits: the weights that they leave, where their final net is at hand, and the reports of their steps."""
    weights = SampleComparison("weights after fits", source, weight_tolerance, Measure.ABSOLUTE)
    losses = SampleComparison("losses of fit steps", source, report_tolerance, Measure.ABSOLUTE)
    errors = SampleComparison("errors of fit steps", source, report_tolerance, Measure.ABSOLUTE)
    # Of each layer, how many biases are not judged, and how far off they were.
    left_out: dict[int, tuple[int, float]] = {}
    for number, run in enumerate(training.runs):
        where = f"run {number} (rate {run.rate:.3g})"
        try:
            net, reports = _fitted(file, run, training.stories, arithmetic)
        except CaiReferenceError as error:
            losses.missing(f"{where}: {error}")
            continue
        for step, report in enumerate(reports):
            losses.numbers(run.losses[step], report.loss, f"{where}, step {step + 1}")
            errors.numbers(run.errors[step], report.error, f"{where}, step {step + 1}")
        if run.final in finals:
            _final_weights(weights, net, finals[run.final], where, left_out)
    if left_out:
        each = ", ".join(f"{count} of layer {layer}" for layer, (count, _) in sorted(left_out.items()))
        reason = "they add the same to every key, so that their gradient is zero but for rounding"
        largest = max(error for _, error in left_out.values())
        weights.left_out = f"biases {each}: {reason}; largest error {largest:.2g}"
    return [*([weights] if any(run.final in finals for run in training.runs) else []), losses, errors]


def _fitted(
    file: NetFile, run: FitRun, stories: Sequence[Ids], arithmetic: Arithmetic
) -> tuple[Net, list[BatchReport]]:
    """Take the steps of a fit; return the net, and the report of each step."""
    net = Net.from_file(file)
    settings = AdamSettings(run.rate, run.beta1, run.beta2, run.epsilon, run.limit, run.decay)
    trainer = LegacyTrainer(net, settings, arithmetic)
    starts = range(0, len(run.losses) * run.batch, run.batch)
    # Weights that overflow are found by the next run of the net, or by the comparison.
    with np.errstate(over="ignore", invalid="ignore"):
        return net, [trainer.step(stories[start : start + run.batch]) for start in starts]


def _final_weights(
    tally: SampleComparison, net: Net, final: NetFile, where: str, left_out: dict[int, tuple[int, float]]
) -> None:
    if final.specs != net.specs:
        tally.missing(f"{where}: the final net has other layers")
        return
    noise = constant_key_biases(net.specs, net.shapes)
    for layer, (spec, known) in enumerate(zip(net.specs, net.layers, strict=True)):
        if known.learned is None:
            continue
        mine = neurons_of_layer(spec, known.learned)
        theirs = neurons_of_layer(spec, learned_of(spec, final.neurons[layer]))
        skipped = noise.get(layer, ())
        for neuron, ((bias, weights), (final_bias, final_weights)) in enumerate(zip(mine, theirs, strict=True)):
            place = f"{where}, layer {layer} ({spec.kind}), neuron {neuron}"
            if neuron in skipped:
                _, largest = left_out.get(layer, (0, 0.0))
                left_out[layer] = (len(skipped), max(largest, abs(bias - final_bias)))
            else:
                tally.numbers(final_bias, bias, f"{place}, bias")
            tally.numbers(final_weights, weights, place, "weight")


def neurons_of_layer(spec: LayerSpec, learned: Learned) -> list[tuple[float, Array]]:
    """Return what a layer has learned, or the gradient of it, in the order of a file: bias and weights a neuron."""
    rows: Sequence[Array]
    if spec.kind in CONVOLUTIONS:
        rows = list(learned.weights[0])
    elif spec.kind == EMBEDDING:
        rows = [learned.weights[0].reshape(-1)]
    else:
        rows = learned.weights
    return list(zip(learned.biases.tolist(), rows, strict=True))
