"""Strict reading without a process: lines, tensors, files, and what a program says of itself."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from cai_conformance.backends.serve import tensors as tensors_module
from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.lines import Json, format_line, parse_line
from cai_conformance.backends.serve.messages import read_description, write_description
from cai_conformance.backends.serve.streams import printable
from cai_conformance.backends.serve.tensors import TensorReader
from cai_conformance.backends.serve.training_messages import check_generated, check_tensors
from cai_conformance.engine import EngineError, Generated, GenerationOrder
from support_refusals import refuses
from support_serving_engine import DESCRIPTION


def inline(data: bytes, dtype: str, *shape: int) -> dict[str, Json]:
    """Return a tensor that stands in the line."""
    return {"dtype": dtype, "shape": list(shape), "data": base64.b64encode(data).decode()}


def filed(data: bytes, name: str, *shape: int, offset: int = 0) -> dict[str, Json]:
    """Return a tensor of float64 that stands in a file."""
    digest = hashlib.sha256(data).hexdigest()
    return {"dtype": "float64", "shape": list(shape), "file": name, "offset": offset, "sha256": digest}


class TestLines:
    """What other readers of JSON might let pass."""

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            (b"\xff{}", "it is not UTF-8 at byte 0"),
            ("\ufeff{}".encode(), "begins with a byte-order mark"),
            (b"", "is no message: it is not JSON at line 1 column 1 (Expecting value)"),
            (b'{"id": 1', "it is not JSON at line 1 column 9 (Expecting ',' delimiter)"),
            (b'{"id": 1} {"id": 2}', "it is not JSON at line 1 column 11 (Extra data)"),
            (b'{"id": 01}', "it is not JSON"),
            (b"{'id': 1}", "it is not JSON"),
            (b"7", "is not an object"),
            (b'{"a": ' * 33 + b"1" + b"}" * 33, "is nested deeper than 32"),
            (b"[" * 1_000_000, "is nested deeper than 32"),
            (b'{"id": 1' + b"0" * 5000 + b"}", "has 5001 digits; beyond 2^53 it is a string of bits"),
            (b'{"id": 1.0}', "1.0 is no integer; a real number is a string of sixteen hex digits"),
            (b'{"id": 1e3}', "1e3 is no integer"),
            (b'{"id": -Infinity}', "-Infinity is no integer; a real number is"),
            (b'{"a": {"id": 1, "x": 2, "id": 1}}', "duplicate key 'id'"),
            (rb'{"a": "\ud800"}', "a string holds a lone surrogate"),
            (rb'{"a": {"\udc00": []}}', "a string holds a lone surrogate"),
        ],
    )
    def test_is_refused(self, line: bytes, problem: str) -> None:
        """With the beginning of the line."""
        with pytest.raises(ProtocolViolation) as caught:
            parse_line(line)
        assert problem in str(caught.value)
        assert len(str(caught.value)) < 400

    def test_brackets_in_texts_nest_nothing(self) -> None:
        """Nor do quotes behind a backslash."""
        text = "[{" * 100 + '"\\'
        assert {"a": text, "b": [[1]]} == parse_line(json.dumps({"a": text, "b": [[1]]}).encode())
        assert 32 == _depth(parse_line(b'{"a": ' * 32 + b"1" + b"}" * 32))

    def test_a_line_comes_back(self) -> None:
        """Whatever characters it has; a pair of surrogates is one of them."""
        message: dict[str, Json] = {"id": 1, "text": "é€😀\n\x00", "list": [None, True, -3]}
        line = format_line(message)
        assert line.endswith(b"}\n")
        assert line.isascii()
        assert message == parse_line(line[:-1])

    def test_a_line_that_would_be_too_long(self) -> None:
        """It is not sent."""
        with pytest.raises(ProtocolViolation, match="the limit is 16777216"):
            format_line({"id": 1, "text": "x" * (16 << 20)})

    def test_what_is_shown_cannot_move_a_cursor(self) -> None:
        """Nor break a line, nor turn the direction of a text."""
        assert "a�[2Jb c�d�" == printable("a\x1b[2Jb\tc\nd\u202e")


class TestFormats:
    """Tensors in four formats, widened to float64."""

    def test_bfloat16(self) -> None:
        """The upper half of a float32, with its infinities and NaN."""
        halves = [0x3F80, 0xC049, 0x0001, 0x7F80, 0xFF80, 0x7F81, 0x8000]
        found = TensorReader(Path()).read(inline(struct.pack("<7H", *halves), "bfloat16", 7), "x").tolist()
        assert [1.0, -3.140625, 2.0**-133, math.inf, -math.inf] == found[:5]
        assert math.isnan(found[5])
        assert "-0.0" == str(found[6])

    @pytest.mark.parametrize(
        ("dtype", "letter", "values"),
        [
            ("float16", "e", [1.0, 65504.0, 2.0**-24]),
            ("float32", "f", [1.0, 2.0**-149, 3.4028234663852886e38]),
            ("float64", "d", [0.1, 5e-324, 1.7976931348623157e308]),
        ],
    )
    def test_others(self, dtype: str, letter: str, values: list[float]) -> None:
        """Every value is held exactly."""
        found = TensorReader(Path()).read(inline(struct.pack(f"<3{letter}", *values), dtype, 1, 3), "x")
        assert [values] == found.tolist()
        assert np.dtype(np.float64) == found.dtype

    def test_no_axes_and_no_numbers(self) -> None:
        """One number; none at all."""
        assert 2.5 == TensorReader(Path()).read(inline(struct.pack("<d", 2.5), "float64"), "x").item()
        assert (2, 0, 3) == TensorReader(Path()).read(inline(b"", "float32", 2, 0, 3), "x").shape


class TestTensors:
    """What is no tensor."""

    @pytest.mark.parametrize(
        ("tensor", "problem"),
        [
            (7, "x is 7, not an object"),
            ({"dtype": "float64", "shape": []}, "x has no 'file'"),
            ({**inline(b"", "float64", 0), "file": "a"}, "has the key 'file', which the protocol does not know"),
            (inline(b"", "int8", 0), "is 'int8', not one of float64, float32, bfloat16, float16"),
            (inline(bytes(8), "float64", 2), "'data' of x has 8 bytes where shape and format need 16"),
            (inline(bytes(17), "float64", 2), "has 17 bytes where"),
            ({"dtype": "float64", "shape": [1], "data": "AAAAAAAAAA*="}, "'data' of x is not base 64"),
            ({"dtype": "float64", "shape": [1], "data": "AAAAAAAAAAA=\n"}, "'data' of x is not base 64"),
            ({"dtype": "float64", "shape": [1], "data": 8}, "'data' of x is 8, not a text in base 64"),
            (inline(b"", "float64", -1), "entry 0 of 'shape' of x is -1, not an integer from 0"),
            (inline(b"", "float64", 2**40, 2**40), "has the shape [1099511627776, 1099511627776]; the limit is"),
            (inline(b"", "float64", 0, 2**53), "the limit is 268435456 bytes"),
            (inline(b"", "float64", *[1] * 9), "has 9 axes; the limit is 8"),
            (inline(bytes(65544), "float64", 8193), "has 65544 bytes in the line; beyond 65536 it stands in a file"),
            ({"dtype": "float64", "shape": [True], "data": ""}, "entry 0 of 'shape' of x is True, not an integer"),
            ({"dtype": "float64", "shape": 3, "data": ""}, "'shape' of x is 3, not a list"),
        ],
    )
    def test_is_refused(self, tensor: Json, problem: str) -> None:
        """Before any memory is taken for it."""
        with pytest.raises(ProtocolViolation) as caught:
            TensorReader(Path()).read(tensor, "x")
        assert problem in str(caught.value)

    def test_all_of_an_answer_have_a_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However small each is."""
        monkeypatch.setattr(tensors_module, "ANSWER_BYTES", 20)
        reader = TensorReader(Path())
        reader.read(inline(bytes(16), "float64", 2), "first")
        with pytest.raises(ProtocolViolation, match="second makes the tensors of the answer larger than 20 bytes"):
            reader.read(inline(bytes(8), "float64", 1), "second")

    def test_a_name_stands_once(self) -> None:
        """In a list of tensors."""
        named: Json = {"name": "w", "value": inline(bytes(8), "float64", 1)}
        with pytest.raises(ProtocolViolation, match="the list has 'w' twice"):
            TensorReader(Path()).read_named([named, named], "the list")


