"""`evaluate`: pieces of tokens on the way there, logits and stages on the way back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from cai_conformance.engines.errors import AnswerOutOfShape
from cai_conformance.engines.protocol import Evaluated, Piece
from cai_conformance.serving.errors import ProtocolViolation
from cai_conformance.serving.fields import Fields, items
from cai_conformance.serving.limits import LARGEST
from cai_conformance.serving.lines import Json, Object
from cai_conformance.serving.tensors import TensorReader, TensorWriter


def write_pieces(pieces: Sequence[Piece], *, observe: bool) -> dict[str, Json]:
    """Return what `evaluate` asks."""
    return {
        "pieces": [
            {
                "slot": piece.slot,
                "position": piece.position,
                "tokens": list(piece.tokens),
                "wanted": list(piece.wanted),
            }
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
        AnswerOutOfShape: logits have another number of axes or rows than was asked for, or other heads or vocabulary
            than before.
    """
    for piece, answer in zip(pieces, answers, strict=True):
        shape = answer.logits.shape
        heads, vocabulary = known if known is not None else ("heads", "vocabulary")
        fits = len(shape) == 3 and min(shape[0], shape[2]) > 0 and shape[1] == len(piece.wanted)
        if not fits or (known is not None and (shape[0], shape[2]) != known):
            raise AnswerOutOfShape(
                engine, f"logits of the shape {list(shape)}", f"[{heads}, {len(piece.wanted)}, {vocabulary}]"
            )
        known = (shape[0], shape[2])
    if known is None:
        raise AnswerOutOfShape(engine, "nothing", "logits")
    return known
