"""A slow second copy of the decoder family, for tests to compare the reference with: models, greedy decoding, losses.

Every call recomputes its whole sequence from the layers of `support_decoder_layers`; nothing is cached. It shares no
code with the project, uses no NumPy, reads no files and validates no input. The model is a plain dict, described in
`support_decoder_description`.
"""

from collections.abc import Sequence

from support_decoder_description import Block, Decoder, Draft, Elementary, Matrix, Mixer, Model, Vector
from support_decoder_layers import (
    attention,
    dynamic_tanh,
    embed,
    latent_attention,
    maximum_and_tail,
    project,
    state_space,
    swiglu,
    token_shift,
)


def mix(rows: Matrix, mixer: Mixer, start: int, functions: Elementary) -> Matrix:
    """Run the mixer of a block."""
    if mixer["kind"] == "attention":
        return attention(rows, mixer, start, functions)
    if mixer["kind"] == "latent":
        return latent_attention(rows, mixer, start, functions)
    return state_space(rows, mixer, functions)


def feed_forward(row: Vector, block: Block, functions: Elementary) -> Vector:
    """Run the gated feed-forward network of a block on one normed row."""
    return project(swiglu(project(row, block["ffn"]["up"]), functions), block["ffn"]["down"])


def run_block(rows: Matrix, block: Block, start: int, functions: Elementary) -> Matrix:
    """Run a block: branch + x twice (sequential), or (x + A) + F behind one shared norm (parallel)."""
    normed = [dynamic_tanh(row, block["norm1"], functions) for row in rows]
    mixed = mix(normed, block["mixer"], start, functions)
    out = []
    if block["wiring"] == "parallel":
        for x_row, a_row, n_row in zip(rows, mixed, normed, strict=True):
            f_row = feed_forward(n_row, block, functions)
            out.append([(x + a) + f for x, a, f in zip(x_row, a_row, f_row, strict=True)])
        return out
    for x_row, a_row in zip(rows, mixed, strict=True):
        r_row = [a + x for a, x in zip(a_row, x_row, strict=True)]
        f_row = feed_forward(dynamic_tanh(r_row, block["norm2"], functions), block, functions)
        out.append([f + r for f, r in zip(f_row, r_row, strict=True)])
    return out


def decoder_logits(model: Decoder, ids: Sequence[int], functions: Elementary, start: int = 0) -> list[Matrix]:
    """Return the logits of every head for every position."""
    rows = [embed(model["embedding"], token) for token in ids]
    for block in model["blocks"]:
        rows = run_block(rows, block, start, functions)
    hidden = [project(row, model["head"]["hidden"]) for row in rows]
    return [[project(row, output) for row in hidden] for output in model["head"]["outputs"]]


def draft_logits(model: Draft, ids: Sequence[int]) -> Matrix:
    """Return the logits of the token-shift draft for every position; ReLU is the maximum of x and +0.0."""
    shifted = token_shift([embed(model["embedding"], token) for token in ids], model["mix"])
    out = []
    for row in shifted:
        hidden = [x if x > 0.0 else 0.0 for x in project(row, model["hidden"])]
        out.append(project(hidden, model["output"]))
    return out


def logits(model: Model, ids: Sequence[int], functions: Elementary, start: int = 0) -> list[Matrix]:
    """Return the logits of every head for every position, as [head][position][id]; a draft has one head."""
    if "mix" in model:
        return [draft_logits(model, ids)]
    return decoder_logits(model, ids, functions, start)


def first_maximum(row: Vector) -> int:
    """Return the lowest index that holds the maximum."""
    best = 0
    for index, z in enumerate(row):
        if z > row[best]:
            best = index
    return best


def greedy(
    model: Model, prompt: Sequence[int], length: int, functions: Elementary, eos: int | None = None
) -> list[int]:
    """Extend a prompt with head 0 to `length` ids, or until `eos` was appended; return prompt and continuation."""
    ids = list(prompt)
    while len(ids) < length:
        ids.append(first_maximum(logits(model, ids, functions)[0][-1]))
        if ids[-1] == eos:
            break
    return ids


# Losses.


def row_loss(row: Vector, target: int, functions: Elementary) -> float:
    """Return the cross-entropy (maximum - z_y) + log1p(tail) of one row in nats."""
    top, tail = maximum_and_tail(row, functions)
    return (top - row[target]) + functions.log1p(tail)


def mean_loss(targets: Sequence[tuple[Vector, int]], functions: Elementary) -> float:
    """Return the mean over real targets, given as (logit row, target id) in row order."""
    total = 0.0
    for row, target in targets:
        total += row_loss(row, target, functions)
    return total / float(len(targets)) + 0.0


def mean_head_loss(heads: Sequence[Sequence[tuple[Vector, int]]], functions: Elementary) -> float:
    """Return the mean of the means of several heads, each given as for `mean_loss`, in head order."""
    total = 0.0
    for targets in heads:
        total += mean_loss(targets, functions)
    return total / float(len(heads)) + 0.0
