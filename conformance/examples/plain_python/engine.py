#!/usr/bin/env python3
"""A program that is judged: Llama and Mistral models in plain Python, without NumPy or anything else to install.

    cai-conform run --backend "serve:python3 conformance/examples/plain_python/engine.py" --suite llama.dense

It speaks the serve protocol on standard input and output, and computes in float64 with plain loops. It loads a folder,
evaluates tokens, and clears, cuts and copies its slots; the rest it skips. Read it from the end to the beginning:
`main` reads lines, `Engine` keeps slots, `Model` computes.
"""

import base64
import hashlib
import json
import math
import struct
import sys
from collections.abc import Sequence
from operator import add, mul
from pathlib import Path
from typing import Any

Vector = list[float]
Cache = list[tuple[list[Vector], list[Vector]]]
"""Of one block: keys and values of each token, by heads."""

SLOTS = 4
FORMATS = {"F64": "d", "F32": "f", "F16": "e"}
PARTS = ("weights", "activations", "cache", "accumulation", "logits")
MATRICES = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
            "mlp.up_proj", "mlp.down_proj")  # fmt: skip


class Skipped(Exception):
    """What the engine will not do; nothing has changed."""


def read_safetensors(path: Path) -> dict[str, Any]:
    """Return the tensors of a file by name: matrices as lists of rows, others as flat lists."""
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        if name != "__metadata__":
            count, start = math.prod(entry["shape"]), 8 + length + entry["data_offsets"][0]
            values = list(struct.unpack_from(f"<{count}{FORMATS[entry['dtype']]}", raw, start))
            columns = entry["shape"][-1]
            rows = [values[first : first + columns] for first in range(0, count, columns)]
            tensors[name] = rows if len(entry["shape"]) == 2 else values
    return tensors


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the sum of products, added in order."""
    return sum(map(mul, a, b), 0.0)


def times(matrix: list[Vector], x: Vector) -> Vector:
    """Return a matrix, given as its rows [outputs][inputs], times a vector."""
    return [dot(row, x) for row in matrix]


def softmax(scores: Vector) -> Vector:
    """Return probabilities."""
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    total = sum(weights)
    return [weight / total for weight in weights]


class Model:
    """A model folder: settings, weights, and the forward pass of one token."""

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if settings.get("model_type") not in ("llama", "mistral") or settings.get("rope_scaling") is not None:
            raise Skipped("only Llama and Mistral models without scaled positions are known here")
        tensors = read_safetensors(folder / "model.safetensors")
        self.vocabulary: int = settings["vocab_size"]
        self.context: int = settings["max_position_embeddings"]
        self.heads: int = settings["num_attention_heads"]
        self.key_heads: int = settings["num_key_value_heads"]
        self.width: int = settings["head_dim"]
        self.window: int | None = settings.get("sliding_window")
        self.epsilon: float = settings["rms_norm_eps"]
        self.frequencies = [settings["rope_theta"] ** (-2.0 * j / self.width) for j in range(self.width // 2)]
        self.embedding: list[Vector] = tensors["model.embed_tokens.weight"]
        self.output = self.embedding if settings["tie_word_embeddings"] else tensors["lm_head.weight"]
        self.last_norm: Vector = tensors["model.norm.weight"]
        names = [*MATRICES, "input_layernorm", "post_attention_layernorm"]
        self.blocks: list[dict[str, Any]] = [
            {name.split(".")[-1]: tensors[f"model.layers.{layer}.{name}.weight"] for name in names}
            for layer in range(settings["num_hidden_layers"])
        ]

    def norm(self, x: Vector, gains: Vector) -> Vector:
        """Divide by the root of the mean square."""
        scale = 1.0 / math.sqrt(dot(x, x) / len(x) + self.epsilon)
        return [value * scale * gain for value, gain in zip(x, gains, strict=True)]

    def turned(self, row: Vector, position: int) -> list[Vector]:
        """Return queries or keys by heads, turned by their position: place j goes with place j + width / 2."""
        half, heads = self.width // 2, []
        angles = [(math.cos(position * f), math.sin(position * f)) for f in self.frequencies]
        for first in range(0, len(row), self.width):
            pairs = list(zip(row[first : first + half], row[first + half : first + self.width], angles, strict=True))
            heads.append([a * c - b * s for a, b, (c, s) in pairs] + [b * c + a * s for a, b, (c, s) in pairs])
        return heads

    def attend(self, block: dict[str, Any], x: Vector, position: int, cache: Cache) -> Vector:
        """Return what attention adds; keys and values of this token are appended to the block's cache."""
        row = times(block["v_proj"], x)
        values = [row[first : first + self.width] for first in range(0, len(row), self.width)]
        cache.append((self.turned(times(block["k_proj"], x), position), values))
        seen, mixed = cache[-(self.window or len(cache)) :], []
        for head, query in enumerate(self.turned(times(block["q_proj"], x), position)):
            group = head * self.key_heads // self.heads
            weights = softmax([dot(query, keys[group]) / math.sqrt(self.width) for keys, _ in seen])
            mixed += [dot(weights, column) for column in zip(*(rows[group] for _, rows in seen), strict=True)]
        return times(block["o_proj"], mixed)

    def forward(self, token: int, position: int, caches: list[Cache]) -> Vector:
        """Return the normed hidden vector of a token; each block's cache grows by one entry."""
        x = self.embedding[token]
        for block, cache in zip(self.blocks, caches, strict=True):
            x = list(map(add, x, self.attend(block, self.norm(x, block["input_layernorm"]), position, cache)))
            inner = self.norm(x, block["post_attention_layernorm"])
            gates, ups = times(block["gate_proj"], inner), times(block["up_proj"], inner)
            gated = [gate / (1.0 + math.exp(-gate)) * up for gate, up in zip(gates, ups, strict=True)]
            x = list(map(add, x, times(block["down_proj"], gated)))
        return self.norm(x, self.last_norm)


