"""A slow second copy of the chapter-23 n-gram, for tests to compare the reference with.

Plain Python lists and loops written from the published formulas (course, chapter 23): byte-pair fit and encoding,
windows, SplitMix64, the shuffled plan, initialisation, forward pass, loss, backward pass, AdamW and greedy decoding.
`exp` and `log1p` are arguments, so one text serves every arithmetic. It shares no code with the project, uses no NumPy,
reads no files and validates no input.

Matrices are lists of rows, weights are stored [in, out]; every sum starts at +0.0 and runs in ascending index order.
"""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Vector = list[float]
Matrix = list[Vector]
Function = Callable[[float], float]
Window = tuple[tuple[int, ...], int]

BOS = 0
EOS = 1
FIRST_BYTE = 2
SHAPES = ((266, 4), (8, 8), (8, 8), (8, 8), (8, 266))
MASK64 = (1 << 64) - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15


# Tokens: training ids are bytes 0..255 and merges 256 + rank; content ids lie 2 higher and leave room for BOS and EOS.


def replace_pair(sequence: Sequence[int], pair: tuple[int, int], new: int) -> list[int]:
    """Replace a pair by one id, left to right and without overlap."""
    out: list[int] = []
    position = 0
    while position < len(sequence):
        if position + 1 < len(sequence) and (sequence[position], sequence[position + 1]) == pair:
            out.append(new)
            position += 2
        else:
            out.append(sequence[position])
            position += 1
    return out


def count_pairs(sequences: Sequence[Sequence[int]]) -> dict[tuple[int, int], int]:
    """Count adjacent pairs, overlapping ones too, inside each sequence alone."""
    counts: dict[tuple[int, int], int] = {}
    for sequence in sequences:
        for position in range(len(sequence) - 1):
            pair = (sequence[position], sequence[position + 1])
            counts[pair] = counts.get(pair, 0) + 1
    return counts


def fit_merges(documents: Sequence[bytes], requested: int) -> list[tuple[int, int]]:
    """Learn up to `requested` merges in training ids; the largest count wins, then the smallest pair."""
    sequences = [list(document) for document in documents]
    merges: list[tuple[int, int]] = []
    while len(merges) < requested:
        counts = count_pairs(sequences)
        if not counts:
            break
        winner = min(counts, key=lambda pair: (-counts[pair], pair))
        sequences = [replace_pair(sequence, winner, 256 + len(merges)) for sequence in sequences]
        merges.append(winner)
    return merges


def encode(text: bytes, merges: Sequence[tuple[int, int]]) -> list[int]:
    """Encode bytes as content ids: one pass per merge in rank order, no control ids."""
    sequence = list(text)
    for rank, pair in enumerate(merges):
        sequence = replace_pair(sequence, pair, 256 + rank)
    return [token + FIRST_BYTE for token in sequence]


def encode_document(text: bytes, merges: Sequence[tuple[int, int]]) -> list[int]:
    """Encode bytes between BOS and EOS."""
    return [BOS, *encode(text, merges), EOS]


def windows(tokens: Sequence[int], context: int) -> list[Window]:
    """List every (context ids, next id) of one document at stride 1."""
    return [(tuple(tokens[start : start + context]), tokens[start + context]) for start in range(len(tokens) - context)]


# Randomness.


@dataclass
class SplitMix64:
    """The SplitMix64 generator; the seed is the raw state."""

    state: int

    def draw(self) -> int:
        """Advance and return 64 bits."""
        self.state = (self.state + GOLDEN_GAMMA) & MASK64
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        return z ^ (z >> 31)

    def unit(self) -> float:
        """Return a double in [0, 1) made of the top 53 bits of one draw."""
        return float(self.draw() >> 11) * 2.0**-53


def below(draw: Callable[[], int], bound: int) -> int:
    """Return an unbiased integer in [0, bound): draws under 2^64 mod bound are rejected."""
    threshold = ((1 << 64) - bound) % bound
    value = draw()
    while value < threshold:
        value = draw()
    return value % bound


