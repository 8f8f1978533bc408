"""The formulas of the library's layers in plain Python, one value at a time; no code of the project, no NumPy.

A value is a list of rows, a row a token. Weights come as lists: of a convolution a row a neuron, otherwise a vector a
neuron.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = list[float]
Rows = list[Row]


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    """Multiply two vectors."""
    return sum(a * b for a, b in zip(left, right, strict=True))


def convolve(rows: Rows, weights: Rows, biases: Sequence[float]) -> Rows:
    """y[t,f] = W[f] · x[t] + b[f]."""
    return [[dot(neuron, row) + bias for neuron, bias in zip(weights, biases, strict=True)] for row in rows]


def convolve_groups(rows: Rows, weights: Rows, biases: Sequence[float], groups: int) -> Rows:
    """Output f reads the inputs of group f div (n/G) alone."""
    outputs, width = len(weights), len(weights[0])
    made = []
    for row in rows:
        starts = [(f // (outputs // groups)) * width for f in range(outputs)]
        made.append([dot(weights[f], row[start : start + width]) + biases[f] for f, start in enumerate(starts)])
    return made


def interleave(rows: Rows, step: int) -> Rows:
    """Channel i goes to ((i·s) mod D + (i·s) div D) mod D."""
    made = []
    for row in rows:
        depth, result = len(row), [0.0] * len(row)
        for i, value in enumerate(row):
            result[((i * step) % depth + (i * step) // depth) % depth] = value
        made.append(result)
    return made


def softmax_row(row: Row) -> Row:
    """Normalise exponentials."""
    exponentials = [math.exp(max(value - max(row), -4000.0)) for value in row]
    return [value / sum(exponentials) for value in exponentials]


def softmax(rows: Rows) -> Rows:
    """Normalise each row; one of a single channel stays."""
    return [list(row) if len(row) == 1 else softmax_row(row) for row in rows]


def masked_softmax(rows: Rows) -> Rows:
    """Normalise the first t + 1 channels of row t; the others are 0."""
    return [softmax_row(row[: t + 1]) + [0.0] * (len(row) - t - 1) for t, row in enumerate(rows)]


def dyt(rows: Rows, gamma: Row, beta: Row, alpha: Row) -> Rows:
    """Return γ · tanh(α x) + β."""
    return [[g * math.tanh(alpha[0] * x) + b for x, g, b in zip(row, gamma, beta, strict=True)] for row in rows]


def silu(x: float) -> float:
    """Return x · σ(x)."""
    return x / (1.0 + math.exp(-x))


def swiglu(rows: Rows) -> Rows:
    """The second half is the gate."""
    half = len(rows[0]) // 2
    return [[row[k] * silu(row[half + k]) for k in range(half)] for row in rows]


def relu(rows: Rows) -> Rows:
    """max(0, x)."""
    return [[max(0.0, x) for x in row] for row in rows]


def signed_root(rows: Rows) -> Rows:
    """Return x within ±1, sign(x) · √|x| beyond."""
    return [[x if abs(x) <= 1.0 else math.copysign(math.sqrt(abs(x)), x) for x in row] for row in rows]


def add(*values: Rows) -> Rows:
    """Add values elementwise."""
    return [[sum(channel) for channel in zip(*rows, strict=True)] for rows in zip(*values, strict=True)]


def concatenate(*values: Rows) -> Rows:
    """Set values side by side."""
    return [[channel for row in rows for channel in row] for rows in zip(*values, strict=True)]


def split(rows: Rows, channels: Sequence[int]) -> Rows:
    """Pick channels."""
    return [[row[channel] for channel in channels] for row in rows]


def shift(rows: Rows, mix: Row) -> Rows:
    """y[t] = m · x[t] + (1 − m) · x[t−1]."""
    before = [[0.0] * len(mix), *rows[:-1]]
    return [
        [m * x + (1.0 - m) * old for m, x, old in zip(mix, row, older, strict=True)]
        for row, older in zip(rows, before, strict=True)
    ]


def recur(rows: Rows, a_raw: Row, b: Row, c: Row, e: Row) -> Rows:
    """Go on by h = σ(a_raw) · h + b · x; y = c · h + e · x."""
    states = [0.0] * len(b)
    made = []
    for row in rows:
        states = [h / (1.0 + math.exp(-a)) + bk * x for h, a, bk, x in zip(states, a_raw, b, row, strict=True)]
        made.append([ck * h + ek * x for ck, h, ek, x in zip(c, states, e, row, strict=True)])
    return made


def rotate(rows: Rows, base: float, start: int = 0) -> Rows:
    """Turn channels 2k and 2k + 1 by position · base^(−2k/D)."""
    made = []
    for place, row in enumerate(rows):
        result: Row = []
        for k in range(0, len(row), 2):
            angle = (start + place) * base ** (-k / len(row))
            left, right = row[k], row[k + 1]
            result += [
                math.cos(angle) * left - math.sin(angle) * right,
                math.sin(angle) * left + math.cos(angle) * right,
            ]
        made.append(result)
    return made


def attend(rows: Rows, width: int, *, causal: bool = True, window: int = 0) -> Rows:
    """Average the values by the softmax of the scaled products, over what each token sees."""
    made = []
    for i, row in enumerate(rows):
        seen = [j for j in range(len(rows)) if (j <= i or not causal) and (window == 0 or i - j < window)]
        scores = [dot(row[:width], rows[j][width : 2 * width]) / math.sqrt(width) for j in seen]
        shares = softmax_row(scores)
        made.append([sum(p * rows[j][2 * width + k] for p, j in zip(shares, seen, strict=True)) for k in range(width)])
    return made


def multiply(first: Rows, second: Rows, *, masked: bool) -> Rows:
    """y[b,a] = A[a] · B[b], 0 where a > b if masked."""
    return [
        [0.0 if masked and a > b else dot(one, other) for a, one in enumerate(first)] for b, other in enumerate(second)
    ]


def transpose(rows: Rows) -> Rows:
    """Exchange tokens and channels."""
    return [list(column) for column in zip(*rows, strict=True)]