class TestFiles:
    """A tensor's file stands below `scratch`, and is what it says."""

    @pytest.fixture
    def scratch(self, tmp_path: Path) -> Path:
        """A folder with a file of three doubles, and a secret outside."""
        folder = tmp_path / "scratch"
        (folder / "inner").mkdir(parents=True)
        (folder / "rows.bin").write_bytes(struct.pack("<3d", 1.0, 2.0, 3.0))
        (tmp_path / "secret").write_bytes(bytes(8))
        (folder / "link").symlink_to(tmp_path / "secret")
        (folder / "own-link").symlink_to("rows.bin")
        (folder / "out").symlink_to(tmp_path, target_is_directory=True)
        if hasattr(os, "mkfifo"):
            os.mkfifo(folder / "pipe")
        return folder

    def test_a_slice(self, scratch: Path) -> None:
        """From its offset, as long as shape and format say."""
        tensor = filed(struct.pack("<2d", 2.0, 3.0), "rows.bin", 2, offset=8)
        assert [2.0, 3.0] == TensorReader(scratch).read(tensor, "x").tolist()

    def test_scratch_may_stand_behind_a_link(self, scratch: Path) -> None:
        """As temporary folders do on some systems."""
        (scratch.parent / "other").symlink_to(scratch, target_is_directory=True)
        tensor = filed(struct.pack("<d", 1.0), "rows.bin", 1)
        assert [1.0] == TensorReader(scratch.parent / "other").read(tensor, "x").tolist()

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"file": "../secret"}, "is no name below the folder 'scratch'"),
            ({"file": "inner/../../secret"}, "is no name below"),
            ({"file": "/etc/hostname"}, "is no name below"),
            ({"file": "a\0b"}, "is no name below"),
            ({"file": "."}, "is no name below"),
            ({"file": "link"}, "is reached through a link"),
            ({"file": "own-link"}, "is reached through a link"),
            ({"file": "out/secret"}, "is reached through a link"),
            ({"file": "missing"}, "cannot be read: No such file or directory"),
            ({"file": "rows.bin/more"}, "cannot be read: Not a directory"),
            ({"file": "inner"}, "is no plain file"),
            ({"file": "pipe"}, "is no plain file"),
            ({"offset": 24}, "has 24 bytes; 8 from 24 on were announced"),
            ({"shape": [4]}, "has 24 bytes; 32 from 0 on were announced"),
            ({"offset": -8}, "'offset' of x is -8, not an integer from 0"),
            ({"sha256": "0" * 64}, "has bytes of another sha256 than it states"),
            ({"file": ""}, "'file' of x is '', not a text"),
        ],
    )
    def test_is_refused(self, scratch: Path, changes: dict[str, Json], problem: str) -> None:
        """Without reading what is elsewhere, and without waiting for anybody."""
        tensor: Json = {**filed(struct.pack("<d", 1.0), "rows.bin", 1), **changes}
        with pytest.raises(ProtocolViolation) as caught:
            TensorReader(scratch).read(tensor, "x")
        assert problem in str(caught.value)


