"""Second answers to the vector cases of the neural n-gram, from the plain replica and a C compiler.

Takes a case as `vectors.json` spells it and returns the answer in the same spelling. The formulas are those of
`support_ngram_oracle`; exp and log1p are arguments, in `strict/1` those of `elementary.c`. Nothing here uses the
project's own packages or NumPy, and nothing is validated.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import support_ngram_oracle as replica
from support_ngram_oracle import Function, Matrix, SplitMix64, Vector

SOURCE = Path(__file__).parent / "reference" / "arithmetic" / "elementary.c"

Input = Mapping[str, Any]  # JSON, different for each operation
Spelled = dict[str, list[int] | list[str] | str]


@dataclass(frozen=True)
class Functions:
    """The two elementary functions of the model, for one double each."""

    exp: Function
    log1p: Function


@dataclass(frozen=True)
class Tools:
    """What an operation may use besides its input: elementary functions, and the matrices that the suite ships."""

    functions: Functions
    shipped: list[Matrix]


def compiled_functions(folder: Path) -> Functions | None:
    """Compile `elementary.c` into `folder` and return exp and log1p; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = folder / "elementary.so"
    options = ["-O2", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", str(library), str(SOURCE)], check=True)
    loaded = ctypes.CDLL(str(library))
    return Functions(_scalar(loaded, "exp_array"), _scalar(loaded, "log1p_array"))


def _scalar(library: ctypes.CDLL, name: str) -> Function:
    over_array = library[name]
    argument, result = ctypes.c_double(), ctypes.c_double()
    places = ctypes.byref(argument), ctypes.byref(result), ctypes.c_int64(1)

    def call(x: float) -> float:
        argument.value = x
        over_array(*places)
        return result.value

    return call


def read_safetensors(data: bytes) -> dict[str, tuple[list[int], list[int]]]:
    """Return shape and 32-bit patterns of each tensor: eight bytes of header length, a JSON header, the numbers."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors: dict[str, tuple[list[int], list[int]]] = {}
    for name, item in header.items():
        assert item["dtype"] == "F32"
        first, last = item["data_offsets"]
        content = data[8 + length + first : 8 + length + last]
        tensors[name] = item["shape"], list(struct.unpack(f"<{len(content) // 4}I", content))
    return tensors


def shipped_matrices(data: bytes) -> list[Matrix]:
    """Return the matrices of the suite's weights in registry order."""
    tensors = read_safetensors(data)
    matrices: list[Matrix] = []
    for name in ("embedding", "ffn.gate", "ffn.up", "ffn.down", "output"):
        (_, columns), patterns = tensors[f"ngram.{name}.weight"]
        values = list(struct.unpack(f"<{len(patterns)}f", struct.pack(f"<{len(patterns)}I", *patterns)))
        matrices.append(_matrix(values, columns))
    return matrices


def second_answer(operation: str, given: Input, tools: Tools) -> Spelled:
    """Return the answer to one case."""
    return OPERATIONS[operation](given, tools)


def _bpe_train(given: Input, _: Tools) -> Spelled:
    merges = replica.fit_merges([bytes.fromhex(text) for text in given["documents"]], given["merges"])
    return {"ids": [token for pair in merges for token in pair]}


def _bpe_encode(given: Input, _: Tools) -> Spelled:
    return {"ids": replica.encode(bytes.fromhex(given["bytes"]), [tuple(pair) for pair in given["pairs"]])}


def _spelled(given: Input) -> dict[int, str]:
    spelled = {byte + 2: f"{byte:02x}" for byte in range(256)}
    for rank, (left, right) in enumerate(given["pairs"]):
        spelled[258 + rank] = spelled[left + 2] + spelled[right + 2]
    return spelled


def _bpe_decode(given: Input, _: Tools) -> Spelled:
    spelled = _spelled(given)
    return {"text": "".join(spelled[token] for token in given["ids"])}


def _bpe_encode_special(given: Input, _: Tools) -> Spelled:
    """Cut the text at allowed names, which is enough where none of them begins within another."""
    pairs, ids = [(left, right) for left, right in given["pairs"]], {n["spelled"]: n["id"] for n in given["special"]}
    pieces: list[bytes | int] = [bytes.fromhex(given["bytes"])]
    for name in given["allowed"]:
        cut: list[bytes | int] = []
        for piece in pieces:
            if isinstance(piece, int):
                cut.append(piece)
                continue
            first, *rest = piece.split(bytes.fromhex(name))
            cut.append(first)
            for text in rest:
                cut += [ids[name], text]
        pieces = cut
    found: list[int] = []
    for piece in pieces:
        found += [piece] if isinstance(piece, int) else replica.encode(piece, pairs)
    return {"ids": found}


def _bpe_decode_stream(given: Input, _: Tools) -> Spelled:
    """Count bytes by the first one of each character, which is enough for text that is only cut off at its end."""
    spelled, held, pieces = _spelled(given), "", []
    for token in given["ids"]:
        held, whole = held + spelled[token], ""
        while held and len(held) >= 2 * _bytes_of_character(int(held[:2], 16)):
            length = 2 * _bytes_of_character(int(held[:2], 16))
            whole, held = whole + held[:length], held[length:]
        pieces.append(whole or "-")
    return {"text": " ".join([*pieces, "efbfbd" if held else "-"])}


def _bytes_of_character(first: int) -> int:
    """Return how many bytes a character has: one, or as many as its first byte has ones at its upper end."""
    return 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def _places(given: Input) -> list[tuple[int, int]]:
    context, stride = given["context"], given.get("stride", 1)
    places: list[tuple[int, int]] = []
    for number, tokens in enumerate(given["documents"]):
        start = 0
        while start + context + 1 <= len(tokens):
            places.append((number, start))
            start += stride
    return places


def _windows(given: Input, _: Tools) -> Spelled:
    context, ids = given["context"], []
    for number, start in _places(given):
        tokens = given["documents"][number]
        ids += tokens[start : start + context] + tokens[start + 1 : start + context + 1]
    return {"ids": ids}


def _shuffled(given: Input, _: Tools) -> Spelled:
    places = _places(given)
    return {"ids": [number for visited in replica.plan(len(places), given["seed"]) for number in places[visited]]}


def _below(given: Input, _: Tools) -> Spelled:
    generator = SplitMix64(given["seed"])
    return {"ids": [replica.below(generator.draw, given["bound"]) for _ in range(given["draws"])]}


def _xavier(given: Input, _: Tools) -> Spelled:
    generator = SplitMix64(given["seed"])
    return _values(
        [value for shape in given["shapes"] for row in replica.draw_matrix(generator, *shape) for value in row]
    )


def _elementary(given: Input, tools: Tools) -> Spelled:
    function: Function = getattr(tools.functions, given["function"])
    return _values([function(x) for x in _doubles(given["arguments"])])


def _forward(given: Input, tools: Tools) -> Spelled:
    rows = [replica.forward(_model(given, tools), context, tools.functions.exp) for context in given["contexts"]]
    return _values([value for row in rows for value in getattr(row, given["stage"])])


def _greedy(given: Input, tools: Tools) -> Spelled:
    model = _model(given, tools)
    ids, _ = replica.greedy(model, given["prompt"], given["limit"], tools.functions.exp, given["masked"])
    return {"ids": ids}


def _argmax(given: Input, _: Tools) -> Spelled:
    logits = _doubles(given["logits"])
    allowed = [token for token in range(len(logits)) if token not in given["masked"]]
    return {"ids": [max(allowed, key=lambda token: (logits[token], -token))]}


def _mean_nll(given: Input, tools: Tools) -> Spelled:
    rows = [_doubles(row) for row in given["logits"]]
    return _values([replica.mean_loss(rows, given["targets"], tools.functions.exp, tools.functions.log1p)])


def _gradients(given: Input, tools: Tools) -> Spelled:
    scored = [(tuple(window[:-1]), window[-1]) for window in given["windows"]]
    functions = tools.functions
    _, gradients = replica.loss_and_gradients(_model(given, tools), scored, functions.exp, functions.log1p)
    return _values([value for row in gradients[given["parameter"]] for value in row])


def _evaluate(given: Input, tools: Tools) -> Spelled:
    scored = [window for tokens in given["documents"] for window in replica.windows(tokens, given["context"])]
    functions = tools.functions
    return _values([replica.evaluate(_model(given, tools), scored, given["batch"], functions.exp, functions.log1p)])


def _adamw(given: Input, _: Tools) -> Spelled:
    rate, beta1, beta2 = (_double(given[name]) for name in ("learning_rate", "beta1", "beta2"))
    optimizer = replica.AdamW(rate, beta1, beta2, _double(given["epsilon"]), _double(given["weight_decay"]))
    parameters = [[_doubles(given["weights"])]]
    for gradient in given["gradients"]:
        parameters = optimizer.step(parameters, [[_doubles(gradient)]])
    return _values(parameters[0][0])


OPERATIONS: Mapping[str, Callable[[Input, Tools], Spelled]] = {
    "bpe.train": _bpe_train,
    "bpe.encode": _bpe_encode,
    "bpe.decode": _bpe_decode,
    "bpe.encode-special": _bpe_encode_special,
    "bpe.decode-stream": _bpe_decode_stream,
    "windows.list": _windows,
    "batches.shuffled": _shuffled,
    "splitmix.below": _below,
    "init.xavier": _xavier,
    "arithmetic.elementary": _elementary,
    "ngram.forward": _forward,
    "ngram.greedy": _greedy,
    "ngram.gradients": _gradients,
    "ngram.evaluate": _evaluate,
    "logits.argmax": _argmax,
    "logits.mean-nll": _mean_nll,
    "adamw.run": _adamw,
}


def _model(given: Input, tools: Tools) -> list[Matrix]:
    if isinstance(given["weights"], str):
        return tools.shipped
    vocabulary, _, width, hidden = given["sizes"]
    columns = (width, hidden, hidden, hidden, vocabulary)
    return [_matrix(_doubles(flat), count) for flat, count in zip(given["weights"], columns, strict=True)]


def _matrix(flat: Vector, columns: int) -> Matrix:
    return [flat[start : start + columns] for start in range(0, len(flat), columns)]


def _double(digits: str) -> float:
    (value,) = struct.unpack(">d", bytes.fromhex(digits))
    return float(value)


def _doubles(digits: Sequence[str]) -> Vector:
    return [_double(text) for text in digits]


def _values(doubles: Sequence[float]) -> Spelled:
    return {"values": [struct.pack(">d", value).hex() for value in doubles]}
