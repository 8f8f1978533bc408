"""From a Llama model to the plain description that the slow oracle reads; parameters are found by their names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.models.llama import Llama
from support_decoder_description import Matrix, Vector
from support_llama_oracle import Block, Model


def value_of(parameter: Parameter) -> Array:
    """Take the value."""
    return parameter.value


def described(model: Llama, take: Callable[[Parameter], Array] = value_of) -> Model:
    """Write a model down, with what `take` takes of each parameter."""
    taken = {parameter.name: take(parameter) for parameter in model.parameters}
    sizes = model.configuration
    return {
        "sizes": {
            "heads": sizes.heads,
            "key_value_heads": sizes.key_value_heads or sizes.heads,
            "base": sizes.rope_base,
            "layout": sizes.rope_layout.value,
            "nearest": sizes.rope_frequencies.value == "nearest",
            "window": sizes.window,
            "epsilon": sizes.epsilon,
            "norm": sizes.norm.value,
        },
        "embedding": matrix(taken["token_embedding.weight"]),
        "blocks": [block(taken, f"blocks.{layer}") for layer in range(sizes.layers)],
        "final_norm": vector(taken["final_norm.gain"]),
        "output": None if sizes.tied else matrix(taken["output.weight"]),
    }


def block(taken: dict[str, Array], name: str) -> Block:
    """Write one block down."""
    return {
        "attention_norm": vector(taken[f"{name}.attention_norm.gain"]),
        "query": matrix(taken[f"{name}.attention.query.weight"]),
        "key": matrix(taken[f"{name}.attention.key.weight"]),
        "value": matrix(taken[f"{name}.attention.value.weight"]),
        "output": matrix(taken[f"{name}.attention.output.weight"]),
        "ffn_norm": vector(taken[f"{name}.ffn_norm.gain"]),
        "gate": matrix(taken[f"{name}.ffn.gate.weight"]),
        "up": matrix(taken[f"{name}.ffn.up.weight"]),
        "down": matrix(taken[f"{name}.ffn.down.weight"]),
    }


def vector(values: Array) -> Vector:
    """Return a list of floats."""
    return [float(value) for value in np.asarray(values)]


def matrix(values: Array) -> Matrix:
    """Return a list of rows."""
    return [vector(row) for row in values]
