"""Damaged checkpoints of this project: missing, extra, renamed, mis-shaped and broken parts are named."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from cai_reference.arithmetic import Array
from cai_reference.checkpoints.errors import CheckpointError
from cai_reference.checkpoints.saved import read_checkpoint
from cai_reference.checkpoints.tensor_file import read_tensors, write_tensors
from cai_reference.errors import ArithmeticFault, CaiReferenceError, LayerError, ModelError
from cai_reference.models.neural_ngram import NeuralNgramConfiguration
from cai_reference.text.errors import BatchError
from cai_reference.training.errors import AdamWError, TrainingError
from cai_reference.training.model_kinds import AnyConfiguration, least_weights, new_model
from support_decoder_models import CONFIGURATIONS as DECODERS
from support_decoder_models import DRAFT
from support_llama_models import CONFIGURATIONS as LLAMAS
from support_refusals import raises, refuses
from support_resumable import rewritten, saved

GAIN = "final_norm.gain"
TABLE = "token_embedding.weight"


def flipped(offset: int) -> Callable[[], bytes]:
    """Return the checkpoint with one bit of a tensor turned, counted from the end."""

    def make() -> bytes:
        data = bytearray(saved("llama", 2))
        data[-offset] ^= 4
        return bytes(data)

    return make


def describing(section: str, key: str, value: object) -> Callable[[], bytes]:
    """Return a checkpoint that says something else under a key."""

    def describe(description: dict[str, object]) -> None:
        inner = description[section]
        assert isinstance(inner, dict)
        inner[key] = value

    return lambda: rewritten(saved("llama", 2), describe)


def without(section: str, key: str) -> Callable[[], bytes]:
    """Return a checkpoint whose description lacks a key."""

    def describe(description: dict[str, object]) -> None:
        inner = description[section]
        assert isinstance(inner, dict)
        del inner[key]

    return lambda: rewritten(saved("llama", 2), describe)


def replacing(section: str, value: object) -> Callable[[], bytes]:
    """Return a checkpoint with another value for a whole section."""
    return lambda: rewritten(saved("llama", 2), lambda description: description.update({section: value}))


def tensors(change: Callable[[dict[str, Array]], object], listed: bool = True) -> Callable[[], bytes]:
    """Return a checkpoint with other tensors, listed as they are or as they were."""
    return lambda: rewritten(saved("llama", 2), tensors=change, listed=listed)


def damaged_state(key: str, value: str) -> Callable[[], bytes]:
    """Return a checkpoint with other metadata."""
    return lambda: rewritten(saved("llama", 2), metadata={key: value})


def with_text(text: str) -> bytes:
    """Return a checkpoint with this description, and its digest."""
    stored, metadata = read_tensors(saved("llama", 0))
    metadata.update(state=text, digest=hashlib.sha256(text.encode()).hexdigest())
    return write_tensors({name: tensor.values() for name, tensor in stored.items()}, metadata)


def bad(where: str, problem: str) -> CheckpointError:
    """Return what a part of the description is refused with."""
    return CheckpointError("bad-description", where=where, problem=problem)


NAMES = tuple(sorted(read_checkpoint(saved("llama", 0)).values))
REGISTRY = tuple(read_checkpoint(saved("llama", 0)).values)

PARTS: list[tuple[str, Callable[[], bytes], CaiReferenceError]] = [
    (
        "missing",
        tensors(lambda t: t.pop(f"weights/{GAIN}"), listed=False),
        CheckpointError("missing-part", name=f"weights/{GAIN}"),
    ),
    (
        "extra",
        tensors(lambda t: t.update({"weights/more": np.ones(1)}), listed=False),
        CheckpointError("unexpected-part", name="weights/more"),
    ),
    (
        "renamed",
        tensors(lambda t: t.update({"first/x": t.pop(f"first/{GAIN}")}), listed=False),
        CheckpointError("missing-part", name=f"first/{GAIN}"),
    ),
    (
        "shape",
        tensors(lambda t: t.update({f"weights/{TABLE}": t[f"weights/{TABLE}"].T}), listed=False),
        CheckpointError("part-differs", name=f"weights/{TABLE}", expected="F64 [5, 4]", found="F64 [4, 5]"),
    ),
    (
        "missing and unlisted",
        tensors(lambda t: t.pop(f"weights/{GAIN}")),
        CheckpointError("missing-part", name=f"weights/{GAIN}"),
    ),
    (
        "extra and listed",
        tensors(lambda t: t.update({"more": np.ones(1)})),
        CheckpointError("unexpected-part", name="more"),
    ),
    (
        "half of the moments",
        tensors(lambda t: t.pop(f"second/{GAIN}")),
        CheckpointError("missing-part", name=f"second/{GAIN}"),
    ),
    (
        "no moments of one",
        tensors(lambda t: (t.pop(f"first/{GAIN}"), t.pop(f"second/{GAIN}"))),
        TrainingError("moment-names", expected=NAMES, actual=tuple(name for name in NAMES if name != GAIN)),
    ),
    (
        "shape of a moment",
        tensors(lambda t: t.update({f"second/{GAIN}": np.ones(3)})),
        TrainingError("moment-shape", name=GAIN, kind="second", parameter=(4,), moment=(3,)),
    ),
    (
        "a weight that is not finite",
        tensors(lambda t: t.update({f"weights/{GAIN}": np.array([1.0, math.inf, 1.0, 1.0])})),
        TrainingError("state-value-not-finite", name=GAIN, index=1, value=math.inf),
    ),
    (
        "a moment that is not finite",
        tensors(lambda t: t.update({f"first/{GAIN}": np.array([1.0, 1.0, math.nan, 1.0])})),
        TrainingError("non-finite-moment", name=GAIN, kind="first", index=2, value=math.nan),
    ),
    (
        "a negative mean of squares",
        tensors(lambda t: t.update({f"second/{GAIN}": np.array([0.0, 0.0, 0.0, -1.0])})),
        TrainingError("negative-second-moment", name=GAIN, index=3, value=-1.0),
    ),
    (
        "a shape that the model does not have",
        tensors(lambda t: t.update({f"{part}/{GAIN}": np.ones(5) for part in ("weights", "first", "second")})),
        TrainingError("state-shape", name=GAIN, expected=(4,), found=(5,)),
    ),
    ("a name twice", replacing("parameters", [*REGISTRY, GAIN]), bad("parameters", "a name stands there twice")),
    (
        "names out of order",
        replacing("parameters", [*REGISTRY[::-1]]),
        TrainingError("state-values", expected=REGISTRY, found=REGISTRY[::-1]),
    ),
    (
        "a listed shape of nothing",
        describing("tensors", f"weights/{GAIN}", {"shape": [0], "sha256": "0" * 64}),
        bad(f"tensor weights/{GAIN}", "shape is [0], not a list of lengths"),
    ),
]

DESCRIPTIONS: list[tuple[str, Callable[[], bytes], CaiReferenceError]] = [
    ("format", damaged_state("format", "cai-conform weights"), CheckpointError("not-a-checkpoint", key="format")),
    ("version", damaged_state("version", "2"), CheckpointError("unknown-checkpoint-version", found="2", known="1")),
    ("no key", without("data", "epoch"), bad("data", "it lacks 'epoch'")),
    ("a key too many", describing("run", "color", 1), bad("run", "it has 'color', which means nothing")),
    (
        "no section",
        lambda: rewritten(saved("llama", 2), lambda d: d.pop("progress")),
        bad("description", "it lacks 'progress'"),
    ),
    ("no object", replacing("run", [1]), bad("run", "it is not an object")),
    (
        "a negative number",
        describing("data", "batch", -1),
        bad("data", "batch is -1, not a whole number that is not negative"),
    ),
    (
        "a number of another kind",
        describing("progress", "step", 2.0),
        bad("progress", "step is 2.0, not a whole number that is not negative"),
    ),
    (
        "a flag for a number",
        describing("progress", "step", True),
        bad("progress", "step is True, not a whole number that is not negative"),
    ),
    (
        "a whole number for a double",
        describing("optimizer", "beta1", 0),
        bad("optimizer", "beta1 is 0, not a finite number with a point or an exponent"),
    ),
    ("a number for a flag", describing("model", "tied", 1), bad("model", "tied is 1, not true or false")),
    (
        "an unknown model",
        describing("model", "kind", "rnn"),
        bad("model", "kind is 'rnn', not one of neural-ngram, decoder, llama, token-shift-draft"),
    ),
    (
        "an unknown schedule",
        replacing("schedule", {"kind": "sine"}),
        bad("schedule", "kind is 'sine', not one of constant, stepped, warm-up"),
    ),
    (
        "a stage of one number",
        replacing("schedule", {"kind": "stepped", "stages": [[0.1]]}),
        bad("schedule", "a stage is [0.1], not a rate and a number of steps"),
    ),
    ("a short generator", describing("data", "generator", "12"), bad("data", "generator is '12', not 16 hex digits")),
    (
        "a capital digit",
        replacing("generators", {"a": "A" * 16}),
        bad("generators", f"a is '{'A' * 16}', not 16 hex digits"),
    ),
    ("a short digest", describing("data", "digest", "ab"), bad("data", "digest is 'ab', not 64 hex digits")),
    (
        "names that are none",
        describing("optimizer", "decay", [1]),
        bad("optimizer", "decay is [1], not a list of texts"),
    ),
    ("no list", describing("optimizer", "decay", "x"), bad("optimizer", "decay is 'x', not a list")),
    ("no text", describing("run", "arithmetic", 1), bad("run", "arithmetic is 1, not a text")),
    (
        "an arithmetic",
        describing("run", "arithmetic", "exact"),
        ArithmeticFault("unknown-arithmetic", name="exact", known=", ".join(("strict/1", "libm/1", "fast"))),
    ),
    ("a rate", describing("optimizer", "learning_rate", -1.0), AdamWError("invalid-learning-rate", value=-1.0)),
    ("a floor", describing("schedule", "floor", 0.75), TrainingError("invalid-schedule-floor", value=0.75, peak=0.05)),
    ("a largest norm", describing("run", "maximum_norm", 0.0), TrainingError("invalid-maximum-norm", value=0.0)),
    ("a batch size", describing("run", "batch_size", 0), BatchError("zero-batch-size")),
    ("heads", describing("model", "heads", 3), LayerError("heads-do-not-divide", width=4, heads=3)),
    ("a vocabulary", describing("model", "vocabulary", 0), ModelError("size-too-small", name="vocabulary", size=0)),
    ("another step", describing("progress", "step", 3), TrainingError("state-steps", step=3, optimizer=2)),
    (
        "no step at all",
        lambda: rewritten(
            saved("llama", 2),
            lambda d: d.update({"progress": {"step": 0, "optimizer_step": 0, "beta1_power": 1.0, "beta2_power": 1.0}}),
        ),
        TrainingError("moment-presence", step=0, entries=11),
    ),
    (
        "a power",
        describing("progress", "beta1_power", 1.0),
        TrainingError("invalid-beta-power", name="beta1", value=1.0, step=2),
    ),
    (
        "a batch behind the epoch",
        describing("data", "batch", 7),
        TrainingError("order-out-of-range", epoch=0, batch=7, last=6),
    ),
    (
        "groups",
        describing("optimizer", "no_decay", []),
        TrainingError("group-names", expected=NAMES, actual=tuple(n for n in NAMES if not n.endswith(".gain"))),
    ),
]


class TestSizes:
    """Sizes are compared with the weights that came with them before anything of these sizes is made."""

    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("ngram", "vocabulary"),
            ("ngram", "hidden"),
            ("ngram", "context"),
            ("draft", "hidden"),
            ("llama", "vocabulary"),
            ("llama", "feed_forward"),
            ("llama", "layers"),
            ("decoder", "vocabulary"),
            ("decoder", "width"),
            ("decoder", "feed_forward"),
            ("decoder", "futures"),
            ("grouped", "feed_forward"),
            ("grouped", "width"),
        ],
    )
    def test_huge_sizes_are_refused_at_once(self, name: str, key: str) -> None:
        """A size of 2^40 would take forever to draw, and more memory than there is."""

        def describe(description: dict[str, object]) -> None:
            model = description["model"]
            assert isinstance(model, dict)
            model[key] = 2**40

        with refuses(TrainingError, "state-too-small") as caught:
            read_checkpoint(rewritten(saved(name, 0), describe))
        assert int(str(caught.value.fields["least"])) >= 2**40 > int(str(caught.value.fields["found"]))

    def test_the_least_number_of_weights_is_never_too_large(self) -> None:
        """Of any small model; of the n-gram and of Llama models it is the number itself."""
        configurations: list[AnyConfiguration] = [*DECODERS.values(), DRAFT, NeuralNgramConfiguration(5, 2, 3, 4)]
        for configuration in configurations:
            weights = sum(parameter.value.size for parameter in new_model(configuration).parameters)
            assert least_weights(configuration) <= weights
        exactly: list[AnyConfiguration] = [*LLAMAS.values(), NeuralNgramConfiguration(5, 2, 3, 4)]
        for exact in exactly:
            assert least_weights(exact) == sum(parameter.value.size for parameter in new_model(exact).parameters)


class TestDamage:
    """A checkpoint that is not whole gives an error that says what of it is wrong."""

    @pytest.mark.parametrize(("make", "expected"), [pytest.param(m, e, id=i) for i, m, e in PARTS])
    def test_parts(self, make: Callable[[], bytes], expected: CaiReferenceError) -> None:
        """Missing, extra, renamed, of another shape, not finite."""
        with raises(expected):
            read_checkpoint(make())

    @pytest.mark.parametrize(("make", "expected"), [pytest.param(m, e, id=i) for i, m, e in DESCRIPTIONS])
    def test_descriptions(self, make: Callable[[], bytes], expected: CaiReferenceError) -> None:
        """With the digest that they should have."""
        with raises(expected):
            read_checkpoint(make())

    @pytest.mark.parametrize("offset", [1, 500, 3000])
    def test_a_turned_bit_is_named_by_its_tensor(self, offset: int) -> None:
        """Wherever it is in the tensors; the digest in the error is the one of the description."""
        clean, _ = read_tensors(saved("llama", 2))
        broken, _ = read_tensors(flipped(offset)())
        (name,) = (name for name in clean if clean[name].data != broken[name].data)
        with raises(CheckpointError("part-damaged", name=name, stored=clean[name].digest, actual=broken[name].digest)):
            read_checkpoint(flipped(offset)())

    def test_a_changed_description_is_seen(self) -> None:
        """One digit of the schedule, without the digest that goes with it."""
        text = read_tensors(saved("llama", 2))[1]["state"]
        data = saved("llama", 2).replace(b'\\"warmup\\":3', b'\\"warmup\\":4')
        assert data != saved("llama", 2)
        stored = hashlib.sha256(text.encode()).hexdigest()
        actual = hashlib.sha256(text.replace('"warmup":3', '"warmup":4').encode()).hexdigest()
        with raises(CheckpointError("state-damaged", stored=stored, actual=actual)):
            read_checkpoint(data)

    @pytest.mark.parametrize("key", ["format", "version", "state", "digest"])
    def test_metadata_that_lack_a_key_are_of_something_else(self, key: str) -> None:
        """A file of tensors need not be a checkpoint."""
        stored, metadata = read_tensors(saved("llama", 2))
        del metadata[key]
        with raises(CheckpointError("not-a-checkpoint", key=key)):
            read_checkpoint(write_tensors({name: tensor.values() for name, tensor in stored.items()}, metadata))

    def test_every_cut_and_every_addition_is_seen(self) -> None:
        """The container does not end where it should."""
        data = saved("llama", 2)
        for length in (0, 7, 8, 100, len(data) - 1):
            with refuses(CheckpointError, "not-a-tensor-file"):
                read_checkpoint(data[:length])
        with refuses(CheckpointError, "not-a-tensor-file"):
            read_checkpoint(data + b"\0")

    def test_a_description_that_is_no_json_is_refused(self) -> None:
        """NaN, for one, and a key that stands twice."""
        for text in ('{"model":NaN}', '{"model":1,"model":1}', "{"):
            with refuses(CheckpointError, "bad-description") as caught:
                read_checkpoint(with_text(text))
            assert "description" == caught.value.fields["where"]

    def test_a_header_with_a_key_twice_is_refused(self) -> None:
        """The library takes the last one."""
        data = saved("ngram", 0)
        length = int.from_bytes(data[:8], "little")
        doubled = data[8 : 8 + length].replace(b'"version":"1"', b'"version":"2","version":"1"')
        doubled += b" " * (-len(doubled) % 8)
        with raises(CheckpointError("not-a-tensor-file", reason="duplicate key 'version'")):
            read_checkpoint(len(doubled).to_bytes(8, "little") + doubled + data[8 + length :])

    def test_single_precision_is_not_taken_for_double(self) -> None:
        """Even where the shape is the same."""
        data = saved("llama", 0)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        gain = header[f"weights/{GAIN}"]
        place, rest = gain["data_offsets"], {}
        for name, entry in header.items():
            moved = dict(entry)
            if name != "__metadata__" and entry["data_offsets"][0] >= place[1]:
                moved["data_offsets"] = [offset - 16 for offset in entry["data_offsets"]]
            rest[name] = moved
        rest[f"weights/{GAIN}"] = {"dtype": "F32", "shape": [4], "data_offsets": [place[0], place[0] + 16]}
        text = json.dumps(rest).encode()
        body = data[8 + length :]
        body = body[: place[0]] + np.ones(4, "<f4").tobytes() + body[place[1] :]
        with raises(CheckpointError("part-differs", name=f"weights/{GAIN}", expected="F64 [4]", found="F32 [4]")):
            read_checkpoint(len(text).to_bytes(8, "little") + text + body)
