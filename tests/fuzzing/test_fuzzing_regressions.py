"""What the fuzzer found once: the bytes, made small, and the sentence that a reader sees now."""

from __future__ import annotations

import json
import pickle
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from cai_conformance import strict_json
from cai_conformance.backends.engine.files import read_folder
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.errors import GoldenError, InputError, SelectionError
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES, sizes_for
from cai_conformance.fixtures.given_weights import native_values, read_given
from cai_conformance.fixtures.goldens import ledger
from cai_conformance.fixtures.vectors import read_vectors
from cai_conformance.report.expectations import ExpectationError, load_expectations
from cai_conformance.run.questions import compile_expression
from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_course.checkpoint import read_course_checkpoint
from cai_course.errors import CourseCheckpointError
from cai_neural_api.errors import ExchangeError, NetFormatError, NetInputError
from cai_neural_api.exchange import parse_bare_weights, parse_weights
from cai_neural_api.format import parse_net
from cai_neural_api.format.numbers import problem_of as problem_of_number
from cai_neural_api.verify.samples import parse_sample
from cai_reference.checkpoints.errors import CheckpointError
from cai_reference.checkpoints.saved import read_checkpoint
from cai_reference.models.decoder import DecoderConfiguration, SsmSpec
from cai_reference.text.errors import CorpusError
from cai_reference.training.errors import TrainingError
from cai_reference.training.model_kinds import least_weights, new_model
from fuzzing.targets.tensors import configured
from fuzzing.targets.traces import golden_ngram
from support_course_checkpoints import descriptor_at, spliced
from support_refusals import refuses
from support_resumable import rewritten, saved

SIGNALLING = b"\x00\x00\xa0\x7f"
"""A signalling NaN of single precision, at whose conversion the processor raises a flag."""

NATIVE, HUGGING_FACE = (
    next(phase for phase in DECODE_PHASES if phase.suite == suite) for suite in ("cai.grouped-hybrid", "llama.dense")
)


def tensor_file(name: str, data: bytes, *shape: int, numbers: str = "F32") -> bytes:
    """Return a safetensors file of one tensor."""
    header = json.dumps({name: {"dtype": numbers, "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    return struct.pack("<Q", len(header)) + header + data


class TestGivenWeights:
    """The weights that a suite gives; readers saw `SafetensorError`, `KeyError` and warnings of NumPy."""

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"", "header too small"),
            (struct.pack("<Q", 1 << 63), "header too large"),
            (save({}), "it has no table of embeddings"),
            (tensor_file("embedding.weight", b"", 1 << 40, 0), "it has no table of embeddings"),
            (
                tensor_file("embedding.weight", b"\0" * 4, 1),
                "the tensor 'embedding.weight' has the shape [1], not [1, ",
            ),
            (tensor_file("embedding.weight", b"\0" * 4), "the tensor 'embedding.weight' has the shape [], not [1, "),
            (tensor_file("x.embedding", b"\0" * 4, 1), "it lacks the tensor 'embedding.weight'"),
            (
                tensor_file("embedding.weight", b"\0", 1, numbers="U8"),
                "the tensor 'embedding.weight' holds U8, not one",
            ),
        ],
    )
    def test_damaged_ones_are_named(self, data: bytes, problem: str) -> None:
        """A table of 2^40 rows without columns is not believed, either."""
        with refuses(InputError, "input-unreadable") as caught:
            read_given(NATIVE, sizes_for(NATIVE, "golden", 0), data)
        assert problem in str(caught.value)
        assert "weights.safetensors" == caught.value.fields["path"]

    def test_a_tensor_of_another_model(self) -> None:
        """Files of Llama models name their tensors."""
        with refuses(InputError, "input-unreadable", path="model.safetensors"):
            native_values(HUGGING_FACE, tensor_file("a", b"\0" * 4, 1))

    @pytest.mark.parametrize("phase", [NATIVE, HUGGING_FACE])
    def test_a_signalling_nan_is_a_nan(self, phase: object) -> None:
        """And no warning."""
        assert phase in (NATIVE, HUGGING_FACE)
        name = "model.norm.weight" if phase is HUGGING_FACE else "a"
        values = native_values(HUGGING_FACE if phase is HUGGING_FACE else NATIVE, tensor_file(name, SIGNALLING, 1))
        assert all(np.isnan(value).all() for value in values.values())

    def test_so_it_is_in_a_weights_file(self) -> None:
        """Where it is named."""
        tensors = {"embedding.weight": (13, 6), "hidden.bias": (9,), "hidden.weight": (6, 9), "output.bias": (13,)}
        tensors |= {"output.weight": (9, 13), "shift.mix": (6,)}
        data = save({name: np.ones(shape, np.float32) for name, shape in tensors.items()})
        with refuses(ExchangeError, "tensor-not-finite"):
            parse_bare_weights(data[:-4] + SIGNALLING, configured, "file")


