"""The plain description of a decoder or draft that the slow oracle reads, and the elementary functions it is given.

Everything is nested dicts and lists of Python floats, so that any implementation can write one down:

    decoder     {"embedding": [V][d], "blocks": [block, ...], "head": head}
    head        {"hidden": projection d -> d, "outputs": [projection d -> V, ...]}
    block       {"wiring": "sequential", "norm1": norm, "mixer": mixer, "norm2": norm, "ffn": ffn}
                {"wiring": "parallel", "norm1": norm, "mixer": mixer, "ffn": ffn}
    ffn         {"up": projection d -> 2*ff, "down": projection ff -> d}
    norm        {"gamma": [d], "beta": [d], "alpha": float}
    mixer       {"kind": "attention", "heads": H, "base": float, "window": W or None,
                 "qkv": projection d -> 3d, "output": projection d -> d}
                {"kind": "latent", "heads": H, "base": float, "query": projection d -> d, "latent": projection d -> L,
                 "key": projection L -> d, "value": projection L -> d, "rope_query": projection d -> H*r or None,
                 "rope_key": projection d -> r or None, "output": projection d -> d}
                {"kind": "ssm", "input": projection d -> d, "a_raw": [d], "b": [d], "c": [d], "e": [d],
                 "output": projection d -> d}
    projection  dense {"weight": [in][out], "bias": [out]}
                or a grouped stack {"groups": G, "first": dense, "second": dense or None, "interleave": bool}
    draft       {"embedding": [V][d], "mix": [d], "hidden": projection, "output": projection}

In a grouped stack `weight` is [in/G][out]: column f holds the weights of output f on the in/G inputs of its own group,
which is f // (out/G). The interleave step is out/G. The second half of `ffn.up` is the gate. There is one output
projection per predicted future token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict, final

Vector = list[float]
Matrix = list[Vector]
Function = Callable[[float], float]


@dataclass(frozen=True)
class Elementary:
    """The elementary functions of one arithmetic, on floats."""

    exp: Function
    log: Function
    log1p: Function
    tanh: Function
    sin: Function
    cos: Function


@final
class Dense(TypedDict):
    """A matrix [in][out] (or, inside a stack, [in/G][out]) and a bias [out]."""

    weight: Matrix
    bias: Vector


@final
class Stack(TypedDict):
    """A grouped projection, the interleave after it, and the second grouped projection if there is one."""

    groups: int
    first: Dense
    second: Dense | None
    interleave: bool


Projection = Dense | Stack


class Norm(TypedDict):
    """A dynamic-tanh norm."""

    gamma: Vector
    beta: Vector
    alpha: float


class Attention(TypedDict):
    """Multi-head attention over a Q|K|V slab with rotated queries and keys; the window counts the current token."""

    kind: Literal["attention"]
    heads: int
    base: float
    window: int | None
    qkv: Projection
    output: Projection


class Latent(TypedDict):
    """Multi-head latent attention; both rope projections are None where no channels rotate."""

    kind: Literal["latent"]
    heads: int
    base: float
    query: Projection
    latent: Projection
    key: Projection
    value: Projection
    rope_query: Projection | None
    rope_key: Projection | None
    output: Projection


class StateSpace(TypedDict):
    """A diagonal state-space scan between two projections."""

    kind: Literal["ssm"]
    input: Projection
    a_raw: Vector
    b: Vector
    c: Vector
    e: Vector
    output: Projection


Mixer = Attention | Latent | StateSpace


class FeedForward(TypedDict):
    """A gated feed-forward network: up to 2*ff channels, gate, down."""

    up: Projection
    down: Projection


class Block(TypedDict):
    """One decoder block; only sequential wiring has a second norm."""

    wiring: Literal["sequential", "parallel"]
    norm1: Norm
    mixer: Mixer
    norm2: NotRequired[Norm]
    ffn: FeedForward


class Head(TypedDict):
    """The projection before the vocabulary and one vocabulary projection per predicted future token."""

    hidden: Projection
    outputs: list[Projection]


@final
class Decoder(TypedDict):
    """A whole decoder."""

    embedding: Matrix
    blocks: list[Block]
    head: Head


@final
class Draft(TypedDict):
    """The token-shift draft."""

    embedding: Matrix
    mix: Vector
    hidden: Projection
    output: Projection


Model = Decoder | Draft
