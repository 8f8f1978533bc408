"""Tensors as they travel: format, shape, and bytes in the line or in a file.

`evaluate`: pieces of tokens on the way there, logits and stages on the way back.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.lines import Json, Object
from cai_conformance.backends.serve.messages import Fields, items, violation
from cai_conformance.backends.serve.process import ANSWER_BYTES, AXES, INLINE_BYTES, LARGEST, TENSOR_BYTES
from cai_conformance.backends.serve.scratch import ScratchWriter, read_slice
from cai_conformance.engine import PRECISIONS, EngineError, Evaluated, Piece
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.bits import little_endian_bytes

WIDTHS: Final = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of a number in each format."""

_INLINE_TOTAL: Final = 4 << 20
"""How many bytes of tensors this side puts into one line; the rest goes to a file."""


class TensorReader:
    """Reads the tensors of one answer, and keeps count of how large they are together."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._left = ANSWER_BYTES

    def read(self, value: Json, what: str) -> Array:
        """Return a tensor, widened to float64; NaN and infinities are what they are.

        Raises:
            ProtocolViolation: keys, format, shape, size, bytes or digest are not as the protocol says.
        """
        inline = isinstance(value, dict) and "data" in value
        fields = Fields(value, what, "dtype shape data" if inline else "dtype shape file offset sha256")
        dtype = fields.one_of("dtype", PRECISIONS)
        shape = fields.integers("shape")
        size = _size(shape, WIDTHS[dtype], what)
        self._left -= size
        if self._left < 0:
            raise ProtocolViolation(what, f"makes the tensors of the answer larger than {ANSWER_BYTES} bytes")
        data = _inline(fields, size) if inline else self._from_file(fields, size)
        return _widened(data, dtype).reshape(shape)

    def read_named(self, value: list[Json], what: str) -> dict[str, Array]:
        """Return a list of named tensors, in order."""
        found: dict[str, Array] = {}
        for place, item in enumerate(value):
            fields = Fields(item, f"entry {place} of {what}", "name value")
            name = fields.text("name")
            if name in found:
                raise ProtocolViolation(what, f"has {name!r} twice")
            found[name] = self.read(fields["value"], f"{name!r} of {what}")
        return found

    def _from_file(self, fields: Fields, size: int) -> bytes:
        digest = fields.text("sha256")
        data = read_slice(self._scratch, fields.text("file"), fields.integer("offset"), size)
        found = hashlib.sha256(data).hexdigest()
        if digest.lower() != found:
            raise ProtocolViolation(fields.what, f"has bytes of another sha256 than it states: {found}")
        return data


class TensorWriter:
    """Writes the tensors of one answer as float64, small ones into the line."""

    def __init__(self, files: ScratchWriter) -> None:
        self._files = files
        self._left = _INLINE_TOTAL

    def write(self, value: Array) -> dict[str, Json]:
        """Return a tensor as it travels."""
        array = np.asarray(value)
        data = little_endian_bytes(array)
        written: dict[str, Json] = {"dtype": "float64", "shape": list(array.shape)}
        if len(data) <= min(INLINE_BYTES, self._left):
            self._left -= len(data)
            return {**written, "data": base64.b64encode(data).decode("ascii")}
        name, offset = self._files.add(data)
        return {**written, "file": name, "offset": offset, "sha256": hashlib.sha256(data).hexdigest()}

    def write_named(self, values: Mapping[str, Array]) -> list[Json]:
        """Return named tensors, in order."""
        return [{"name": name, "value": self.write(value)} for name, value in values.items()]


def _size(shape: tuple[int, ...], width: int, what: str) -> int:
    if len(shape) > AXES:
        raise ProtocolViolation(what, f"has {len(shape)} axes; the limit is {AXES}")
    size = width
    for length in shape:
        # Of an empty tensor the other axes count, too: no library can hold any shape that JSON can write.
        size *= max(length, 1)
    if size > TENSOR_BYTES:
        raise ProtocolViolation(what, f"has the shape {list(shape)}; the limit is {TENSOR_BYTES} bytes")
    return 0 if 0 in shape else size


def _inline(fields: Fields, size: int) -> bytes:
    value = fields["data"]
    if not isinstance(value, str):
        raise violation(fields.label("data"), value, "a text in base 64")
    if size > INLINE_BYTES:
        raise ProtocolViolation(fields.what, f"has {size} bytes in the line; beyond {INLINE_BYTES} it stands in a file")
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ProtocolViolation(fields.label("data"), f"is not base 64: {error}") from None
    if len(data) != size:
        raise ProtocolViolation(fields.label("data"), f"has {len(data)} bytes where shape and format need {size}")
    return data


def _widened(data: bytes, dtype: str) -> Array:
    if dtype == "bfloat16":
        # A bfloat16 is the upper half of a float32.
        wide = np.frombuffer(data, "<u2").astype("<u4") << np.uint32(16)
        return _to_float64(wide.view("<f4"))
    return _to_float64(np.frombuffer(data, {"float64": "<f8", "float32": "<f4", "float16": "<f2"}[dtype]))


def _to_float64(values: np.ndarray[tuple[int], np.dtype[np.floating]]) -> Array:
    # A signalling NaN is as good as another one.
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def write_pieces(pieces: Sequence[Piece], *, observe: bool) -> dict[str, Json]:
    """Return what `evaluate` asks."""
    return {
        "pieces": [
            {"slot": piece.slot, "position": piece.position, "tokens": list(piece.tokens), "wanted": list(piece.wanted)}
            for piece in pieces
        ],
        "observe": observe,
    }


def read_pieces(message: Object, slots: int) -> tuple[tuple[Piece, ...], bool]:
    """Read what `evaluate` asks of an engine with so many slots."""
    fields = Fields(dict(message), "the message", "id do seconds pieces observe")
    found = fields.items("pieces", 1)
    pieces = tuple(_piece(value, f"piece {place}", slots) for place, value in enumerate(found))
    if len({piece.slot for piece in pieces}) != len(pieces):
        raise ProtocolViolation("the message", "has two pieces for one slot")
    return pieces, fields.flag("observe")


def _piece(value: Json, what: str, slots: int) -> Piece:
    fields = Fields(value, what, "slot position tokens wanted")
    tokens = fields.integers("tokens", least=1)
    wanted = fields.integers("wanted", 0, len(tokens) - 1)
    if any(a >= b for a, b in pairwise(wanted)):
        raise ProtocolViolation(fields.label("wanted"), "does not ascend")
    return Piece(fields.integer("slot", 0, slots - 1), fields.integer("position", 0, LARGEST), tokens, wanted)


def write_evaluated(answers: Sequence[Evaluated], tensors: TensorWriter) -> dict[str, Json]:
    """Return the answer to `evaluate`."""
    return {
        "answers": [
            {"logits": tensors.write(answer.logits), "stages": tensors.write_named(answer.stages)} for answer in answers
        ]
    }


def read_evaluated(
    answer: Json, pieces: Sequence[Piece], tensors: TensorReader, *, observe: bool
) -> tuple[Evaluated, ...]:
    """Read the answer to `evaluate`; shapes are compared with what was asked by `check_shapes`."""
    fields = Fields(answer, "the answer to evaluate", "answers")
    found = items(fields["answers"], fields.label("answers"), len(pieces), len(pieces))
    return tuple(_evaluated(value, f"answer {place}", tensors, observe=observe) for place, value in enumerate(found))


def _evaluated(value: Json, what: str, tensors: TensorReader, *, observe: bool) -> Evaluated:
    fields = Fields(value, what, "logits stages")
    logits = tensors.read(fields["logits"], fields.label("logits"))
    stages = tensors.read_named(fields.items("stages"), fields.label("stages"))
    if stages and not observe:
        raise ProtocolViolation(fields.label("stages"), "is filled, and nobody asked to observe")
    return Evaluated(logits, stages)


def check_shapes(
    engine: str, answers: Sequence[Evaluated], pieces: Sequence[Piece], known: tuple[int, int] | None
) -> tuple[int, int]:
    """Return how many heads and how large a vocabulary the logits have: the same everywhere, and as `known` if given.

    Raises:
        EngineError (answer-out-of-shape): logits have another number of axes or rows than was asked for, or other heads
            or vocabulary
            than before.
    """
    for piece, answer in zip(pieces, answers, strict=True):
        shape = answer.logits.shape
        heads, vocabulary = known if known is not None else ("heads", "vocabulary")
        fits = len(shape) == 3 and min(shape[0], shape[2]) > 0 and shape[1] == len(piece.wanted)
        if not fits or (known is not None and (shape[0], shape[2]) != known):
            raise EngineError(
                "answer-out-of-shape",
                engine=engine,
                found=f"logits of the shape {list(shape)}",
                wanted=f"[{heads}, {len(piece.wanted)}, {vocabulary}]",
            )
        known = (shape[0], shape[2])
    if known is None:
        raise EngineError("answer-out-of-shape", engine=engine, found="nothing", wanted="logits")
    return known