class TestModelFolders:
    """Settings and weights of a model folder; readers saw `KeyError`, `TypeError` and `SafetensorError`."""

    LLAMA = (
        b'{"model": "llama", "vocabulary": 1, "context": 4, "width": 2, "heads": 1, "feed_forward": 1, "layers": 0, '
        b'"key_value_heads": null, "head_width": null, "window": null, "tied": true, "rope_base": 10000, '
        b'"rope_layout": "half-split", "rope_frequencies": "exponential", "epsilon": 1e-5, "norm": "inverse-root"}'
    )
    DECODER = (
        b'{"channels_per_group": null, "context": 1, "feed_forward": 1, "futures": 1, "heads": 1, "model": "decoder", '
        b'"mixers": [{"mixer": "diagonal-ssm"}], "rope_base": 1.0, "vocabulary": 1, "width": 1, "wiring": "sequential"}'
    )

    def refusal(self, folder: Path, settings: bytes, weights: bytes) -> str:
        """Return why a folder is refused; exactly ValueError, as promised."""
        (folder / "config.json").write_bytes(settings)
        for name in ("model.safetensors", "weights.safetensors"):
            (folder / name).write_bytes(weights)
        with pytest.raises(ValueError, match=r".") as caught:
            read_folder(folder)
        assert type(caught.value) is ValueError
        return str(caught.value)

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            (b"\xff", "not UTF-8 at byte 0"),
            (b"[", "not JSON at line 1"),
            (b"[]", "config.json is no object"),
            (b'{"hidden_size": 1}', "the settings lack 'vocab_size'"),
            (LLAMA.replace(b'"heads": 1', b'"heads": "a"'), "'heads' of the settings is 'a', not a whole number"),
            (LLAMA.replace(b'"width": 2', b'"width": 2.5'), "'width' of the settings is 2.5, not a whole number"),
            (LLAMA.replace(b'"tied": true', b'"tied": 1'), "'tied' of the settings is 1, not true or false"),
            (LLAMA.replace(b"10000", b"1e999"), "'rope_base' of the settings is inf, not a finite number"),
            (LLAMA.replace(b'"half-split"', b"[]"), "'rope_layout' of the settings is [], not one of "),
            (LLAMA.replace(b'"vocabulary": 1', b'"vocabulary": 2147483647'), "describes more weights than the 4 of"),
            (DECODER.replace(b'"vocabulary": 1', b'"vocabulary": 10000000000'), "the tensor 'embedding.weight' has"),
            (DECODER.replace(b"diagonal-ssm", b"a"), "a mixer is {'mixer': 'a'}, which is none"),
        ],
    )
    def test_settings_that_cannot_be_are_named(self, tmp_path: Path, settings: bytes, problem: str) -> None:
        """Without a model of the size that they claim."""
        name = "model.norm.weight" if b"hidden_size" in settings else "embedding.weight"
        weights = tensor_file(name, b"\0" * 16, 2, 2)
        assert problem in self.refusal(tmp_path, settings, weights)

    @pytest.mark.parametrize("settings", [LLAMA, DECODER])
    @pytest.mark.parametrize("weights", [b"", save({}), tensor_file("a", b"\0" * 40, 10)])
    def test_so_are_weights(self, tmp_path: Path, settings: bytes, weights: bytes) -> None:
        """Of both kinds of models."""
        problem = self.refusal(tmp_path, settings, weights)
        assert any(words in problem for words in ("header too small", "describes more weights", "tensors differ"))


