"""Is the slow n-gram of the tests right? Hand-worked cases first, then the published facts (course, chapter 23).

The published corpus is not part of this repository: the tests that need it are skipped where it does not lie beside
the checkout. The exact tests of floats that went through `exp` or `log1p` need the C library they were published with,
and are skipped elsewhere.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from support_ngram_oracle import (
    SHAPES,
    AdamW,
    Matrix,
    SplitMix64,
    Window,
    below,
    draw_matrix,
    encode,
    encode_document,
    evaluate,
    fit_merges,
    forward,
    greedy,
    initial_parameters,
    little_endian,
    loss_and_gradients,
    mean_loss,
    next_token,
    plan,
    row_loss,
    shuffle,
    windows,
)

COURSE = Path(__file__).resolve().parents[3] / "shared" / "data" / "course"
CORPUS, SPLITS = COURSE / "tiny-bilingual-corpus.json", COURSE / "splits.json"

MERGES = [(32, 208), (208, 176), (209, 130), (208, 181), (208, 190), (208, 184), (209, 128), (101, 32)]
TRAIN_LENGTHS = [182, 234, 191, 290, 197, 295, 189, 274]
VALIDATION_LENGTHS = [189, 282]
FIRST_GRADIENT_L1 = [
    0.02098277407669027,
    0.0020791565274765698,
    0.002420102184397668,
    0.002044255453190607,
    0.019547509062209176,
]
INITIAL_DIGEST = "c09abdabba948d0f4b24fdcbcfb4fdf0e4625199dc070fce18ea7765251d2f57"
BATCH_LOSSES = [5.583387207226902, 5.583328793946822, 5.583348140185505]
DIGESTS = [
    "a29c9be6a37de6a8064bd161e6a378d6fa1a011c961d31fb8546d7e3cffd3648",
    "05be7cbd7bdb7623da696e188429ba314c041a70e0a79daa6510dc974f0700bb",
    "0010d0f91f4b6b23fbee739fdf84cfd0c3aa126f3e27720dfa50b86105a1cf4e",
]

# glibc on x86-64 with FMA. Its path without FMA differs on the first three arguments of exp, a correctly rounding
# library on all the others.
LIBM_EXP = {
    -0.052: "0x1.e60e6ee87a579p-1",
    -0.6: "0x1.18fdd6b9604e3p-1",
    -3.543: "0x1.d9ee305229401p-6",
    -4.231: "0x1.dc60495772bd4p-7",
    -4.264: "0x1.cce98a23dc9eap-7",
}
LIBM_LOG1P = {200.07: "0x1.536f0d700c22cp+2", 200.13: "0x1.5373f0d89d272p+2", 201.56: "0x1.53e8041f2c1dep+2"}
LIBM_MATCHES = all(math.exp(x).hex() == bits for x, bits in LIBM_EXP.items()) and all(
    math.log1p(x).hex() == bits for x, bits in LIBM_LOG1P.items()
)

needs_corpus = pytest.mark.skipif(
    not (CORPUS.is_file() and SPLITS.is_file()), reason="the course's corpus does not lie beside this checkout"
)
needs_libm = pytest.mark.skipif(
    not LIBM_MATCHES, reason="this C library rounds exp or log1p otherwise than the one behind the published digits"
)


@cache
def partition(name: str) -> list[bytes]:
    """Read the documents of one partition of the published corpus, in manifest order."""
    texts = {document["id"]: document["text"].encode() for document in json.loads(CORPUS.read_text("utf-8"))}
    return [texts[key] for key in json.loads(SPLITS.read_text("utf-8"))[name]]


@cache
def scored(name: str) -> list[Window]:
    """List the windows of one partition under the published merges."""
    return [window for text in partition(name) for window in windows(encode_document(text, MERGES), 2)]


@dataclass(frozen=True)
class Run:
    """The batch losses, first gradients and parameter digests of a whole training run, and where it ended."""

    losses: list[float]
    first_gradients: list[Matrix]
    digests: list[str]
    parameters: list[Matrix]


@cache
def published_run() -> Run:
    """Train the published fifteen updates."""
    parameters, optimizer = initial_parameters(23), AdamW()
    order = plan(len(scored("train")), 23)
    losses: list[float] = []
    first: list[Matrix] = []
    digests: list[str] = []
    for update in range(15):
        batch = [scored("train")[index] for index in order[64 * update : 64 * (update + 1)]]
        loss, gradients = loss_and_gradients(parameters, batch, math.exp, math.log1p)
        first = first or gradients
        parameters = optimizer.step(parameters, gradients)
        losses.append(loss)
        digests.append(hashlib.sha256(little_endian(parameters)).hexdigest())
    return Run(losses, first, digests, parameters)


def absolute_sum(matrix: Matrix) -> float:
    """Add the absolute values row by row."""
    total = 0.0
    for row in matrix:
        for value in row:
            total += abs(value)
    return total


def test_overlapping_pairs_are_counted_but_replaced_without_overlap() -> None:
    """Three equal letters count their pair twice and lose only one of them to the merge."""
    assert fit_merges([b"zzz", b"ab"], 2) == [(122, 122), (97, 98)]
    assert encode(b"aaa", [(97, 97)]) == [258, 99]


def test_tied_pairs_go_to_the_smallest_and_merges_stay_inside_documents() -> None:
    """Count-one pairs are merged, smallest first, and fitting ends when every document is one token."""
    assert fit_merges([b"ba", b"ab"], 9) == [(97, 98), (98, 97)]
    assert fit_merges([b"a", b"b", b""], 9) == []


def test_encoding_matches_the_published_vectors() -> None:
    """The merges of the course turn these words into these ids."""
    assert encode(b"bee ", MERGES) == [100, 103, 265]
    assert encode(" а".encode(), MERGES) == [258, 178]
    assert encode("река".encode(), MERGES) == [264, 261, 210, 188, 259]
    assert encode(b"At", MERGES) == [67, 118]
    assert encode("\U0001f980".encode(), MERGES) == [242, 161, 168, 130]
    assert encode_document(b"", MERGES) == [0, 1]


def test_windows_end_at_the_last_token() -> None:
    """A document of L tokens has L - C windows, and one too short has none."""
    assert windows([0, 7, 8, 1], 2) == [((0, 7), 8), ((7, 8), 1)]
    assert windows([0, 1], 2) == []


def test_splitmix_matches_the_published_vectors() -> None:
    """Seeds 0 and 23 give the published words and unit doubles."""
    zero, seeded, unit = SplitMix64(0), SplitMix64(23), SplitMix64(23)
    assert [zero.draw() for _ in range(4)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
        0xF88BB8A8724C81EC,
    ]
    assert [seeded.draw() for _ in range(3)] == [0xE8D7DA001B0181D6, 0x993810E13B72E5F7, 0x04464E105D48FB2E]
    assert [unit.unit() for _ in range(3)] == [0.9095436334855602, 0.5985117483027795, 0.016697768206800023]


def test_bounded_draws_reject_at_the_low_end() -> None:
    """Words under 2^64 mod n are drawn again: 1 for n = 3, and 2^63 - 1 for n = 2^63 + 1."""
    words = iter([0, 1, 2**63 - 2, 2**63 - 1])
    assert below(lambda: next(words), 3) == 1
    assert below(lambda: next(words), 2**63 + 1) == 2**63 - 1


def test_plan_visits_the_published_windows_first_and_last() -> None:
    """Seed 23 shuffles the 1836 windows of the course into the published order with 1835 draws."""
    descriptors = [(document, start) for document, length in enumerate(TRAIN_LENGTHS) for start in range(length - 2)]
    order = [descriptors[index] for index in plan(1836, 23)]
    assert order[:8] == [(2, 71), (5, 252), (7, 51), (1, 81), (1, 108), (5, 37), (5, 176), (0, 80)]
    assert order[-3:] == [(3, 5), (5, 285), (5, 54)]
    assert descriptors == sorted(order)
    generator = SplitMix64(23)
    shuffle(1836, generator)
    assert generator.state == 0x17A584A36AE76A9E


def test_initial_parameters_match_the_published_digest() -> None:
    """All 3384 initial values have the published bits, and one stream of 3384 draws makes them."""
    parameters = initial_parameters(23)
    assert parameters[0][0] == [0.12210232056346292, 0.02937052877164861, -0.1440928858622607, 0.1263200298264403]
    assert hashlib.sha256(little_endian(parameters)).hexdigest() == INITIAL_DIGEST
    generator = SplitMix64(23)
    assert parameters == [draw_matrix(generator, fan_in, fan_out) for fan_in, fan_out in SHAPES]
    assert generator.state == 0x6D510C0AA09835AF


def test_four_word_model_matches_the_hand_worked_logits() -> None:
    """With one feature a word the forward pass is one product, and masks choose among h, 2h, -h and 0."""
    embedding = [[0.1], [0.2], [0.3], [0.4]]
    parameters = [embedding, [[1.0], [0.0]], [[0.0], [1.0]], [[2.0]], [[1.0, 2.0, -1.0, 0.0]]]
    hidden = 2.0 * (0.2 / (1.0 + math.exp(-0.2))) * 0.3
    logits = forward(parameters, (1, 2), math.exp).logits
    assert pytest.approx([hidden, 2.0 * hidden, -hidden, 0.0], rel=1e-15) == logits
    assert [next_token(parameters, (1, 2), math.exp, masked) for masked in ((), (1,), (0, 1))] == [1, 0, 3]


def test_greedy_stops_at_the_end_marker_without_keeping_it() -> None:
    """EOS ends the continuation and is not part of it; otherwise the window slides until the limit."""
    embedding = [[0.0], [0.0], [1.0], [2.0]]
    sliding = [embedding, [[0.0], [1.0]], [[0.0], [1.0]], [[1.0]], [[9.0, -1.0, -1.0, 1.0]]]
    ending = [*sliding[:4], [[9.0, 2.0, -1.0, 1.0]]]
    assert greedy(sliding, (3, 2), 3, math.exp) == ([3, 3, 3], "limit")
    assert greedy(ending, (3, 2), 3, math.exp) == ([], "eos")


def test_tied_maxima_are_skipped_once() -> None:
    """Equal logits cost log1p(V - 1), and a second exact maximum stays in the tail."""
    assert math.log1p(3.0) == row_loss([0.5, 0.5, 0.5, 0.5], 2, math.exp, math.log1p)
    assert math.log1p(1.0 + math.exp(-1.0)) == row_loss([2.0, 1.0, 2.0], 0, math.exp, math.log1p)


def test_mean_loss_survives_a_gap_beyond_the_largest_double() -> None:
    """Where the gap overflows, its two ends are divided by the row count first."""
    rows = [[1e308, -1e308], [1e308, -1e308]]
    assert mean_loss(rows, [1, 0], math.exp, math.log1p) == 1e308


def test_gradients_match_central_differences() -> None:
    """Every gradient of a small model agrees with a symmetric difference quotient of its loss."""
    parameters = initial_parameters(5, ((5, 2), (4, 3), (4, 3), (3, 3), (3, 5)))
    batch: list[Window] = [((0, 3), 4), ((3, 3), 1), ((2, 4), 2)]
    _, gradients = loss_and_gradients(parameters, batch, math.exp, math.log1p)
    width = 1e-5
    for index, matrix in enumerate(parameters):
        for i, row in enumerate(matrix):
            for j, value in enumerate(row):
                row[j] = value + width
                above, _ = loss_and_gradients(parameters, batch, math.exp, math.log1p)
                row[j] = value - width
                beneath, _ = loss_and_gradients(parameters, batch, math.exp, math.log1p)
                row[j] = value
                assert gradients[index][i][j] == pytest.approx((above - beneath) / (2.0 * width), abs=1e-9)


def test_adamw_decays_the_old_weight_and_multiplies_its_powers() -> None:
    """Without a gradient only the decay acts; fifteen products of 0.9 are not 0.9 to the fifteenth."""
    optimizer = AdamW()
    parameters = optimizer.step([[[1.0]]], [[[0.0]]])
    assert parameters == [[[0.9999]]]
    for _ in range(14):
        parameters = optimizer.step(parameters, [[[0.0]]])
    assert optimizer.power1 == 0.2058911320946491


def test_first_adamw_step_moves_by_the_learning_rate() -> None:
    """Bias correction makes the first direction g / (|g| + epsilon)."""
    updated = AdamW(weight_decay=0.0).step([[[1.0, 1.0]]], [[[0.25, -4.0]]])
    assert [[pytest.approx([0.99, 1.01], rel=1e-9)]] == updated


@needs_libm
def test_probe_matches_the_published_hidden_state_and_logits() -> None:
    """Context (67, 118) before any update gives the published doubles."""
    row = forward(initial_parameters(23), (67, 118), math.exp)
    assert row.hidden == [
        -0.0024482250853788564,
        -5.1254324384814455e-05,
        0.003220453964978056,
        0.0034768149418409975,
        0.0020327112418576376,
        0.004016485472875636,
        0.0037274716748420694,
        0.0038741495677667493,
    ]
    assert row.logits[:6] == [
        7.503229858391573e-05,
        -3.663631298167757e-05,
        0.0004958339211282289,
        -0.0010465573860589097,
        -5.5310697892755587e-05,
        -0.0010323506957229311,
    ]
    assert (row.logits.index(max(row.logits)), max(row.logits)) == (44, 0.002349945581982525)


@needs_corpus
def test_published_corpus_gives_the_published_merges_and_lengths() -> None:
    """The training texts yield the eight merges, and both partitions the document lengths and window counts."""
    assert fit_merges(partition("train"), 8) == MERGES
    assert [len(encode_document(text, MERGES)) for text in partition("train")] == TRAIN_LENGTHS
    assert [len(encode_document(text, MERGES)) for text in partition("validation")] == VALIDATION_LENGTHS
    assert (len(scored("train")), len(scored("validation"))) == (1836, 467)


@pytest.mark.exhaustive
@needs_corpus
def test_published_run_is_reproduced_up_to_rounding() -> None:
    """Losses, first gradients and the greedy continuation agree on any C library."""
    run = published_run()
    assert pytest.approx(BATCH_LOSSES, abs=1e-12) == run.losses[:3]
    assert pytest.approx(FIRST_GRADIENT_L1, abs=1e-12) == [absolute_sum(matrix) for matrix in run.first_gradients]
    assert ([259, *[211] * 11], "limit") == greedy(run.parameters, (67, 118), 12, math.exp)


@pytest.mark.exhaustive
@needs_corpus
@needs_libm
def test_published_run_is_reproduced_in_every_bit() -> None:
    """Batch losses, first gradients, evaluation losses and parameter digests are the published ones exactly."""
    run = published_run()
    assert run.losses[:3] == BATCH_LOSSES
    assert run.losses[14] == 5.558569890442942
    assert [absolute_sum(matrix) for matrix in run.first_gradients] == FIRST_GRADIENT_L1
    assert run.digests[:3] == DIGESTS
    assert run.digests[7] == "74fa049d864668fac9251acd0a6c24ebb592d163b71f7483d082022fbaf31ed9"
    assert run.digests[14] == "165aa293654ea10234b7caf6a8c32f60335ef52de914b0e95ca0a1af27f8feac"
    exp, log1p = math.exp, math.log1p
    assert evaluate(initial_parameters(23), scored("validation"), 512, exp, log1p) == 5.583482014066621
    assert evaluate(run.parameters, scored("train"), 512, exp, log1p) == 5.555850115396947
    assert evaluate(run.parameters, scored("validation"), 512, exp, log1p) == 5.557362072253466
