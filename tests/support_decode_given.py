"""The given weights of the decode suites for the slow oracle: read by hand, and written down as it reads models.

What the nine models are made of stands here a second time, as literals, so that a mistake in the project's plan shows.
Nothing here uses the project's own packages or NumPy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import support_decoder_description as plain
from support_decoder_description import Vector
from support_vector_oracle import read_safetensors

HEADS: Final = 3
BASE: Final = 10000.0
WINDOW: Final = 7

MIXERS: Final = {
    "cai.kv-cache": "aa",
    "cai.multi-token": "aa",
    "cai.diagonal-ssm": "ss",
    "cai.latent-attention": "ll",
    "cai.speculative": "aa",
    "cai.hybrid": "sls",
    "cai.grouped-hybrid": "sls",
    "cai.local-global": "wa",
    "cai.parallel-block": "aa",
}
"""A letter a block: attention, attention with a window, latent attention, state-space recurrence."""


@dataclass(frozen=True)
class Tensor:
    """A shape, and the numbers in row-major order."""

    shape: list[int]
    values: Vector

    def matrix(self) -> plain.Matrix:
        """Return [in][out]; the groups of [G][in/G][out/G] side by side, as [in/G][out]."""
        *groups, rows, columns = self.shape
        count = groups[0] if groups else 1
        starts = [[(group * rows + row) * columns for group in range(count)] for row in range(rows)]
        return [[value for start in row for value in self.values[start : start + columns]] for row in starts]


Tensors = dict[str, Tensor]


def read_tensors(data: bytes) -> Tensors:
    """Return the tensors of a safetensors file of float32."""
    return {name: Tensor(shape, as_floats(found)) for name, (shape, found) in read_safetensors(data).items()}


def as_floats(patterns: Sequence[int]) -> Vector:
    """Return what 32-bit patterns mean."""
    return list(struct.unpack(f"<{len(patterns)}f", struct.pack(f"<{len(patterns)}I", *patterns)))


def described(tensors: Tensors, mixers: str, *, tied: bool = False) -> plain.Decoder:
    """Write a model down; if `tied`, with output columns in equal pairs, biases too."""
    outputs = [name for name in tensors if name.startswith("head.outputs.")]
    heads = 1 + max(int(name.split(".")[2]) for name in outputs)
    chosen = dict(tensors)
    if tied:
        chosen |= {name: Tensor(tensors[name].shape, list(_paired(tensors[name].values))) for name in outputs}
    return {
        "embedding": chosen["embedding.weight"].matrix(),
        "blocks": [_block(chosen, f"blocks.{number}", letter) for number, letter in enumerate(mixers)],
        "head": {
            "hidden": _projection(chosen, "head.hidden"),
            "outputs": [_projection(chosen, f"head.outputs.{number}") for number in range(heads)],
        },
    }


def _paired(values: Vector) -> Iterator[float]:
    """Repeat every value at an even place at the odd one behind it; the last axis is even."""
    for value in values[0::2]:
        yield from (value, value)


def _dense(tensors: Tensors, name: str) -> plain.Dense:
    return {"weight": tensors[f"{name}.weight"].matrix(), "bias": tensors[f"{name}.bias"].values}


def _projection(tensors: Tensors, name: str) -> plain.Projection:
    if f"{name}.first.weight" not in tensors:
        return _dense(tensors, name)
    return {
        "groups": tensors[f"{name}.first.weight"].shape[0],
        "first": _dense(tensors, f"{name}.first"),
        "second": _dense(tensors, f"{name}.second") if f"{name}.second.weight" in tensors else None,
        # The groups of the vocabulary do not talk.
        "interleave": not name.startswith("head.outputs."),
    }


def _norm(tensors: Tensors, name: str) -> plain.Norm:
    (alpha,) = tensors[f"{name}.alpha"].values
    return {"gamma": tensors[f"{name}.gamma"].values, "beta": tensors[f"{name}.beta"].values, "alpha": alpha}


def _mixer(tensors: Tensors, name: str, letter: str) -> plain.Mixer:
    output = _projection(tensors, f"{name}.output")
    if letter == "s":
        return {
            "kind": "ssm",
            "input": _projection(tensors, f"{name}.inner"),
            "a_raw": tensors[f"{name}.a_raw"].values,
            "b": tensors[f"{name}.b"].values,
            "c": tensors[f"{name}.c"].values,
            "e": tensors[f"{name}.e"].values,
            "output": output,
        }
    if letter == "l":
        return {
            "kind": "latent",
            "heads": HEADS,
            "base": BASE,
            "query": _projection(tensors, f"{name}.query"),
            "latent": _dense(tensors, f"{name}.latent"),
            "key": _dense(tensors, f"{name}.key"),
            "value": _dense(tensors, f"{name}.value"),
            "rope_query": _dense(tensors, f"{name}.rope_query"),
            "rope_key": _dense(tensors, f"{name}.rope_key"),
            "output": output,
        }
    return {
        "kind": "attention",
        "heads": HEADS,
        "base": BASE,
        "window": WINDOW if letter == "w" else None,
        "qkv": _projection(tensors, f"{name}.slab"),
        "output": output,
    }


def _block(tensors: Tensors, name: str, letter: str) -> plain.Block:
    norm, mixer = _norm(tensors, f"{name}.norm1"), _mixer(tensors, f"{name}.mixer", letter)
    ffn: plain.FeedForward = {
        "up": _projection(tensors, f"{name}.feed_forward.up"),
        "down": _projection(tensors, f"{name}.feed_forward.down"),
    }
    if f"{name}.norm2.gamma" not in tensors:
        return {"wiring": "parallel", "norm1": norm, "mixer": mixer, "ffn": ffn}
    second = _norm(tensors, f"{name}.norm2")
    return {"wiring": "sequential", "norm1": norm, "mixer": mixer, "norm2": second, "ffn": ffn}