class TestDescriptions:
    """What a program says of itself must go together."""

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"protocol": "2"}, "'protocol' of the answer to start is '2', not '1'"),
            ({"features": ["fly"]}, "'fly' among the features is 'fly', not one of drop, copy"),
            ({"features": ["drop", "drop"]}, "has an entry twice"),
            ({"features": "drop"}, "is 'drop', not a list"),
            ({"features": []}, "names arms without the feature generate"),
            ({"colour": "red"}, "has the key 'colour', which the protocol does not know"),
            ({"arithmetic": "float32"}, "is 'float32', not bfloat16, the coarsest of its formats"),
            ({"arithmetic": "strict/1"}, "is 'strict/1', not bfloat16"),
            ({"precision": {"weights": "float64"}}, "has no 'activations'"),
            ({"precision": "float64"}, "is 'float64', not an object"),
            ({"precisions": ["bfloat16", "float16"]}, "does not have the finest format first: float16, bfloat16"),
            ({"nondeterminism": "sometimes"}, "is 'sometimes', not one of none, shape, batch, run"),
            ({"slots": 0}, "'slots' of the answer to start is 0, not an integer from 1"),
            ({"slots": True}, "is True, not an integer"),
            ({"name": ""}, "is '', not a text"),
            ({"name": "x" * 5000}, "not a text of 1 to 4096 characters"),
        ],
    )
    def test_is_refused(self, changes: dict[str, Json], problem: str) -> None:
        """With the key, and what was wanted there."""
        with pytest.raises(ProtocolViolation) as caught:
            read_description({**write_description(DESCRIPTION), **changes})
        assert problem in str(caught.value)

    def test_a_defined_arithmetic(self) -> None:
        """In double precision throughout, it may be named instead of the format."""
        precision: Json = dict.fromkeys(("weights", "activations", "cache", "accumulation", "logits"), "float64")
        for name in ("strict/1", "libm/1", "float64"):
            answer = {**write_description(DESCRIPTION), "precision": precision, "arithmetic": name}
            assert name == read_description(answer).arithmetic


