"""Small nets with the library's own initial values, and a folder with the sample files, to be changed at will."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cai_neural_api.builders import build_decoder, build_draft
from cai_neural_api.format import NetFile, Neuron, format_net
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.structure import LayerSpec
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, MixerSpec, SsmSpec
from cai_reference.models.token_shift_draft import DraftConfiguration
from support_cai_block import CaiConfiguration, build_cai_example
from support_nn_file import SAMPLES

VOCABULARY = 140
CONTEXT = 12
WORDS = b"one\nday\nthe\nfox\nsat\n"
"""A vocabulary of 133 ids, which a net of 140 can have."""

ATTENTION = AttentionSpec()
LOCAL = AttentionSpec(3)
LATENT = LatentSpec(4, 2)
SSM = SsmSpec()


def decoder_net(*mixers: MixerSpec, seed: int = 3, futures: int = 1, vocabulary: int = VOCABULARY) -> NetFile:
    """Return a decoder of width 8 whose weights are large enough for varied tokens."""
    sizes = DecoderConfiguration(vocabulary, CONTEXT, 8, 2, 12, mixers or (ATTENTION,), futures=futures)
    return louder(initialize(build_decoder(sizes), MersenneTwister(seed)))


def draft_net(seed: int = 4, vocabulary: int = VOCABULARY) -> NetFile:
    """Return a token-shift draft of width 8."""
    return louder(initialize(build_draft(DraftConfiguration(vocabulary, CONTEXT, 8, 12)), MersenneTwister(seed)))


def cai_net(vocabulary: int = VOCABULARY) -> NetFile:
    """Return a net of one CAI block, which needs whole contexts."""
    sizes = CaiConfiguration(vocabulary, CONTEXT, 8, 2, 12, 1)
    return louder(initialize(build_cai_example(sizes), MersenneTwister(5)))


def louder(net: NetFile) -> NetFile:
    """Return a net whose embedding is 64 times as large: initial ones are so small that all tokens look alike."""
    first = next(index for index, spec in enumerate(net.specs) if spec.kind == "TNNetEmbedding")
    return changed(net, first, lambda neuron: Neuron(neuron.bias, neuron.weights * 64.0, neuron.shape))


def changed(net: NetFile, layer: int, change: Callable[[Neuron], Neuron]) -> NetFile:
    """Return a net with the neurons of one layer changed."""
    neurons = tuple(tuple(map(change, each)) if index == layer else each for index, each in enumerate(net.neurons))
    return NetFile(net.specs, neurons)


def with_spec(net: NetFile, index: int, spec: LayerSpec) -> NetFile:
    """Return a net with one layer of its structure replaced."""
    return NetFile((*net.specs[:index], spec, *net.specs[index + 1 :]), net.neurons)


def biases_shifted(net: NetFile, layer: int, neuron: int, shift: float) -> NetFile:
    """Return a net with one bias shifted."""
    neurons = list(net.neurons[layer])
    old = neurons[neuron]
    neurons[neuron] = Neuron(float(np.float32(old.bias + shift)), old.weights, old.shape)
    return NetFile(net.specs, tuple(tuple(neurons) if i == layer else each for i, each in enumerate(net.neurons)))


def write(path: Path, net: NetFile) -> Path:
    """Write a net and return its path."""
    path.write_bytes(format_net(net))
    return path


def sample_folder(folder: Path, kind: str, *ends: str) -> Path:
    """Copy files of one kind into a folder, all if none are named; return the path of `KIND.json`."""
    for path in SAMPLES.glob(f"{kind}.*"):
        if not ends or path.name.removeprefix(f"{kind}.") in ends:
            shutil.copyfile(path, folder / path.name)
    return folder / f"{kind}.json"


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file in place."""
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
