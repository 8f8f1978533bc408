"""The vector cases of the neural n-gram suite: one for each wrong implementation that its printed trace cannot see.

Inputs only; the answers are computed once, checked against an implementation that shares no code, and kept in
`vectors.json`. Inputs that need not be round numbers are drawn from SplitMix64, so that this file stays readable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cai_conformance.vectors import Json, VectorCase
from cai_reference.arithmetic import hex_bits
from cai_reference.splitmix import SplitMix64, below

GIVEN_WEIGHTS: Final = "weights.safetensors"


def ngram_cases() -> tuple[VectorCase, ...]:
    """Return all cases, in the order in which they are answered."""
    return (
        *_merges(),
        *_coding(),
        *_special(),
        *_stream(),
        *_data(),
        *_initial_values(),
        *_elementary(),
        *_forward(),
        *_choices(),
        *_losses(),
        *_gradients(),
        *_optimiser(),
    )


def _merges() -> Iterator[VectorCase]:
    def case(name: str, documents: list[str], merges: int, sees: str) -> VectorCase:
        given: dict[str, Json] = {"documents": [_hex(text) for text in documents], "merges": merges}
        return VectorCase(name, "tok.fit", "bpe.train", given, sees)

    yield case("tie", ["bcbcabab"], 3, "a tie of counts goes to the largest pair, or to the one seen first")
    yield case("tie-last", ["ababcdcd"], 1, "a tie of counts goes to the pair seen last")
    yield case(
        "tie-numeric",
        ["bc", "bc", "bc", "bca", "bca", "da", "da"],
        2,
        "a tie of counts is settled by bytes, not by ids",
    )
    yield case("overlap", ["aaaaabcbcbc"], 2, "occurrences are counted without their overlaps")
    yield case("border", ["ab", "ba"], 4, "pairs are counted across the border of two documents")
    yield case("single", ["xyz"], 2, "a pair that occurs once is not merged")
    yield case("space", ["a b a b a b"], 2, "text is split at spaces before merging")


def _coding() -> Iterator[VectorCase]:
    def encode(name: str, pairs: list[Json], text: str, sees: str) -> VectorCase:
        return VectorCase(name, "tok.golden", "bpe.encode", {"pairs": pairs, "bytes": text}, sees)

    yield encode("rank", [[98, 99], [97, 98]], _hex("abc"), "merges are applied from left to right, not by rank")
    yield encode("passes", [[97, 97], [256, 256]], _hex("aaaaaaa"), "rules are applied to their own results")
    yield encode("bytes", [], "0001feff", "control ids are not kept apart from the bytes 0 and 1")
    text = " e\u0301\u212b\ufb01\u00a0\r\n"
    yield encode("text", [], _hex(text), "text is normalised, stripped, or given other line ends before encoding")
    yield VectorCase(
        "not-canonical",
        "tok.roundtrip",
        "bpe.decode",
        {"pairs": [[32, 208], [208, 176]], "ids": [34, 259, 258, 178]},
        "ids that encoding would not produce are refused or changed",
    )
    yield VectorCase(
        "bytes",
        "tok.roundtrip",
        "bpe.decode",
        {"pairs": [], "ids": [3, 2, 257, 256, 210, 34]},
        "what is not UTF-8 is replaced, or control ids are not kept apart from the bytes 0 and 1",
    )


def _special() -> Iterator[VectorCase]:
    # By rank: a<, <e, os, os>, <eos>. The first reaches over the border of the name, the last is the whole name.
    joining: list[Json] = [[97, 60], [60, 101], [111, 115], [258, 62], [257, 259]]

    def case(name: str, pairs: list[Json], text: str, allowed: list[str], sees: str) -> VectorCase:
        names: list[Json] = [{"spelled": _hex("<bos>"), "id": 0}, {"spelled": _hex("<eos>"), "id": 1}]
        given: dict[str, Json] = {"pairs": pairs, "special": names, "allowed": [_hex(name) for name in allowed]}
        return VectorCase(name, "tok.special", "bpe.encode-special", {**given, "bytes": _hex(text)}, sees)

    yield case("spelled", [], "a<eos>b<bos>", [], "text that spells a special token becomes the token")
    yield case(
        "spelled-merged",
        joining,
        "a<eos><eos>",
        [],
        "text that spells a special token becomes the token, or is kept from merges",
    )
    yield case(
        "allowed",
        joining,
        "a<eos>b<bos><eos",
        ["<eos>"],
        "a token that was asked for stays text, merges reach over it, or tokens are made that were not asked for",
    )


def _stream() -> Iterator[VectorCase]:
    # é€😀 is c3a9 e282ac f09f9880. One token ends é and begins €; another is the first half of 😀.
    pairs: list[Json] = [[169, 226], [240, 159]]
    ids: list[Json] = [197, 258, 132, 174, 259, 154, 130]

    def case(name: str, ids: list[Json], sees: str) -> VectorCase:
        return VectorCase(name, "tok.stream", "bpe.decode-stream", {"pairs": pairs, "ids": ids}, sees)

    yield case("characters", ids, "each token is decoded alone")
    yield case("cut-off", ids[:-1], "what is left of a character at the end is lost, or replaced byte by byte")


def _data() -> Iterator[VectorCase]:
    documents: Json = [[0, 5, 6, 7, 1], [0, 8, 1], [0, 1], [0, 9, 9, 9, 9, 1]]
    yield VectorCase(
        "documents",
        "data.windows",
        "windows.list",
        {"documents": documents, "context": 2},
        "windows cross documents, or short documents are padded",
    )
    yield VectorCase(
        "last",
        "data.windows",
        "windows.list",
        {"documents": [[0, 2, 3, 4, 5, 6, 1]], "context": 3, "stride": 3},
        "the last full window is dropped",
    )
    yield VectorCase(
        "rejection",
        "data.order",
        "splitmix.below",
        {"seed": 7, "bound": 2**63 + 1, "draws": 8},
        "bounded draws take the remainder without rejecting the low end, or reject the high end",
    )
    # SplitMix64 can be run backwards: from these seeds the first 64 bits are 6 and 5, and 2^64 mod 10 is 6.
    for name, seed in (("threshold", 0x9CD9F015DB4E58B7), ("below-threshold", 0x83C953D1D0EE9FB1)):
        given: dict[str, Json] = {"seed": seed, "bound": 10, "draws": 2}
        sees = "the lowest draw that is kept, or the highest that is rejected, is off by one"
        yield VectorCase(name, "data.order", "splitmix.below", given, sees)
    yield VectorCase(
        "shuffle",
        "data.order",
        "batches.shuffled",
        {"documents": documents, "context": 1, "batch": 4, "seed": 23},
        "the shuffle runs from the bottom, or scales a unit double",
    )
    yield VectorCase(
        "partial",
        "data.order",
        "batches.shuffled",
        {"documents": documents, "context": 1, "batch": 5, "seed": 23},
        "the last batch, narrower than the others, is dropped or filled up",
    )


def _initial_values() -> Iterator[VectorCase]:
    yield VectorCase(
        "rounding",
        "init.golden",
        "init.xavier",
        {"seed": 23, "shapes": [[16, 4], [4, 4]]},
        "values are interpolated as low + u · (high − low), or drawn column by column",
    )


def _elementary() -> Iterator[VectorCase]:
    drawn = _Drawn(101)
    exponents = [0.0, -0.0, -(2.0**-60), -0.5, -30.0, -745.0, -746.0, *drawn.numbers(9, -20.0)]
    tails = [0.0, 2.0**-60, 1e-8, 0.5, 1.0, 265.0, 1e300, *(abs(value) for value in drawn.numbers(9, 300.0))]
    for function, arguments in (("exp", exponents), ("log1p", tails)):
        yield VectorCase(
            function,
            "num.elementary",
            "arithmetic.elementary",
            {"function": function, "arguments": _bits(arguments)},
            f"{function} leaves the range, or mishandles an edge",
        )
    # Arguments at which strict/1 is not the correctly rounded function, and differs from NumPy's and from glibc's.
    hard = {
        "exp": [-0.4118, -0.6129, -0.9246, -0.9465, -7.1387, -8.8008, -12.7265, -25.9149],
        "log1p": [0.429, 0.5171, 0.5188, 0.5301, 17.9336, 39.6029, 80.3498, 186.7091],
    }
    for function, arguments in hard.items():
        yield VectorCase(
            f"{function}-hard",
            "num.elementary",
            "arithmetic.elementary",
            {"function": function, "arguments": _bits(arguments)},
            f"{function} is a library's, not the one of strict/1",
        )


def _forward() -> Iterator[VectorCase]:
    def case(name: str, model: dict[str, Json], stage: str, sees: str) -> VectorCase:
        contexts: Json = [[0, 1], [2, 3], [5, 5], [3, 2]]
        return VectorCase(name, "fwd.oracle", "ngram.forward", {**model, "contexts": contexts, "stage": stage}, sees)

    plain, steep = _model((12, 2, 4, 8), 102, 1.0), _model((12, 2, 4, 8), 103, 3.0)
    sees = "sums run in another order or pairwise, products are fused or kept in single precision"
    yield case("hidden", plain, "hidden", sees)
    yield case("logits", plain, "logits", sees)
    yield case("sigmoid", steep, "hidden", "the sigmoid is 1 / (1 + exp(−t)) on both sides of 0")
    yield VectorCase(
        "given",
        "fwd.oracle",
        "ngram.forward",
        {"weights": GIVEN_WEIGHTS, "contexts": [[67, 118]], "stage": "logits"},
        "anything in the forward pass, on weights that every precision holds exactly",
    )
    yield VectorCase(
        "zeros",
        "fwd.oracle",
        "ngram.forward",
        {**_hand_sized([0.0, -0.2, 0.3, 0.4]), "contexts": [[0, 0], [1, 0], [0, 1]], "stage": "logits"},
        "a sum starts at its first product, so that −0.0 survives it",
    )


def _choices() -> Iterator[VectorCase]:
    def argmax(name: str, check: str, logits: list[float], masked: list[Json], sees: str) -> VectorCase:
        return VectorCase(name, check, "logits.argmax", {"logits": _bits(logits), "masked": masked}, sees)

    yield argmax("lowest", "smp.tie", [0.5, 2.0, 1.0, 2.0, 2.0], [], "of equal maxima the last is taken")
    yield argmax("zeros", "smp.tie", [-1.0, -0.0, 0.0], [], "+0.0 counts as larger than −0.0")
    yield argmax("masked", "smp.support", [9.0, 1.0, 3.0, 2.0], [0], "BOS is not masked")
    yield argmax(
        "low", "smp.support", [1.0, -3e38, -2e38], [0], "a masked logit becomes a number instead of dropping out"
    )
    hand = _hand_sized([0.1, 0.2, 0.3, 0.4])
    yield VectorCase(
        "eos",
        "smp.support",
        "ngram.greedy",
        {**hand, "prompt": [1, 2], "limit": 5, "masked": [0]},
        "EOS is appended before the continuation ends",
    )
    yield VectorCase(
        "sliding",
        "smp.support",
        "ngram.greedy",
        {**hand, "prompt": [1, 2], "limit": 5, "masked": [0, 1]},
        "a masked maximum is generated",
    )
    yield VectorCase(
        "window",
        "smp.support",
        "ngram.greedy",
        {**_model((12, 2, 4, 8), 127, 1.0), "prompt": [2, 3], "limit": 8, "masked": [0]},
        "the context does not slide, slides the other way, or BOS is generated",
    )


def _losses() -> Iterator[VectorCase]:
    def case(name: str, check: str, logits: list[list[float]], targets: list[Json], sees: str) -> VectorCase:
        rows: list[Json] = [_bits(row) for row in logits]
        return VectorCase(name, check, "logits.mean-nll", {"logits": rows, "targets": targets}, sees)

    wide = _Drawn(104).numbers(8, 3.0)
    drawn = _Drawn(136)
    rows = [drawn.numbers(5, 2.0**exponent) for exponent in range(-4, 5) for _ in range(4)]
    yield case("uniform", "loss.weights", [[0.25] * 7], [3], "the maximum is not skipped, or every tie of it is")
    yield case("ties", "loss.weights", [[2.0, 2.0, 1.0, 2.0, -1.0]], [3], "every tie of the maximum is skipped")
    yield case("dominated", "loss.weights", [[0.0, -60.0, -61.0]], [0], "log(1 + tail) loses a small tail")
    # The target is the maximum and the tail is small, so that the loss keeps the last bits of the tail.
    tail = [0.0, *(value - 8.0 for value in _Drawn(113).numbers(63, 4.0))]
    yield case("tail", "loss.weights", [tail], [0], "the tail is summed pairwise, backwards or exactly")
    targets: list[Json] = [place % 5 for place in range(len(rows))]
    yield case("rows", "loss.weights", rows, targets, "row losses are summed pairwise, or exactly")
    shifted = [value + 1e4 for value in wide]
    yield case("large", "loss.shift", [shifted], [2], "the maximum is not subtracted")
    high, zero = 1.7e308, 0.0
    yield case(
        "gap", "loss.shift", [[high, -high], [zero, zero]], [1, 0], "a gap beyond the range makes the mean infinite"
    )
    yield case(
        "total",
        "loss.shift",
        [[zero, -high], [zero, -high]],
        [1, 1],
        "a total beyond the range makes the mean infinite",
    )
    yield VectorCase(
        "narrow",
        "eval.batch",
        "ngram.evaluate",
        {**_model((6, 2, 2, 3), 105, 1.0), "documents": [[0, 2, 3, 4, 5, 2, 2, 3, 1]], "context": 2, "batch": 3},
        "the mean of batch means is taken, although the last batch is narrower",
    )
    generator = SplitMix64(116)
    document: Json = [0, *[2 + below(generator, 4) for _ in range(29)], 1]
    yield VectorCase(
        "rounding",
        "eval.batch",
        "ngram.evaluate",
        {**_model((6, 2, 2, 3), 105, 1.0), "documents": [document], "context": 2, "batch": 8},
        "batches of another size are evaluated, or row losses are added without the means of batches",
    )


def _gradients() -> Iterator[VectorCase]:
    windows: Json = [[2, 2, 3], [3, 2, 2], [5, 4, 2], [2, 3, 1], [2, 2, 2]]
    sees = (
        "rows of repeated ids are added in another order, or overwritten",
        "the gate's derivative has another form",
        "up and gate are exchanged",
        "1/B is divided by instead of multiplied with",
        "products are summed over another axis order",
    )
    for place, text in enumerate(sees):
        yield VectorCase(
            ("embedding", "gate", "up", "down", "output")[place],
            "grad.golden",
            "ngram.gradients",
            {**_model((6, 2, 3, 4), 106, 1.5), "windows": windows, "parameter": place},
            text,
        )
    generator = SplitMix64(110)
    many: Json = [[below(generator, 6) for _ in range(3)] for _ in range(19)]
    for place, name in ((0, "many-repeats"), (4, "many-rows")):
        yield VectorCase(
            name,
            "grad.golden",
            "ngram.gradients",
            {**_model((6, 2, 3, 4), 106, 1.5), "windows": many, "parameter": place},
            "contributions of the rows of a batch are added pairwise, or window by window after scaling",
        )


def _optimiser() -> Iterator[VectorCase]:
    def case(name: str, seed: int, steps: int, scale: float, settings: list[float], sees: str) -> VectorCase:
        drawn = _Drawn(seed)
        names = ("learning_rate", "beta1", "beta2", "epsilon", "weight_decay")
        given: dict[str, Json] = {label: hex_bits(value) for label, value in zip(names, settings, strict=True)}
        given["weights"] = _bits(drawn.numbers(6, 1.0))
        given["gradients"] = [_bits(drawn.numbers(6, scale)) for _ in range(steps)]
        return VectorCase(name, "opt.step", "adamw.run", given, sees)

    yield case("powers", 107, 15, 1.0, [0.01, 0.9, 0.999, 1e-8, 0.01], "bias corrections use pow, or are left out")
    yield case("decay", 108, 3, 1.0, [0.3, 0.9, 0.999, 1e-8, 0.7], "the decay is coupled, comes first, or is regrouped")
    yield case("epsilon", 151, 3, 1e-4, [0.01, 0.9, 0.99, 1e-4, 0.1], "epsilon is added to another quantity")
    yield case("settings", 118, 4, 0.5, [0.03, 0.8, 0.95, 1e-3, 0.2], "a setting is fixed instead of read")


class _Drawn:
    """A stream of doubles in (−scale, scale)."""

    def __init__(self, seed: int) -> None:
        self._generator = SplitMix64(seed)

    def numbers(self, count: int, scale: float) -> list[float]:
        return [scale * (2.0 * self._generator.unit() - 1.0) for _ in range(count)]


def _model(sizes: tuple[int, int, int, int], seed: int, scale: float) -> dict[str, Json]:
    """Return sizes (vocabulary, context, embedding, hidden) and drawn weights in registry order."""
    vocabulary, context, width, hidden = sizes
    inner = context * width * hidden
    counts = (vocabulary * width, inner, inner, hidden * hidden, hidden * vocabulary)
    drawn = _Drawn(seed)
    return {"sizes": list(sizes), "weights": [_bits(drawn.numbers(count, scale)) for count in counts]}


def _hand_sized(embedding: list[float]) -> dict[str, Json]:
    """Return a model of four words: hidden h = 2 · SiLU(E[older]) · E[newer], logits h · (1, 2, −1, 0)."""
    rows = (embedding, [1.0, 0.0], [0.0, 1.0], [2.0], [1.0, 2.0, -1.0, 0.0])
    return {"sizes": [4, 2, 1, 1], "weights": [_bits(row) for row in rows]}


def _bits(values: list[float]) -> list[Json]:
    return [hex_bits(value) for value in values]


def _hex(text: str) -> str:
    return text.encode("utf-8").hex()