class TestWhatWasAsked:
    """An answer that is well formed, and not to the question."""

    @pytest.mark.parametrize(
        ("generated", "problem"),
        [
            (Generated((1, 2, 3, 4)), "answered 4 ids where at most 3 was asked for"),
            (Generated((1, 9, 2)), "answered ids behind the stop 9 where an end there"),
            (Generated((1, 9)), "answered 0 steps of 0 likely ids where 2 of 2"),
            (Generated((1,), (((1, 0.0), (2, 0.0), (3, 0.0)),)), "1 steps of 3 likely ids"),
            (Generated((1, 9), (((1, 0.0),), ())), "2 steps of 0, 1 likely ids"),
        ],
    )
    def test_a_generation(self, generated: Generated, problem: str) -> None:
        """Too much, too far, or without what was wanted."""
        with refuses(EngineError, "answer-out-of-shape") as caught:
            check_generated("it", generated, GenerationOrder((0,), 3, "cached", 9, 2))
        assert problem in str(caught.value)

    def test_a_small_vocabulary(self) -> None:
        """It has fewer likely ids than were asked for; nothing asked for is nothing."""
        check_generated("it", Generated((1, 9), (((1, 0.0),), ((9, 0.0),))), GenerationOrder((0,), 3, "cached", 9, 2))
        check_generated("it", Generated((1, 2)), GenerationOrder((0,), 2))

    def test_tensors_of_the_model(self) -> None:
        """Another name, another shape."""
        check_tensors("it", {"w": np.zeros((2, 3))}, {"w": (2, 3), "b": (1,)})
        with refuses(EngineError, "answer-out-of-shape", match="a tensor 'v' where those of the model file"):
            check_tensors("it", {"v": np.zeros(1)}, {"w": (2, 3)})
        with refuses(EngineError, "answer-out-of-shape", match=r"'w' of the shape \[3, 2\] where \[2, 3\]"):
            check_tensors("it", {"w": np.zeros((3, 2))}, {"w": (2, 3)})


def _depth(value: Json) -> int:
    return 1 + _depth(value["a"]) if isinstance(value, dict) else 0
