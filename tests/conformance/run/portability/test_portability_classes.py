"""The classes of records: each from hand-made traces, with distances worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cai_conformance.run.portability.classes import MOST_ULP, BitClass, RecordClass, class_of, classify, worst_of
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.records import Trace
from support_portability import trace_of

GRAMMAR = grammar_of("cai.hybrid")
assert GRAMMAR is not None

STAGE, LOSS, DECODE, BITS = "STAGE index=0", "LOSS step=0", "DECODE arm=full prompt=0", "BITS step=0"
GENERATE = "GENERATE arm=full prompt=0"


def classes(*others: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return what moves under settings a, b, …, each of which makes some changes, as text by label."""
    assert GRAMMAR is not None
    traces = {chr(ord("a") + place): trace_of(*changes) for place, changes in enumerate(others)}
    found = classify(trace_of(), traces, GRAMMAR)
    return {label: str(each) for label, each in found.items() if each.standing is not BitClass.INVARIANT}


class TestOneSetting:
    """What one other trace says of each record."""

    def test_the_same_texts_are_invariant(self) -> None:
        """All six records have a class."""
        assert GRAMMAR is not None
        found = classify(trace_of(), {"a": trace_of()}, GRAMMAR)
        assert dict.fromkeys([STAGE, LOSS, DECODE, GENERATE, "PROOF", BITS], RecordClass()) == found

    def test_the_next_double_is_one_ulp_away(self) -> None:
        """1 + 2^-52 beside 1."""
        assert {STAGE: "1 ULP"} == classes((("3ff0000000000000", "3ff0000000000001"),))

    def test_the_largest_distance_of_a_record_counts(self) -> None:
        """Five below 2, where ULP are half as large, and one above 1."""
        changes = (("4000000000000000", "3ffffffffffffffb"), ("3ff0000000000000", "3ff0000000000001"))
        assert {STAGE: "5 ULP"} == classes(changes)

    def test_a_decimal_has_the_distance_of_its_bits(self) -> None:
        """They stand in another record, which moves as well."""
        changes = (("train=0.500000", "train=0.500001"), ("train=3fe0000000000000", "train=3fe0000000000007"))
        assert {LOSS: "7 ULP", BITS: "7 ULP"} == classes(changes)

    @pytest.mark.parametrize(
        ("before", "after", "label", "text"),
        [
            ("norm=2.236068", "norm=2.236071", STAGE, "token-stable: 3 in the last digit"),
            ("[0.100000, 0", "[-0.100000, 0", DECODE, "token-stable: 200000 in the last digit"),
            ("a" * 64, "d" * 64, DECODE, "token-stable: digests"),
            ("b" * 64, "d" * 64, BITS, "token-stable: digests"),
            ("rollback=exact", "rollback=close", "PROOF", "token-stable: digests"),
            ("logits=close", "logits=bitwise", "PROOF", "token-stable: digests"),
            ("3ff0000000000000", "3ff0000000100000", STAGE, "1048576 ULP"),
            ("3ff0000000000000", "3ff0000000100001", STAGE, "token-stable: 1048577 ULP"),
        ],
    )
    def test_more_than_doubles_or_too_much(self, before: str, after: str, label: str, text: str) -> None:
        """Digests, decimals without bits, grades of bits, and more than 2^20 ULP."""
        assert {label: text} == classes(((before, after),))

    @pytest.mark.parametrize(
        ("before", "after", "label", "text"),
        [
            ("ids=[7, 8]|margins", "ids=[7, 9]|margins", DECODE, "unstable in ids"),
            ("ids=[7, 8]|margins", "ids=[7]|margins", DECODE, "unstable in ids"),
            ("text=ab", "text=ac", GENERATE, "unstable in text"),
            ("forwards=2", "forwards=3", DECODE, "unstable in forwards"),
            ("logits=close", "logits=different", "PROOF", "unstable in logits"),
            ("arms=equal", "arms=different", "PROOF", "unstable in arms"),
            ("norm=2.236068", "norm=nan", STAGE, "unstable in norm"),
            ("bits=[3ff0000000000000", "bits=[7ff8000000000000", STAGE, "unstable in bits"),
            ("GENERATE|arm=full|prompt=0|ids=[7, 8]|text=ab|stop=limit", "", GENERATE, "unstable in missing"),
        ],
    )
    def test_tokens_words_and_shapes_must_stay(self, before: str, after: str, label: str, text: str) -> None:
        """The field is named."""
        assert {label: text} == classes(((before, after),))

    def test_a_record_too_many_is_unstable(self) -> None:
        """Under its own label."""
        line = "LOSS|step=0|train=0.500000|validation=0.250000"
        changes = ((line, f"{line}\n{line.replace('step=0', 'step=9')}"),)
        assert {"LOSS step=9": "unstable in extra"} == classes(changes)

    def test_other_envelopes_have_no_common_class(self) -> None:
        """Rather than a table of nonsense."""
        assert GRAMMAR is not None
        found = trace_of()
        other = Trace((replace(found.envelope, arithmetic="libm/1").record, *found.records[1:]))
        with pytest.raises(ValueError, match="envelopes"):
            classify(found, {"a": other}, GRAMMAR)


class TestSeveralSettings:
    """The worst of all of them."""

    def test_distances_are_the_largest_of_all_settings(self) -> None:
        """A double under one, a digest under another: both are told."""
        one = (("train=3fe0000000000000", "train=3fe0000000000002"),)
        two = (("train=3fe0000000000000", "train=3fe0000000000001"), ("b" * 64, "d" * 64))
        assert {BITS: "token-stable: 2 ULP, digests"} == classes(one, two)

    def test_the_setting_is_that_of_the_worst(self) -> None:
        """Here the second."""
        assert GRAMMAR is not None
        one, two = trace_of(("b" * 64, "d" * 64)), trace_of(("step=0|parameters", "step=0|parametres"))
        found = classify(trace_of(), {"a": one, "b": two}, GRAMMAR)[BITS]
        assert (BitClass.UNSTABLE, "b") == (found.standing, found.setting)

    def test_the_record_that_moves_most(self) -> None:
        """Classes come before distances, and what does not move is none."""
        moved = [("x", RecordClass(ulp=9)), ("y", RecordClass(digests=True)), ("z", RecordClass())]
        assert ("y", RecordClass(digests=True)) == worst_of(moved)
        assert worst_of([("z", RecordClass())]) is None


class TestTexts:
    """A class as text, and back."""

    @pytest.mark.parametrize(
        "found",
        [
            RecordClass(),
            RecordClass(ulp=1, setting="a"),
            RecordClass(ulp=MOST_ULP + 1, setting="a"),
            RecordClass(units=3, setting="a"),
            RecordClass(2, 3, True, "", "a"),
            RecordClass(digests=True, setting="a"),
            RecordClass(field="ids", setting="a"),
            RecordClass(2, 3, True, "ids", "a"),
        ],
        ids=str,
    )
    def test_nothing_is_lost(self, found: RecordClass) -> None:
        """Not even where it is unstable."""
        assert found == class_of(str(found), "a")

    @pytest.mark.parametrize(
        "text",
        ["", "stable", "0 ULP", "ULP", "token-stable: 3 ULP", "token-stable: ", "2 ULP, digests", "unstable in "],
    )
    def test_what_no_class_prints_is_refused(self, text: str) -> None:
        """With the text."""
        with pytest.raises(ValueError, match="is no class"):
            class_of(text, "a")
