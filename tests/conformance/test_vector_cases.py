"""The vector cases of the neural n-gram: every answer found a second way, and the file in agreement with the suite."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from typing import Any

import mpmath
import pytest

from cai_conformance.backends.ngram.experiment import prepare, train_once
from cai_conformance.goldens import locate
from cai_conformance.suites.ngram.suite import COURSE_NGRAM_SUITE
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parser import parse
from cai_conformance.vectors import read_vectors
from cai_reference.arithmetic import STRICT, from_hex_bits, sha256_of, ulp_distance
from cai_reference.models.neural_ngram import PARAMETER_NAMES
from support_vector_oracle import (
    OPERATIONS,
    Tools,
    compiled_functions,
    read_safetensors,
    second_answer,
    shipped_matrices,
)

FOLDER = locate() / "course.ngram"
CASES: list[dict[str, Any]] = json.loads((FOLDER / "vectors.json").read_bytes())["cases"]
IDS = [case["id"] for case in CASES]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """Elementary functions compiled from C, and the shipped weights read by hand."""
    functions = compiled_functions(tmp_path_factory.mktemp("elementary"))
    if functions is None:
        pytest.skip("no C compiler (cc, gcc or clang) on the path, so strict/1 has no second implementation here")
    return Tools(functions, shipped_matrices((FOLDER / "weights.safetensors").read_bytes()))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_second_implementation_gives_the_same_answer(case: dict[str, Any], tools: Tools) -> None:
    """Plain Python loops and elementary functions in C give every id, and every double bit for bit."""
    assert second_answer(case["operation"], case["input"], tools) == case["expected"]


HARD = [case for case in CASES if case["id"].endswith("-hard")]


@pytest.mark.parametrize("case", HARD, ids=[case["id"] for case in HARD])
def test_hard_arguments_tell_a_correctly_rounded_function_from_ours(case: dict[str, Any]) -> None:
    """At each of them the correctly rounded double is the neighbour of the one that `strict/1` gives."""
    function = getattr(mpmath, case["input"]["function"])
    for argument, result in zip(case["input"]["arguments"], case["expected"]["values"], strict=True):
        with mpmath.workprec(200):
            exact = float(function(mpmath.mpf(from_hex_bits(argument))))
        assert 1 == ulp_distance(exact, from_hex_bits(result))


def test_every_operation_is_asked_for() -> None:
    """No operation of the second implementation is without a case."""
    assert set(OPERATIONS) == {case["operation"] for case in CASES}


def test_the_ids_are_unique_and_plain() -> None:
    """An id is its check and its case, stands once, and holds nothing but [a-z0-9_.-]."""
    assert [(name, 1) for name in IDS] == list(Counter(IDS).items())
    assert IDS == [f"{case['check']}.{case['case']}" for case in CASES]
    assert [] == [name for name in IDS if not re.fullmatch(r"[a-z0-9_.-]+", name)]


def test_the_file_holds_the_cases_of_the_suite() -> None:
    """Names, inputs and purposes in the file are those that the suite asks, in its order."""
    shipped = read_vectors((FOLDER / "vectors.json").read_bytes()).cases
    asked = COURSE_NGRAM_SUITE.cases()
    assert [(case.identifier, case.operation, case.input, case.sees) for case in asked] == [
        (case.identifier, case.operation, case.input, case.sees) for case in shipped
    ]
    assert all(case.expected is not None for case in shipped)


def test_every_case_belongs_to_a_check_that_announces_it() -> None:
    """A check lists exactly the cases that name it; `init.stats` judges answers of `init.golden` by their law."""
    announced = {check.name: list(check.cases) for check in COURSE_NGRAM_SUITE.checks if check.of_edges and check.cases}
    assert ["law", "distinct"] == announced.pop("init.stats")
    named: dict[str, list[str]] = {}
    for case in CASES:
        named.setdefault(case["check"], []).append(case["case"])
    assert named == announced


def test_the_shipped_weights_fit_every_precision() -> None:
    """Each weight is a float32 that bfloat16 and float16 hold exactly: 8 significant bits, none below 2^-24."""
    tensors = read_safetensors((FOLDER / "weights.safetensors").read_bytes())
    assert list(PARAMETER_NAMES) == sorted(tensors, key=PARAMETER_NAMES.index)
    patterns = [pattern for _, found in tensors.values() for pattern in found]
    assert 3384 == len(patterns)
    for pattern in patterns:
        exponent, fraction = pattern >> 23 & 0xFF, pattern & 0x7FFFFF
        assert 0 == pattern & 0xFFFF, "bfloat16 is the upper half of float32"
        assert exponent < 127 + 15, "far from the largest float16"
        if exponent == 0:
            assert 0 == fraction, "a subnormal float32 is far below the smallest float16"
            continue
        significand = 0x800000 | fraction
        lowest_bit = (significand & -significand).bit_length() - 1 + exponent - 127 - 23
        assert lowest_bit >= -24, "the smallest float16 is 2^-24"


def test_the_shipped_weights_survive_a_float16() -> None:
    """Packing each weight as float16 and back loses nothing."""
    for matrix in shipped_matrices((FOLDER / "weights.safetensors").read_bytes()):
        for row in matrix:
            assert row == list(struct.unpack(f"<{len(row)}e", struct.pack(f"<{len(row)}e", *row)))


def test_the_shipped_weights_are_the_trained_ones_rounded() -> None:
    """They lie within 2^-8, relatively, of the parameters whose digest closes the golden trace."""
    own = COURSE_NGRAM_SUITE.default_input()
    trained = train_once(prepare(own.corpus, own.splits), STRICT).final_parameters
    last = parse((FOLDER / "trace.txt").read_bytes(), grammar_of).all("BITS")[-1]
    assert last.get("parameters") == sha256_of(trained)
    shipped = shipped_matrices((FOLDER / "weights.safetensors").read_bytes())
    for matrix, values in zip(shipped, trained, strict=True):
        for rounded, exact in zip(matrix, values.tolist(), strict=True):
            assert all(abs(one - other) <= 2.0**-8 * abs(other) for one, other in zip(rounded, exact, strict=True))