class TestVectorsAndRequests:
    """What travels to a program; readers saw `JSONDecodeError`, `KeyError`, `TypeError` and `binascii.Error`."""

    CASE = b'{"cases": [{"case": "a", "check": "b", "operation": "c", "input": {}, "sees": "d", "expected": %s}]}'

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"\xff", "it is not UTF-8 at byte 0"),
            (b"", "it is not JSON"),
            (b"[]", "the file is not an object"),
            (b"{}", "the file lacks the key cases"),
            (b'{"cases": [1]}', "case 0 is not an object"),
            (CASE % b"null", "expected of case 0 is not an answer"),
            (CASE % b'{"ids": [true]}', "an id of case 0 is not an integer"),
            (CASE % b'{"ids": [1e3]}', "an id of case 0 is not an integer"),
            (CASE % (b'{"ids": [1%s]}' % (b"0" * 4000)), "an id of case 0 is not an integer"),
            (CASE % b'{"values": [0]}', "a value of case 0 is not sixteen hex digits"),
            (CASE % b'{"values": ["0"]}', "a value of case 0 is not sixteen hex digits"),
            (CASE % b'{"text": "", "ids": []}', "expected of case 0 is not an answer"),
        ],
    )
    def test_vectors(self, data: bytes, problem: str) -> None:
        """Of a file that is not ours."""
        with refuses(InputError, "input-unreadable") as caught:
            read_vectors(data)
        assert str(caught.value).startswith(f"'vectors.json' cannot be read: {problem}")

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"suite": 1}, "suite is not a text"),
            ({"corpus": "AB"}, "Incorrect padding"),
            ({"corpus": "\u00e9"}, "string argument should contain only ASCII characters"),
            ({"corpus": None}, "corpus is not a text"),
            ({"examples": -1}, "examples is not a count"),
            ({"examples": 10**4000}, "examples is not a count"),
            ({"more": 1}, "it has the unknown key more"),
        ],
    )
    def test_requests(self, changes: dict[str, object], problem: str) -> None:
        """Of another program."""
        whole = json.loads(TraceRequest("a", "b", "c", "d", b"", b"", b"", b"").to_json())
        with refuses(InputError, "input-unreadable", match=f"^'a request' cannot be read: .*{problem}"):
            TraceRequest.from_json(json.dumps(whole | changes))

    @pytest.mark.parametrize("line", ["", "[]", "\udcff", '{"suite": NaN}'])
    def test_what_is_no_request_at_all(self, line: str) -> None:
        """Nor JSON."""
        with refuses(InputError, "input-unreadable"):
            TraceRequest.from_json(line)


class TestCheckpoints:
    """Both kinds of checkpoints."""

    def test_a_record_with_very_many_axes(self) -> None:
        """Its number of bytes could not be printed; that raised `ValueError`."""
        axes = 300
        # Behind role, length of the name, name and kind of numbers stand the rank and its one length.
        place = descriptor_at("0", 1) + 1 + 4 + 1 + 1
        data = spliced(place, 4 + 8, struct.pack("<I", axes) + b"\xff" * 8 * axes)
        with refuses(CourseCheckpointError, "record-layout", match=r"it has 300 axes$"):
            read_course_checkpoint(data)

    def test_numbers_without_end_are_refused_where_they_stand(self) -> None:
        """The product of two could not be printed, either."""
        huge = 10**4000
        data = rewritten(saved("ngram", 0), lambda state: state["model"].update(vocabulary=huge, embedding=huge))  # type: ignore[attr-defined]
        with refuses(CheckpointError, "bad-description", match=r"vocabulary is 1000*…, not a whole number"):
            read_checkpoint(data)

    def test_a_value_without_end_is_not_told(self) -> None:
        """Only how it begins."""
        data = rewritten(saved("ngram", 0), lambda state: state["data"].update(digest="a" * 10_000))  # type: ignore[attr-defined]
        with refuses(CheckpointError, "bad-description") as caught:
            read_checkpoint(data)
        assert len(str(caught.value)) < 300

    def test_a_wide_decoder_of_many_futures_needs_its_weights(self) -> None:
        """The bound that is checked before a model is made counts all of its outputs."""
        sizes = DecoderConfiguration(1, 1, 100, 1, 1, (SsmSpec(),), futures=200)
        exact = sum(parameter.value.size for parameter in new_model(sizes).parameters)
        assert 30_000 < least_weights(sizes) <= exact
        whole = saved("grouped", 0)
        data = rewritten(whole, lambda state: state["model"].update(futures=10**12))  # type: ignore[attr-defined]
        with refuses(TrainingError, "state-too-small"):
            read_checkpoint(data)


