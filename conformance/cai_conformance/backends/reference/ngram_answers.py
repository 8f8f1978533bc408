"""The reference's answers to the vector cases of the neural n-gram suite, one small function an operation.

An operation takes its input as JSON, runs one public function of the reference, and returns the answer. Doubles
travel as sixteen hex digits, so that nothing is rounded on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from safetensors.numpy import load

from cai_conformance.fixtures.text_pieces import spell_pieces
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.bits import from_hex_bits
from cai_reference.autograd import Parameter, Tape
from cai_reference.autograd.backward import backward
from cai_reference.autograd.probability import mean_nll_of
from cai_reference.decoding.greedy import continue_greedily, greedy_token
from cai_reference.decoding.text_stream import TextStream
from cai_reference.layers.matrices import xavier_uniform
from cai_reference.models.neural_ngram import PARAMETER_NAMES, NeuralNgram, NeuralNgramConfiguration
from cai_reference.splitmix import SplitMix64, below
from cai_reference.text.batches import EncodedDocument, Epoch, Window, Windowing, sequential_plan, shuffled_plan
from cai_reference.text.bpe import train
from cai_reference.text.tokenizer import BpeTokenizer, encode_with_special
from cai_reference.training.adamw import AdamW, AdamWConfiguration, ParameterGroups
from cai_reference.training.trainer import evaluate

Input = Mapping[str, Any]  # JSON: what each operation expects is what its cases hold


@dataclass(frozen=True)
class NgramSetting:
    """What an operation may use besides its input: the arithmetic, and the given weights of the suite."""

    arithmetic: Arithmetic
    weights: bytes


Operation = Callable[[Input, NgramSetting], Answer]


def answer(case: VectorCase, setting: NgramSetting) -> Answer:
    """Return the reference's answer to one case."""
    return OPERATIONS[case.operation](case.input, setting)


def _bpe_train(given: Input, _: NgramSetting) -> Answer:
    merges = train([bytes.fromhex(text) for text in given["documents"]], given["merges"])
    return Answer(ids=tuple(token for merge in merges for token in merge.pair))


def _bpe_encode(given: Input, _: NgramSetting) -> Answer:
    return Answer(ids=tuple(_tokenizer(given).encode(bytes.fromhex(given["bytes"]))))


def _bpe_decode(given: Input, _: NgramSetting) -> Answer:
    return Answer(text=_tokenizer(given).decode_content(given["ids"]).hex())


def _bpe_encode_special(given: Input, _: NgramSetting) -> Answer:
    names = {_utf8(each["spelled"]): each["id"] for each in given["special"]}
    allowed = [_utf8(name) for name in given["allowed"]]
    return Answer(ids=tuple(encode_with_special(_tokenizer(given), _utf8(given["bytes"]), allowed, names)))


def _bpe_decode_stream(given: Input, _: NgramSetting) -> Answer:
    stream = TextStream(_tokenizer(given), replace=True)
    return Answer(text=spell_pieces([*(stream.push(token) for token in given["ids"]), stream.finish()]))


def _windows(given: Input, _: NgramSetting) -> Answer:
    epoch = _epoch(given)
    windows = [epoch.window(slot) for slot in epoch.slots()]
    return Answer(ids=tuple(token for window in windows for token in (*window.inputs, *window.targets)))


def _plan(given: Input, _: NgramSetting) -> Answer:
    plan = shuffled_plan(_epoch(given), given["batch"], SplitMix64(given["seed"]))
    return Answer(ids=tuple(place for batch in plan for slot in batch for place in (slot.document, slot.start)))


def _below(given: Input, _: NgramSetting) -> Answer:
    generator = SplitMix64(given["seed"])
    return Answer(ids=tuple(below(generator, given["bound"]) for _ in range(given["draws"])))


def _xavier(given: Input, _: NgramSetting) -> Answer:
    generator = SplitMix64(given["seed"])
    drawn = [xavier_uniform("weight", fan_in, fan_out, generator) for fan_in, fan_out in given["shapes"]]
    return Answer(values=_flat([parameter.value for parameter in drawn]))


def _elementary(given: Input, setting: NgramSetting) -> Answer:
    function = getattr(setting.arithmetic, given["function"])
    return Answer(values=_flat([function(_doubles(given["arguments"]))]))