class Slot:
    """One sequence: the position of its first token, and a cache for each block."""

    def __init__(self, first: int, caches: list[Cache]) -> None:
        self.first, self.caches = first, [list(cache) for cache in caches]

    @property
    def end(self) -> int:
        """The position of the next token."""
        return self.first + len(self.caches[0])


class Engine:
    """Answers messages: each method is named after a `do`, and takes its keys as arguments."""

    def start(self, protocol: str, client: str, scratch: str) -> dict[str, Any]:
        """Say who this is."""
        if protocol != "1":
            raise ValueError(f"version {protocol} of the protocol is not spoken here")
        self.scratch = Path(scratch)
        return {
            "name": "plain Python", "version": "1", "protocol": "1", "arithmetic": "float64",
            "precision": dict.fromkeys(PARTS, "float64"), "precisions": [], "nondeterminism": "none",
            "features": ["drop", "copy"], "arms": [], "slots": SLOTS,
        }  # fmt: skip

    def load(self, folder: str, precision: str | None) -> dict[str, Any]:
        """Load a model folder."""
        if precision is not None:
            raise Skipped(f"there is no choice of formats, and so no {precision}")
        self.model = model = Model(Path(folder))
        self.slots: list[Slot | None] = [None] * SLOTS
        window = f"{model.window}, the current token included" if model.window else "none"
        return {"conventions": {"rope": "half-split pairs", "window": window}, "context": model.context, "claimed": {}}

    def evaluate(self, pieces: list[dict[str, Any]], observe: bool) -> dict[str, Any]:
        """Evaluate tokens; slots change when all is done, so that a failure changes nothing."""
        if observe:
            raise Skipped("there is nothing to observe")
        answers, changed, self.files = [], {}, 0
        for piece in pieces:
            old, position, tokens = self.slots[piece["slot"]], piece["position"], piece["tokens"]
            slot = Slot(old.first, old.caches) if old else Slot(position, [[] for _ in self.model.blocks])
            if position != slot.end:
                raise ValueError(f"slot {piece['slot']} goes on at {slot.end}, not at {position}")
            if slot.end - slot.first + len(tokens) > self.model.context or max(tokens) >= self.model.vocabulary:
                raise Skipped("the slot has no place for these tokens, or the model does not know one of them")
            hidden = [self.model.forward(token, position + i, slot.caches) for i, token in enumerate(tokens)]
            rows = [times(self.model.output, hidden[place]) for place in piece["wanted"]]
            answers.append({"logits": self.tensor(rows), "stages": []})
            changed[piece["slot"]] = slot
        for place, slot in changed.items():
            self.slots[place] = slot
        return {"answers": answers}

    def clear(self, slot: int) -> dict[str, Any]:
        """Empty a slot."""
        self.slots[slot] = None
        return {}

    def drop(self, slot: int, first: int, last: int | None) -> dict[str, Any]:
        """Forget the end of a slot."""
        found = self.slots[slot]
        if found is None or not found.first <= first <= found.end or last not in (None, found.end):
            raise Skipped("only the end of a slot can be dropped")
        kept = [cache[: first - found.first] for cache in found.caches]
        self.slots[slot] = Slot(found.first, kept) if kept[0] else None
        return {}

    def copy(self, source: int, target: int) -> dict[str, Any]:
        """Copy a slot."""
        found = self.slots[source]
        self.slots[target] = found and Slot(found.first, found.caches)
        return {}

    def tensor(self, rows: list[Vector]) -> dict[str, Any]:
        """Return rows of logits of one head as a tensor, in the line or, where they are large, in a file."""
        # Files of the last answer have been read, and may be written over.
        data = b"".join(struct.pack(f"<{len(row)}d", *row) for row in rows)
        head = {"dtype": "float64", "shape": [1, len(rows), self.model.vocabulary]}
        if len(data) <= 65536:
            return {**head, "data": base64.b64encode(data).decode("ascii")}
        self.files += 1
        name = f"rows-{self.files}.bin"
        (self.scratch / name).write_bytes(data)
        return {**head, "file": name, "offset": 0, "sha256": hashlib.sha256(data).hexdigest()}


def answer(engine: Engine, message: dict[str, Any]) -> dict[str, Any]:
    """Return what a message is answered with, without its id."""
    do = message["do"]
    if do in ("stop", "cancel"):  # what is read has been answered before the next line is: nothing is left to cancel
        return {"ok": {}}
    if do not in ("start", "load", "evaluate", "clear", "drop", "copy"):
        return {"skipped": f"{do} is not known here"}
    asked = {key: value for key, value in message.items() if key not in ("id", "do", "seconds") and key[:2] != "x_"}
    try:
        return {"ok": getattr(engine, do)(**asked)}
    except Skipped as reason:
        return {"skipped": str(reason)}
    except Exception as error:
        return {"errored": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer one line after the other."""
    engine = Engine()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        found = {"id": message["id"], **answer(engine, message)}
        sys.stdout.buffer.write(json.dumps(found).encode("ascii") + b"\n")
        sys.stdout.buffer.flush()
        if message["do"] == "stop":
            return


if __name__ == "__main__":
    main()
