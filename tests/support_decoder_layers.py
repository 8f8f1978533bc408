"""The layers of the decoder family, slowly: plain Python loops over lists, written from the formulas.

The order of operations is that of strict/1. Sums start at +0.0, ascend, and round each product; a bias comes after the
whole sum. A sequence is a list of rows, one per position. There is no cache. This file shares no code with the project,
uses no NumPy, reads no files and validates no input; `support_decoder_description` says what a layer's dict holds.
"""

import math
from collections.abc import Sequence

from support_decoder_description import (
    Attention,
    Dense,
    Elementary,
    Latent,
    Matrix,
    Norm,
    Projection,
    StateSpace,
    Vector,
)

# Layers that see one position.


def embed(table: Matrix, token: int) -> Vector:
    """Return the row of a token; id 0 is the zero vector whatever its row holds."""
    return [0.0] * len(table[0]) if token == 0 else list(table[token])


def dense(row: Vector, layer: Dense, groups: int = 1) -> Vector:
    """Multiply a row by [in/G][out] and add the bias; output f reads only the inputs of group f // (out/G)."""
    fan_in, fan_out = len(row) // groups, len(layer["bias"]) // groups
    out = []
    for f in range(len(layer["bias"])):
        first = (f // fan_out) * fan_in
        total = 0.0
        for k in range(fan_in):
            total += row[first + k] * layer["weight"][k][f]
        out.append(total + layer["bias"][f])
    return out


def interleave(row: Vector, step: int) -> Vector:
    """Move channel i to ((i*step) mod D + (i*step) div D) mod D."""
    size = len(row)
    out = [0.0] * size
    for i, value in enumerate(row):
        out[((i * step) % size + (i * step) // size) % size] = value
    return out


def project(row: Vector, projection: Projection) -> Vector:
    """Apply a dense projection, or a grouped stack: A, its interleave, and (second grouped projection) + A."""
    if "groups" not in projection:
        return dense(row, projection)
    groups = projection["groups"]
    first = dense(row, projection["first"], groups)
    shuffled = interleave(first, len(first) // groups) if projection["interleave"] else first
    if projection["second"] is None:
        return shuffled
    second = dense(shuffled, projection["second"], groups)
    return [b + a for b, a in zip(second, first, strict=True)]


def group_count(inputs: int, outputs: int, minimum: int) -> int:
    """Return the largest common divisor of both widths that leaves at least `minimum` inputs a group."""
    limit = max(1, min(inputs, outputs, inputs // minimum))
    return max(g for g in range(1, limit + 1) if inputs % g == 0 and outputs % g == 0)


def dynamic_tanh(row: Vector, norm: Norm, functions: Elementary) -> Vector:
    """Return (gamma * tanh(alpha*x)) + beta."""
    out = []
    for x, gamma, beta in zip(row, norm["gamma"], norm["beta"], strict=True):
        out.append((gamma * functions.tanh(norm["alpha"] * x)) + beta)
    return out


def sigmoid(t: float, functions: Elementary) -> float:
    """Return the logistic function by the branch whose exponent is not positive."""
    if t >= 0.0:
        return 1.0 / (1.0 + functions.exp(-t))
    e = functions.exp(t)
    return e / (1.0 + e)


def swiglu(row: Vector, functions: Elementary) -> Vector:
    """Return a * (b * sigmoid(b)) of the first half a and the second half b."""
    half = len(row) // 2
    return [row[i] * (row[half + i] * sigmoid(row[half + i], functions)) for i in range(half)]


def rotate(row: Vector, position: int, base: float, functions: Elementary) -> Vector:
    """Turn each adjacent pair k by the angle position * base^(-2k/D), zeros positive."""
    out = []
    for k in range(len(row) // 2):
        theta = functions.exp(((-2.0 * float(k)) / float(len(row))) * functions.log(base))
        angle = float(position) * theta
        cosine, sine = functions.cos(angle), functions.sin(angle)
        left, right = row[2 * k], row[2 * k + 1]
        out.append((left * cosine - right * sine) + 0.0)
        out.append((left * sine + right * cosine) + 0.0)
    return out


def maximum_and_tail(row: Vector, functions: Elementary) -> tuple[float, float]:
    """Return the maximum and the sum of exp(z - maximum) over all entries but the first maximum."""
    top = row[0]
    for z in row:
        if z > top:
            top = z
    tail = 0.0
    skipped = False
    for z in row:
        if z == top and not skipped:
            skipped = True
        else:
            tail += functions.exp(z - top)
    return top, tail


def softmax(row: Vector, functions: Elementary) -> Vector:
    """Return exp(z - maximum) / (1 + tail)."""
    top, tail = maximum_and_tail(row, functions)
    return [functions.exp(z - top) / (1.0 + tail) for z in row]


# Layers that mix positions.


def visible_keys(position: int, window: int | None) -> list[int]:
    """List the keys a row may read, in position order: all up to itself, or the last `window` of them."""
    first = 0 if window is None else max(0, position - window + 1)
    return list(range(first, position + 1))


def attend(queries: Matrix, keys: Matrix, values: Matrix, window: int | None, functions: Elementary) -> Matrix:
    """Return the mixtures of one head; scores are dots times 1/sqrt(width), sums take keys in position order."""
    scale = 1.0 / math.sqrt(float(len(queries[0])))
    mixtures = []
    for position, query in enumerate(queries):
        visible = visible_keys(position, window)
        scores = []
        for j in visible:
            total = 0.0
            for k in range(len(query)):
                total += query[k] * keys[j][k]
            scores.append(total * scale)
        probabilities = softmax(scores, functions)
        mixture = []
        for channel in range(len(values[0])):
            total = 0.0
            for probability, j in zip(probabilities, visible, strict=True):
                total += probability * values[j][channel]
            mixture.append(total)
        mixtures.append(mixture)
    return mixtures


def head_slice(rows: Matrix, head: int, width: int, offset: int = 0) -> Matrix:
    """Cut the contiguous channels of one head out of every row."""
    return [row[offset + head * width : offset + (head + 1) * width] for row in rows]


def merge(heads: Sequence[Matrix]) -> Matrix:
    """Put the outputs of all heads side by side."""
    return [[value for head in heads for value in head[position]] for position in range(len(heads[0]))]


def attention(rows: Matrix, mixer: Attention, start: int, functions: Elementary) -> Matrix:
    """Run multi-head attention; the first row stands at absolute position `start`."""
    slabs = [project(row, mixer["qkv"]) for row in rows]
    model_width = len(slabs[0]) // 3
    width = model_width // mixer["heads"]
    base = mixer["base"]
    outputs = []
    for head in range(mixer["heads"]):
        queries = head_slice(slabs, head, width)
        keys = head_slice(slabs, head, width, model_width)
        values = head_slice(slabs, head, width, 2 * model_width)
        queries = [rotate(row, start + i, base, functions) for i, row in enumerate(queries)]
        keys = [rotate(row, start + i, base, functions) for i, row in enumerate(keys)]
        outputs.append(attend(queries, keys, values, mixer["window"], functions))
    return [project(row, mixer["output"]) for row in merge(outputs)]


def latent_attention(rows: Matrix, mixer: Latent, start: int, functions: Elementary) -> Matrix:
    """Run latent attention: content channels come before rope channels in every dot product."""
    heads, base = mixer["heads"], mixer["base"]
    queries = [project(row, mixer["query"]) for row in rows]
    latents = [project(row, mixer["latent"]) for row in rows]
    keys = [project(row, mixer["key"]) for row in latents]
    values = [project(row, mixer["value"]) for row in latents]
    width = len(queries[0]) // heads
    rope_queries: Matrix = [[] for _ in rows]
    rope_keys: Matrix = [[] for _ in rows]
    if mixer["rope_query"] is not None and mixer["rope_key"] is not None:
        rope_queries = [project(row, mixer["rope_query"]) for row in rows]
        unrotated = [project(row, mixer["rope_key"]) for row in rows]
        rope_keys = [rotate(row, start + i, base, functions) for i, row in enumerate(unrotated)]
    rope_width = len(rope_keys[0])
    outputs = []
    for head in range(heads):
        turned = [
            rotate(row, start + i, base, functions) for i, row in enumerate(head_slice(rope_queries, head, rope_width))
        ]
        whole_queries = [q + r for q, r in zip(head_slice(queries, head, width), turned, strict=True)]
        whole_keys = [k + r for k, r in zip(head_slice(keys, head, width), rope_keys, strict=True)]
        outputs.append(attend(whole_queries, whole_keys, head_slice(values, head, width), None, functions))
    return [project(row, mixer["output"]) for row in merge(outputs)]


def state_space(rows: Matrix, mixer: StateSpace, functions: Elementary) -> Matrix:
    """Project in, scan h = (a*h) + (b*x) and y = (c*h) + (e*x) from h = 0, project out."""
    states = [0.0] * len(mixer["a_raw"])
    out = []
    for row in rows:
        scanned = []
        for i, x in enumerate(project(row, mixer["input"])):
            a = sigmoid(mixer["a_raw"][i], functions)
            states[i] = (a * states[i]) + (mixer["b"][i] * x)
            scanned.append((mixer["c"][i] * states[i]) + (mixer["e"][i] * x))
        out.append(project(scanned, mixer["output"]))
    return out


def token_shift(rows: Matrix, mix: Vector) -> Matrix:
    """Return (mix*x) + ((1 - mix)*x of the position before), which is zero before the first."""
    previous = [0.0] * len(mix)
    out = []
    for row in rows:
        out.append([(m * x) + ((1.0 - m) * p) for m, x, p in zip(mix, row, previous, strict=True)])
        previous = row
    return out
