"""A slow second copy of the Llama model, for tests to compare the reference with: plain loops over lists of floats.

Written from the formulas in the order of operations of strict/1: sums start at +0.0, ascend, and round each product. It
recomputes whole sequences, shares no code with the project and validates no input. With the oracle of the CAI decoders
it shares softmax, the logistic function and the attention of one head.

A model is a dict:

    sizes   {"heads": H, "key_value_heads": G, "base": float, "layout": "adjacent" or "half-split", "nearest": bool,
             "window": W or None, "epsilon": float, "norm": "inverse-root" or "exponential"}
    block   {"attention_norm": [d], "query": [d][H*w], "key": [d][G*w], "value": [d][G*w], "output": [H*w][d],
             "ffn_norm": [d], "gate": [d][ff], "up": [d][ff], "down": [ff][d]}
    model   {"sizes": sizes, "embedding": [V][d], "blocks": [block, ...], "final_norm": [d], "output": [d][V] or None}
"""

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import TypedDict

from support_decoder_description import Elementary, Matrix, Vector
from support_decoder_layers import attend, merge, sigmoid


class Sizes(TypedDict):
    """What is not a parameter."""

    heads: int
    key_value_heads: int
    base: float
    layout: str
    nearest: bool
    window: int | None
    epsilon: float
    norm: str


class Block(TypedDict):
    """The parameters of one block."""

    attention_norm: Vector
    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    ffn_norm: Vector
    gate: Matrix
    up: Matrix
    down: Matrix


class Model(TypedDict):
    """A whole model; without an output matrix the head is tied."""

    sizes: Sizes
    embedding: Matrix
    blocks: list[Block]
    final_norm: Vector
    output: Matrix | None


def times(row: Vector, matrix: Matrix) -> Vector:
    """Multiply a row [in] with a matrix [in][out]."""
    out = []
    for column in range(len(matrix[0])):
        total = 0.0
        for k, x in enumerate(row):
            total += x * matrix[k][column]
        out.append(total)
    return out


def rms_norm(row: Vector, gain: Vector, sizes: Sizes, functions: Elementary) -> Vector:
    """Return (x * inverse) * gain, the inverse root by division or through exp and log."""
    total = 0.0
    for x in row:
        total += x * x
    shifted = total / float(len(row)) + sizes["epsilon"]
    if sizes["norm"] == "exponential":
        inverse = functions.exp(functions.log(shifted) * (-0.5))
    else:
        inverse = 1.0 / math.sqrt(shifted)
    return [(x * inverse) * g for x, g in zip(row, gain, strict=True)]


def frequency(pair: int, width: int, sizes: Sizes, functions: Elementary) -> float:
    """Return base^(-2j/w), through exp and log, or rounded once from fifty digits."""
    if sizes["nearest"]:
        with localcontext() as context:
            context.prec = 50
            return float(Decimal(sizes["base"]) ** (Decimal(-2 * pair) / Decimal(width)))
    return functions.exp(((-2.0 * float(pair)) / float(width)) * functions.log(sizes["base"]))


def rotate(row: Vector, position: int, sizes: Sizes, functions: Elementary) -> Vector:
    """Turn each pair by position * frequency, zeros positive; pairs are neighbours, or half a head apart."""
    width = len(row)
    out = list(row)
    for pair in range(width // 2):
        left, right = (2 * pair, 2 * pair + 1) if sizes["layout"] == "adjacent" else (pair, pair + width // 2)
        angle = float(position) * frequency(pair, width, sizes, functions)
        cosine, sine = functions.cos(angle), functions.sin(angle)
        out[left] = (row[left] * cosine - row[right] * sine) + 0.0
        out[right] = (row[left] * sine + row[right] * cosine) + 0.0
    return out


def attention(rows: Matrix, block: Block, sizes: Sizes, start: int, functions: Elementary) -> Matrix:
    """Run grouped-query attention: query head h reads the h // (H // G)-th keys and values."""
    width = len(block["query"][0]) // sizes["heads"]
    queries, keys, values = ([times(row, matrix) for row in rows] for matrix in slabs(block))
    outputs = []
    for head in range(sizes["heads"]):
        shared = head // (sizes["heads"] // sizes["key_value_heads"])
        mine = [row[head * width : (head + 1) * width] for row in queries]
        theirs = [row[shared * width : (shared + 1) * width] for row in keys]
        turned = [
            [rotate(row, start + position, sizes, functions) for position, row in enumerate(part)]
            for part in (mine, theirs)
        ]
        held = [row[shared * width : (shared + 1) * width] for row in values]
        outputs.append(attend(turned[0], turned[1], held, sizes["window"], functions))
    return [times(row, block["output"]) for row in merge(outputs)]


def slabs(block: Block) -> tuple[Matrix, Matrix, Matrix]:
    """Return the matrices of queries, keys and values."""
    return block["query"], block["key"], block["value"]


def feed_forward(row: Vector, block: Block, functions: Elementary) -> Vector:
    """Return (silu(x gate) * (x up)) down."""
    gate, up = times(row, block["gate"]), times(row, block["up"])
    return times([(g * sigmoid(g, functions)) * u for g, u in zip(gate, up, strict=True)], block["down"])


def logits(model: Model, ids: Sequence[int], functions: Elementary, start: int = 0) -> Matrix:
    """Return the logits [position][id]."""
    sizes = model["sizes"]
    rows = [list(model["embedding"][token]) for token in ids]
    for block in model["blocks"]:
        normed = [rms_norm(row, block["attention_norm"], sizes, functions) for row in rows]
        mixed = attention(normed, block, sizes, start, functions)
        rows = [[a + x for a, x in zip(a_row, x_row, strict=True)] for a_row, x_row in zip(mixed, rows, strict=True)]
        fed = [feed_forward(rms_norm(row, block["ffn_norm"], sizes, functions), block, functions) for row in rows]
        rows = [[f + x for f, x in zip(f_row, x_row, strict=True)] for f_row, x_row in zip(fed, rows, strict=True)]
    columns = model["output"]
    if columns is None:
        columns = [list(column) for column in zip(*model["embedding"], strict=True)]
    return [times(rms_norm(row, model["final_norm"], sizes, functions), columns) for row in rows]