def _forward(given: Input, setting: NgramSetting) -> Answer:
    model = _model(given, setting)
    contexts: list[list[int]] = given["contexts"]
    flat = [token for context in contexts for token in context]
    stages = model.forward(Tape(setting.arithmetic, recording=False), flat, len(contexts))
    return Answer(values=_flat([getattr(stages, given["stage"]).value]))


def _argmax(given: Input, _: NgramSetting) -> Answer:
    return Answer(ids=(greedy_token(_doubles(given["logits"]), set(given["masked"])),))


def _greedy(given: Input, setting: NgramSetting) -> Answer:
    model = _model(given, setting)
    found = continue_greedily(model, given["prompt"], given["limit"], setting.arithmetic, set(given["masked"]))
    return Answer(ids=found.ids)


def _mean_nll(given: Input, setting: NgramSetting) -> Answer:
    rows = np.array([_doubles(row) for row in given["logits"]])
    return Answer(values=(mean_nll_of(setting.arithmetic, rows, given["targets"]),))


def _gradients(given: Input, setting: NgramSetting) -> Answer:
    model = _model(given, setting)
    windows = [Window(tuple(window[:-1]), tuple(window[1:])) for window in given["windows"]]
    backward(model.loss(Tape(setting.arithmetic), windows))
    return Answer(values=_flat([model.parameters[given["parameter"]].gradient]))


def _evaluate(given: Input, setting: NgramSetting) -> Answer:
    model, epoch = _model(given, setting), _epoch(given)
    return Answer(values=(evaluate(model, epoch, sequential_plan(epoch, given["batch"]), setting.arithmetic),))


def _adamw(given: Input, _: NgramSetting) -> Answer:
    parameter = Parameter("weight", _doubles(given["weights"]))
    configuration = AdamWConfiguration(*(from_hex_bits(given[name]) for name in ADAMW_FIELDS))
    optimizer = AdamW(configuration, ParameterGroups(decay=("weight",)))
    for gradient in given["gradients"]:
        optimizer.step_with([parameter], {"weight": _doubles(gradient)})
    return Answer(values=_flat([parameter.value]))


ADAMW_FIELDS: Final = ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay")

OPERATIONS: Final[Mapping[str, Operation]] = {
    "bpe.train": _bpe_train,
    "bpe.encode": _bpe_encode,
    "bpe.decode": _bpe_decode,
    "bpe.encode-special": _bpe_encode_special,
    "bpe.decode-stream": _bpe_decode_stream,
    "windows.list": _windows,
    "batches.shuffled": _plan,
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


def _tokenizer(given: Input) -> BpeTokenizer:
    return BpeTokenizer([(left, right) for left, right in given["pairs"]])


def _utf8(digits: str) -> str:
    return bytes.fromhex(digits).decode("utf-8")


def _epoch(given: Input) -> Epoch:
    documents = tuple(
        EncodedDocument(f"document-{index}", "train", tuple(tokens)) for index, tokens in enumerate(given["documents"])
    )
    return Epoch("train", documents, Windowing(given["context"], given.get("stride", 1)))


def _model(given: Input, setting: NgramSetting) -> NeuralNgram:
    """Build the model of a case: sizes and weights in its input, or the weights that the suite ships."""
    if given.get("weights") == "weights.safetensors":
        tensors = load(setting.weights)
        values = [np.asarray(tensors[name], dtype=np.float64) for name in PARAMETER_NAMES]
        context = values[1].shape[0] // values[0].shape[1]
        sizes = NeuralNgramConfiguration(*(values[0].shape[0], context), *(values[0].shape[1], values[1].shape[1]))
    else:
        sizes = NeuralNgramConfiguration(*given["sizes"])
        shapes = sizes.shapes()
        values = [_doubles(flat).reshape(shape) for flat, shape in zip(given["weights"], shapes, strict=True)]
    return NeuralNgram(sizes, [Parameter(name, value) for name, value in zip(PARAMETER_NAMES, values, strict=True)])


def _doubles(digits: Sequence[str]) -> Array:
    return np.array([from_hex_bits(text) for text in digits], dtype=np.float64)


def _flat(arrays: Sequence[Array]) -> tuple[float, ...]:
    return tuple(value for array in arrays for value in array.ravel().tolist())