def shuffle(count: int, generator: SplitMix64) -> list[int]:
    """Permute 0..count-1 by Fisher-Yates from the top."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = below(generator.draw, i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def plan(count: int, seed: int) -> list[int]:
    """Return the shuffled visiting order of `count` windows."""
    return shuffle(count, SplitMix64(seed))


def draw_matrix(generator: SplitMix64, fan_in: int, fan_out: int) -> Matrix:
    """Fill one Xavier-uniform matrix row by row."""
    limit = math.sqrt(6.0 / float(fan_in + fan_out))
    return [[limit * (2.0 * generator.unit() - 1.0) for _ in range(fan_out)] for _ in range(fan_in)]


def initial_parameters(seed: int, shapes: Sequence[tuple[int, int]] = SHAPES) -> list[Matrix]:
    """Fill embedding, gate, up, down and output from one generator, in this order."""
    generator = SplitMix64(seed)
    return [draw_matrix(generator, fan_in, fan_out) for fan_in, fan_out in shapes]


# Forward pass, one row at a time.


@dataclass(frozen=True)
class Row:
    """Everything the backward pass needs to know about one context."""

    features: Vector
    gate: Vector
    sigmoid: Vector
    activated: Vector
    up: Vector
    product: Vector
    hidden: Vector
    logits: Vector


def row_times(row: Vector, weight: Matrix) -> Vector:
    """Multiply a row by a matrix [in, out]."""
    out = []
    for column in range(len(weight[0])):
        total = 0.0
        for k in range(len(row)):
            total += row[k] * weight[k][column]
        out.append(total)
    return out


def row_times_transposed(row: Vector, weight: Matrix) -> Vector:
    """Multiply a row by the transpose of a matrix [in, out]."""
    out = []
    for weight_row in weight:
        total = 0.0
        for k in range(len(row)):
            total += row[k] * weight_row[k]
        out.append(total)
    return out


def transposed_times(left: Matrix, right: Matrix) -> Matrix:
    """Multiply the transpose of [B, m] by [B, n], summing over rows in row order."""
    out = []
    for i in range(len(left[0])):
        out_row = []
        for j in range(len(right[0])):
            total = 0.0
            for b in range(len(left)):
                total += left[b][i] * right[b][j]
            out_row.append(total)
        out.append(out_row)
    return out


def sigmoid(t: float, exp: Function) -> float:
    """Return the logistic function by the branch whose exponent is not positive."""
    if t >= 0.0:
        return 1.0 / (1.0 + exp(-t))
    e = exp(t)
    return e / (1.0 + e)


def forward(parameters: Sequence[Matrix], context_ids: Sequence[int], exp: Function) -> Row:
    """Run one context through embedding, SwiGLU and output projection."""
    embedding, w_gate, w_up, w_down, w_out = parameters
    features = [value for token in context_ids for value in embedding[token]]
    gate = row_times(features, w_gate)
    sig = [sigmoid(t, exp) for t in gate]
    activated = [t * s for t, s in zip(gate, sig, strict=True)]
    up = row_times(features, w_up)
    product = [a * u for a, u in zip(activated, up, strict=True)]
    hidden = row_times(product, w_down)
    return Row(features, gate, sig, activated, up, product, hidden, row_times(hidden, w_out))


# Loss.


def maximum_and_tail(logits: Sequence[float], exp: Function) -> tuple[float, float]:
    """Return the maximum and the sum of exp(z - maximum) over all classes but the first maximum."""
    top = max(logits)
    first = next(k for k, z in enumerate(logits) if z - top == 0.0)
    tail = 0.0
    for k, z in enumerate(logits):
        if k != first:
            tail += exp(z - top)
    return top, tail


def row_loss(logits: Sequence[float], target: int, exp: Function, log1p: Function) -> float:
    """Return the cross-entropy of one row in nats."""
    top, tail = maximum_and_tail(logits, exp)
    return (top - logits[target]) + log1p(tail)


def mean_loss(rows: Sequence[Sequence[float]], targets: Sequence[int], exp: Function, log1p: Function) -> float:
    """Return the mean cross-entropy; when the plain sum overflows, the terms are divided first."""
    size = float(len(rows))
    total = 0.0
    finite = True
    for logits, target in zip(rows, targets, strict=True):
        loss = row_loss(logits, target, exp, log1p)
        total += loss
        finite = finite and math.isfinite(loss) and math.isfinite(total)
    if finite:
        return total / size + 0.0
    total = 0.0
    for logits, target in zip(rows, targets, strict=True):
        top, tail = maximum_and_tail(logits, exp)
        gap = top - logits[target]
        share = gap / size if math.isfinite(gap) else top / size - logits[target] / size
        total += share + log1p(tail) / size
    return total + 0.0


def evaluate(
    parameters: Sequence[Matrix], scored: Sequence[Window], batch: int, exp: Function, log1p: Function
) -> float:
    """Return the loss over all windows: batch means weighted by their row counts."""
    total = 0.0
    for start in range(0, len(scored), batch):
        part = scored[start : start + batch]
        logits = [forward(parameters, context, exp).logits for context, _ in part]
        total += mean_loss(logits, [target for _, target in part], exp, log1p) * float(len(part))
    return total / float(len(scored))


# Backward pass.


def logit_gradient(logits: Sequence[float], target: int, scale: float, exp: Function) -> Vector:
    """Return (softmax - onehot) * scale for one row, zeros positive."""
    top, tail = maximum_and_tail(logits, exp)
    out = []
    for k, z in enumerate(logits):
        q = exp(z - top) / (1.0 + tail) + 0.0
        if k == target:
            q = q - 1.0
        out.append(q * scale + 0.0)
    return out


def loss_and_gradients(
    parameters: Sequence[Matrix], batch: Sequence[Window], exp: Function, log1p: Function
) -> tuple[float, list[Matrix]]:
    """Return the mean loss of a batch and its gradients in parameter order."""
    embedding, w_gate, w_up, w_down, w_out = parameters
    rows = [forward(parameters, context, exp) for context, _ in batch]
    loss = mean_loss([row.logits for row in rows], [target for _, target in batch], exp, log1p)
    scale = 1.0 / float(len(batch))
    d_logits, d_hidden, d_up, d_gate, d_features = [], [], [], [], []
    for row, (_, target) in zip(rows, batch, strict=True):
        dz = logit_gradient(row.logits, target, scale, exp)
        dh = row_times_transposed(dz, w_out)
        dp = row_times_transposed(dh, w_down)
        du, dg = [], []
        for j in range(len(dp)):
            g, s = row.gate[j], row.sigmoid[j]
            da = dp[j] * row.up[j] + 0.0
            du.append(dp[j] * row.activated[j] + 0.0)
            dg.append(da * (s * (1.0 + g * (1.0 - s))) + 0.0)
        from_up, from_gate = row_times_transposed(du, w_up), row_times_transposed(dg, w_gate)
        d_features.append([(0.0 + u) + g for u, g in zip(from_up, from_gate, strict=True)])
        d_logits.append(dz)
        d_hidden.append(dh)
        d_up.append(du)
        d_gate.append(dg)
    features = [row.features for row in rows]
    return loss, [
        scatter_rows(len(embedding), len(embedding[0]), [context for context, _ in batch], d_features),
        transposed_times(features, d_gate),
        transposed_times(features, d_up),
        transposed_times([row.product for row in rows], d_hidden),
        transposed_times([row.hidden for row in rows], d_logits),
    ]


def scatter_rows(vocabulary: int, width: int, contexts: Sequence[Sequence[int]], d_features: Matrix) -> Matrix:
    """Add the slices of each feature row to the embedding rows they came from, in row order."""
    out = [[0.0] * width for _ in range(vocabulary)]
    for context, d_row in zip(contexts, d_features, strict=True):
        for position, token in enumerate(context):
            for column in range(width):
                out[token][column] += d_row[position * width + column]
    return out


# Optimiser and decoding.


@dataclass
class AdamW:
    """AdamW with decoupled decay on every matrix and running products for the bias correction."""

    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    power1: float = 1.0
    power2: float = 1.0
    first: list[Matrix] = field(default_factory=list)
    second: list[Matrix] = field(default_factory=list)

    def step(self, parameters: Sequence[Matrix], gradients: Sequence[Matrix]) -> list[Matrix]:
        """Return the updated parameters; moments and powers move on."""
        if not self.first:
            self.first = [[[0.0] * len(row) for row in matrix] for matrix in parameters]
            self.second = [[[0.0] * len(row) for row in matrix] for matrix in parameters]
        self.power1 = self.power1 * self.beta1
        self.power2 = self.power2 * self.beta2
        out = []
        for matrix, gradient, first, second in zip(parameters, gradients, self.first, self.second, strict=True):
            new = [list(row) for row in matrix]
            for i in range(len(matrix)):
                for j in range(len(matrix[i])):
                    w, g = matrix[i][j], gradient[i][j]
                    m = self.beta1 * first[i][j] + (1.0 - self.beta1) * g
                    v = self.beta2 * second[i][j] + (1.0 - self.beta2) * (g * g)
                    direction = (m / (1.0 - self.power1)) / (math.sqrt(v / (1.0 - self.power2)) + self.epsilon)
                    adaptive = self.learning_rate * direction
                    decay = (self.learning_rate * self.weight_decay) * w
                    new[i][j] = (w - adaptive) - decay
                    first[i][j], second[i][j] = m, v
            out.append(new)
        return out


def next_token(parameters: Sequence[Matrix], context: Sequence[int], exp: Function, masked: Sequence[int]) -> int:
    """Return the unmasked id with the largest logit, the lowest of several equal ones."""
    logits = forward(parameters, context, exp).logits
    best = -1
    for token, z in enumerate(logits):
        if token not in masked and (best < 0 or z > logits[best]):
            best = token
    return best


def greedy(
    parameters: Sequence[Matrix], prompt: Sequence[int], limit: int, exp: Function, masked: Sequence[int] = (BOS,)
) -> tuple[list[int], str]:
    """Extend a prompt of context length until EOS or the limit; return the new ids without EOS and the reason."""
    context = list(prompt)
    out: list[int] = []
    while len(out) < limit:
        best = next_token(parameters, context, exp, masked)
        if best == EOS:
            return out, "eos"
        out.append(best)
        context = [*context[1:], best]
    return out, "limit"


def little_endian(parameters: Sequence[Matrix]) -> bytes:
    """Concatenate all parameters row by row as little-endian doubles."""
    return b"".join(struct.pack("<d", value) for matrix in parameters for row in matrix for value in row)
