"""The way between models and the plain descriptions that the slow oracle reads.

`described` writes a model down, with any array for a parameter: its value, its gradient. `model_of` makes a model from
a description. The two are written apart, so that a mistake in one does not hide behind the same mistake in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import support_decoder_description as plain
from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.layers.diagonal_ssm import DiagonalSsm
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.matrices import Projection
from cai_reference.layers.multi_head_attention import Attention
from cai_reference.layers.projection import Dense, GroupedLinear, GroupedStack
from cai_reference.models.decoder import (
    AttentionSpec,
    Decoder,
    DecoderBlock,
    DecoderConfiguration,
    LatentSpec,
    MixerSpec,
    SsmSpec,
    Wiring,
)
from cai_reference.models.stack import Mixer
from cai_reference.models.token_shift_draft import DraftConfiguration, TokenShiftDraft
from cai_reference.splitmix import SplitMix64

Model = Decoder | TokenShiftDraft
Take = Callable[[Parameter], Array]

# From a model to its description.


def value_of(parameter: Parameter) -> Array:
    """Take the value."""
    return parameter.value


def gradient_of(parameter: Parameter) -> Array:
    """Take the gradient."""
    return parameter.gradient


def described(model: Model, take: Take = value_of) -> plain.Model:
    """Write a model down, with what `take` takes of each parameter."""
    if isinstance(model, TokenShiftDraft):
        return {
            "embedding": matrix(take(model.table)),
            "mix": vector(take(model.shift.mix)),
            "hidden": _dense(model.hidden, take),
            "output": _dense(model.output, take),
        }
    return {
        "embedding": matrix(take(model.table)),
        "blocks": [_block(block, take) for block in model.blocks],
        "head": {
            "hidden": _projection(model.hidden, take),
            "outputs": [_projection(output, take) for output in model.outputs],
        },
    }


def vector(values: Array) -> plain.Vector:
    """Return a list of floats."""
    return [float(value) for value in values]


def matrix(values: Array) -> plain.Matrix:
    """Return a list of rows."""
    return [vector(row) for row in values]


def _dense(projection: Dense, take: Take) -> plain.Dense:
    return {"weight": matrix(take(projection.weight)), "bias": vector(take(projection.bias))}


def _grouped(projection: GroupedLinear, take: Take) -> plain.Dense:
    weight = take(projection.weight)
    side_by_side = [[float(value) for group in weight for value in group[row]] for row in range(weight.shape[1])]
    return {"weight": side_by_side, "bias": vector(take(projection.bias))}


def _projection(projection: Projection, take: Take) -> plain.Projection:
    if isinstance(projection, Dense):
        return _dense(projection, take)
    assert isinstance(projection, GroupedStack)
    return {
        "groups": projection.first.groups,
        "first": _grouped(projection.first, take),
        "second": None if projection.second is None else _grouped(projection.second, take),
        "interleave": projection.interleaved,
    }


def _norm(norm: DynamicTanh, take: Take) -> plain.Norm:
    return {"gamma": vector(take(norm.gamma)), "beta": vector(take(norm.beta)), "alpha": float(take(norm.alpha)[0])}


def _mixer(mixer: Mixer, take: Take) -> plain.Mixer:
    if isinstance(mixer, Attention):
        return {
            "kind": "attention",
            "heads": mixer.heads,
            "base": mixer.rope_base,
            "window": mixer.window,
            "qkv": _projection(mixer.slab, take),
            "output": _projection(mixer.output, take),
        }
    if isinstance(mixer, LatentAttention):
        return {
            "kind": "latent",
            "heads": mixer.heads,
            "base": mixer.rope_base,
            "query": _projection(mixer.query, take),
            "latent": _dense(mixer.latent, take),
            "key": _dense(mixer.key, take),
            "value": _dense(mixer.value, take),
            "rope_query": _dense(mixer.rope_query, take),
            "rope_key": _dense(mixer.rope_key, take),
            "output": _projection(mixer.output, take),
        }
    assert isinstance(mixer, DiagonalSsm)
    return {
        "kind": "ssm",
        "input": _projection(mixer.inner, take),
        "a_raw": vector(take(mixer.a_raw)),
        "b": vector(take(mixer.b)),
        "c": vector(take(mixer.c)),
        "e": vector(take(mixer.e)),
        "output": _projection(mixer.output, take),
    }


def _block(block: DecoderBlock, take: Take) -> plain.Block:
    ffn: plain.FeedForward = {
        "up": _projection(block.feed_forward.up, take),
        "down": _projection(block.feed_forward.down, take),
    }
    norm, mixer = _norm(block.norm1, take), _mixer(block.mixer, take)
    if block.norm2 is None:
        return {"wiring": "parallel", "norm1": norm, "mixer": mixer, "ffn": ffn}
    return {"wiring": "sequential", "norm1": norm, "mixer": mixer, "norm2": _norm(block.norm2, take), "ffn": ffn}


# From a description to a model.


def model_of(description: plain.Model, context: int, channels_per_group: int | None = None) -> Model:
    """Make the model that a description describes; it must have the shapes that its configuration asks for."""
    model: Model
    vocabulary, width = len(description["embedding"]), len(description["embedding"][0])
    if "mix" in description:
        sizes = DraftConfiguration(vocabulary, context, width, outputs_of(description["hidden"]))
        model = TokenShiftDraft.initialize(sizes, SplitMix64(0))
        arrays = _draft_arrays(description)
    else:
        model = Decoder.initialize(_configuration(description, context, channels_per_group), SplitMix64(0))
        arrays = _decoder_arrays(description)
    for parameter, array in zip(model.parameters, arrays, strict=True):
        parameter.assign(array)
    return model


def _configuration(description: plain.Decoder, context: int, channels_per_group: int | None) -> DecoderConfiguration:
    first = description["blocks"][0]
    heads = {block["mixer"]["heads"] for block in description["blocks"] if block["mixer"]["kind"] != "ssm"} or {1}
    bases = {block["mixer"]["base"] for block in description["blocks"] if block["mixer"]["kind"] != "ssm"} or {1e4}
    return DecoderConfiguration(
        vocabulary=len(description["embedding"]),
        context=context,
        width=len(description["embedding"][0]),
        heads=heads.pop(),
        feed_forward=outputs_of(first["ffn"]["up"]) // 2,
        mixers=tuple(_spec(block["mixer"]) for block in description["blocks"]),
        wiring=Wiring(first["wiring"]),
        channels_per_group=channels_per_group,
        futures=len(description["head"]["outputs"]),
        rope_base=bases.pop(),
    )


def _spec(mixer: plain.Mixer) -> MixerSpec:
    if mixer["kind"] == "attention":
        return AttentionSpec(mixer["window"])
    if mixer["kind"] == "ssm":
        return SsmSpec()
    assert mixer["rope_key"] is not None
    return LatentSpec(outputs_of(mixer["latent"]), outputs_of(mixer["rope_key"]))


def outputs_of(projection: plain.Projection) -> int:
    """Return how many outputs a described projection has."""
    if "groups" in projection:
        return len(projection["first"]["bias"])
    return len(projection["bias"])


def _projection_arrays(projection: plain.Projection) -> Iterator[Array]:
    if "groups" not in projection:
        yield from (np.array(projection["weight"]), np.array(projection["bias"]))
        return
    for part in (projection["first"], projection["second"]):
        if part is not None:
            weight = np.array(part["weight"])
            split = weight.reshape(weight.shape[0], projection["groups"], -1)
            yield from (np.swapaxes(split, 0, 1), np.array(part["bias"]))


def _norm_arrays(norm: plain.Norm) -> Iterator[Array]:
    yield from (np.array(norm["gamma"]), np.array(norm["beta"]), np.array([norm["alpha"]]))


def _mixer_arrays(mixer: plain.Mixer) -> Iterator[Array]:
    if mixer["kind"] == "ssm":
        yield from _projection_arrays(mixer["input"])
        yield from (np.array(values) for values in (mixer["a_raw"], mixer["b"], mixer["c"], mixer["e"]))
        yield from _projection_arrays(mixer["output"])
        return
    if mixer["kind"] == "attention":
        parts: list[plain.Projection | None] = [mixer["qkv"], mixer["output"]]
    else:
        parts = [mixer["query"], mixer["latent"], mixer["key"], mixer["value"]]
        parts += [mixer["rope_query"], mixer["rope_key"], mixer["output"]]
    for part in parts:
        assert part is not None
        yield from _projection_arrays(part)


def _decoder_arrays(description: plain.Decoder) -> Iterator[Array]:
    yield np.array(description["embedding"])
    for block in description["blocks"]:
        yield from _norm_arrays(block["norm1"])
        yield from _mixer_arrays(block["mixer"])
        if "norm2" in block:
            yield from _norm_arrays(block["norm2"])
        for part in (block["ffn"]["up"], block["ffn"]["down"]):
            yield from _projection_arrays(part)
    for part in (description["head"]["hidden"], *description["head"]["outputs"]):
        yield from _projection_arrays(part)


def _draft_arrays(description: plain.Draft) -> Iterator[Array]:
    yield from (np.array(description["embedding"]), np.array(description["mix"]))
    for part in (description["hidden"], description["output"]):
        yield from _projection_arrays(part)