class TestJson:
    """JSON of goldens and samples."""

    def test_half_of_a_character(self) -> None:
        """It could not be printed in a message; that raised `UnicodeEncodeError`."""
        with refuses(NetInputError, "sample-damaged", match=r"a string holds a lone surrogate$"):
            parse_sample(b'{"\\uda00":[{"row":[]}]}', "file")
        assert {"\U0001f98a": ["\\ud83e"]} == strict_json.parse(b'{"\\ud83e\\udd8a": ["\\\\ud83e"]}')

    def test_a_count_without_end(self) -> None:
        """It is none."""
        line = b'{"sequence": 1%s, "suite": "a", "suite_version": "1", "reason": "b", "files": {}}\n' % (b"0" * 4000)
        with refuses(GoldenError, "ledger-damaged", match=r"the sequence of line 1 is not a count\.?$"):
            ledger.read(line, "ledger")

    def test_keys_and_values_without_end(self) -> None:
        """Only how they begin is told."""
        for data in (b'{"%s": 1}' % (b"a" * 100_000), b'{"model": "%s"}' % (b"a" * 100_000)):
            weights = save({}, {"format": "cai-conform weights", "version": "1", "configuration": data.decode()})
            with refuses(ExchangeError, "bad-configuration") as caught:
                parse_weights(weights, "file")
            assert len(str(caught.value)) < 300


class TestFilters:
    """What is typed behind `-k`."""

    def test_blanks_and_words_without_end(self) -> None:
        """Their time grew with the square of their number."""
        for expression in ("a" + " " * 200_000, "a or " * 40_000 + "a"):
            with refuses(
                SelectionError, "invalid-expression", match=r"cannot be read: it has more than 10000 characters$"
            ):
                compile_expression(expression)
        start = time.process_time()
        assert compile_expression(" " * 9000 + "a" + "\n" * 900)("suite::a")
        assert time.process_time() - start < 0.5


class TestNets:
    """`.nn` files."""

    LAYER = b"-1)TNNetInput:4;1;1;0;0;0;0;0::%s;0;0;0;0;0;0;0\n%s\n"
    DIGITS = b"1" * 300_000

    @pytest.mark.parametrize(
        ("number", "problem"), [(DIGITS + b"x", "not a decimal"), (DIGITS + b".", "beyond the range of float32")]
    )
    def test_a_number_with_very_many_digits(self, number: bytes, problem: str) -> None:
        """Its time grew with the square of its length: minutes for this one."""
        start = time.process_time()
        with refuses(NetFormatError, "invalid-structure-float", match=problem):
            parse_net(self.LAYER % (number, b""))
        assert time.process_time() - start < 2.0

    def test_what_a_decimal_is(self) -> None:
        """That has not changed."""
        for text in ("0", "-1", "+1.", ".5", "1.5", "1e5", "-.5E-3", "00.10e+07"):
            assert problem_of_number(text) is None, text
        for text in ("", ".", "-", "e5", "1e", "1e+", "1.5.", "1_0", " 1", "1 ", "inf", "nan", "0x1", "1,5", "--1"):
            assert problem_of_number(text) is not None, text


class TestMessages:
    """Texts of a file within a message."""

    def test_a_text_without_end_is_cut_in_the_message(self) -> None:
        """In both trees of errors; the field itself is kept, also on its way between processes."""
        for error in (
            CorpusError("unsupported-strategy", strategy="a" * 100_000),
            ExchangeError("damaged-weights", path="file", problem="a" * 100_000),
        ):
            assert 4000 < len(str(error)) < 4200
            assert "…" in str(error)
            again = pickle.loads(pickle.dumps(error))
            assert vars(error) == vars(again)

    def test_a_check_that_is_longer_than_any_id(self, tmp_path: Path) -> None:
        """Looking for the closest id took minutes."""
        path = tmp_path / "expected.toml"
        path.write_text(f'[[expected-failure]]\ncheck = "{"a." * 1000}"\nreason = "b"\n')
        with refuses(
            ExpectationError,
            "expectation-check-too-long",
            match=r"entry 1: check has 2000 characters; the limit is 1000$",
        ):
            load_expectations(path)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("a." * 75_000 + "b = 1", "line 1 has more than 4000 characters"),
            ("\n[a" + ".a" * 75_000 + "]", "line 2 has more than 4000 characters"),
            ("#\n" * 600_000, "it has more than 1048576 bytes"),
        ],
    )
    def test_a_key_of_very_many_parts(self, tmp_path: Path, text: str, problem: str) -> None:
        """Reading it took gigabytes."""
        path = tmp_path / "expected.toml"
        path.write_text(text)
        with refuses(ExpectationError, "expectation-file-not-toml", match=f": not TOML: {problem}$"):
            load_expectations(path)

    def test_a_field_with_a_name_without_end(self) -> None:
        """The place of a fault in a trace is cut, too."""
        with refuses(TraceFault, "unknown-field") as caught:
            parse(golden_ngram().replace(b"|vocabulary=", b"|%s=1|vocabulary=" % (b"a" * 100_000), 1), grammar_of)
        assert len(str(caught.value)) < 4200
