"""The judge of internal consistency: a trace that contradicts itself fails, wherever the contradiction stands.

The traces are the golden as a foreign trace, so that no golden comes to help, with one field changed.
"""

from __future__ import annotations

import pytest

from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.ngram_recount import judge_consistency, judge_learning
from cai_conformance.verdicts import Outcome
from support_traces import (
    changed,
    evidence_of,
    field_of,
    golden_bytes,
    question,
    question_of,
    sealed,
    with_field,
    without_bits,
)

FOREIGN = changed("profile=golden", "profile=foreign")
NAN = "7ff8000000000000"


def recount(data: bytes) -> tuple[Outcome, str]:
    """Return what the judge of consistency says about a foreign trace."""
    (finding,) = judge_consistency(evidence_of(data, question_of("foreign")))
    return finding.outcome, finding.message


def shorter(record: str, field: str) -> bytes:
    """Return the foreign trace without the last item of a list."""
    return with_field(record, field, field_of(record, field).rpartition(", ")[0] + "]", FOREIGN)


def test_the_golden_agrees_with_itself() -> None:
    """With and without exact bits."""
    assert Outcome.PASS is recount(FOREIGN)[0]
    assert Outcome.PASS is recount(without_bits(FOREIGN))[0]


@pytest.mark.parametrize(
    ("record", "field", "value", "message"),
    [
        ("CONFIG", "vocabulary", "267", "CONFIG, field vocabulary: 267, but 266 follows"),
        ("CONFIG", "merges", "7", "CONFIG, field vocabulary: 266, but 265 follows"),
        ("CONFIG", "concatenated", "9", "CONFIG, field concatenated: 9, but 8 follows"),
        ("CONFIG", "parameters", "3385", "CONFIG, field parameters: 3385, but 3384 follows"),
        ("CONFIG", "batch", "0", "CONFIG, field batch: 0, but a batch has at least one row"),
        ("CONFIG", "evaluation_batch", "-512", "CONFIG, field evaluation_batch: -512, but a batch has at least one"),
        ("CONFIG", "max_steps", "16", "BITS, field step: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], but"),
        ("CONFIG", "max_steps", "999999999999", "BITS, field step: [0, 1,"),
        ("SPLIT", "train_documents", "0", "SPLIT, field train_documents: 0, but no partition is empty"),
        ("SPLIT", "validation_documents", "-1", "SPLIT, field validation_documents: -1, but no partition is empty"),
        ("SPLIT", "train_batches", "1", "SPLIT, field train_batches: 1, but"),
        ("SPLIT", "validation_evaluation_batches", "9", "SPLIT, field validation_evaluation_batches: 9, but"),
        ("SPLIT", "test_text_used", "yes", "SPLIT, field test_text_used: yes, although the test text must stay unseen"),
        ("STAGE|index=0", "shape", "[1, 3]", "STAGE index=0, field shape: [1, 3], but CONFIG gives [1, 2]"),
        ("STAGE|index=3", "values", "[]", "STAGE index=3, field values: 0 items, but 8 follow from CONFIG"),
        ("STAGE|index=4", "preview", "[0.000000]", "STAGE index=4, field preview: 1 items, but 6 follow from CONFIG"),
        ("STAGE|index=4", "argmax", "266", "STAGE index=4, field argmax: 266 is not an id below 266"),
        ("STAGE|index=4", "argmax", "45", "STAGE index=4, field argmax: 45, but 44 follows"),
        ("STAGE|index=4", "argmax_logit", "0.000000", "STAGE index=4, field argmax_logit: prints 0.000000, but"),
        ("LOSS|step=0", "step", "1", "LOSS: there is no record at step 0"),
        ("LOSS|step=8", "step", "9", "BITS step=8, field train: there is no LOSS record of this step"),
        ("LOSS|step=15", "step", "14", "LOSS, field step: 14, but 15 follows"),
        ("LOSS|step=8", "train", "5.000000", "LOSS step=8, field train: prints 5.000000, but its bits are 5.5"),
        ("RESULT", "step", "8", "RESULT, field step: 8, but 15 follows"),
        ("RESULT", "initial_validation", "5.000000", "RESULT, field initial_validation: 5.000000, but LOSS step=0"),
        ("RESULT", "final_validation", "5.000000", "RESULT, field final_validation: 5.000000, but LOSS step=15"),
        ("RESULT", "improvement", "0.500000", "RESULT, field improvement: 0.500000, but the bits of LOSS give 0.03"),
        ("GENERATE", "prompt_ids", "[1, 2]", "GENERATE, field prompt_ids: [1, 2], but STAGE index=0 has [67, 118]"),
        ("GENERATE", "ids", "[2, 1]", "GENERATE, field ids[1]: 1 is not a content id below 266"),
        ("GENERATE", "ids", "[2, 266]", "GENERATE, field ids[1]: 266 is not a content id below 266"),
        ("GENERATE", "ids", "[]", "GENERATE, field stop: limit after 0 tokens, but the limit is 12"),
        ("GENERATE", "stop", "eos", "GENERATE, field stop: eos after 12 tokens, but the limit is 12"),
        ("PROOF", "replay", "changed", "PROOF, field replay: changed"),
        ("PROOF", "test_text", "encoded_or_scored", "PROOF, field test_text: encoded_or_scored"),
        ("PROOF", "gradient_l1", "invalid", "PROOF, field gradient_l1: invalid"),
        ("PROOF", "parameter_nodes", "replaced", "PROOF, field parameter_nodes: replaced"),
        ("PROOF", "gradients", "retained", "PROOF, field gradients: retained"),
        ("BITS|step=1|", "gradient_l1", f"[{'0' * 16}]", "BITS step=1, field gradient_l1: PROOF states five positive"),
        ("BITS|step=1|", "batch_loss", NAN, "BITS step=1, field batch_loss: not every value is finite"),
        ("BITS|step=0|", "hidden", f"[{NAN}]", "BITS step=0, field hidden: 1 items, but 8 follow from CONFIG"),
        ("BITS|step=0|", "logits", "[]", "BITS step=0, field logits: 0 items, but 266 follow from CONFIG (and 2 more)"),
    ],
)
def test_one_changed_field_is_a_contradiction(record: str, field: str, value: str, message: str) -> None:
    """The judge names record and field, of the changed value or of one that depends on it."""
    outcome, found = recount(with_field(record, field, value, FOREIGN))
    assert Outcome.FAIL is outcome
    assert found.startswith(message), found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("record", "field"), [("STAGE|index=1", "values"), ("BITS|step=0|", "logits"), ("STAGE|index=0", "ids")]
)
def test_a_list_that_lost_an_item_is_found(record: str, field: str) -> None:
    """Lengths follow from CONFIG."""
    outcome, message = recount(shorter(record, field))
    assert Outcome.FAIL is outcome
    assert f"field {field}: " in message or "prompt_ids" in message


def test_the_two_views_of_the_embeddings_are_one() -> None:
    """Concatenation changes no value."""
    data = without_bits(FOREIGN)
    values = field_of("STAGE|index=2", "values").replace("0.0", "0.1")
    outcome, message = recount(with_field("STAGE|index=2", "values", values, data))
    expected = "STAGE index=2, field values: other values than STAGE index=1 has"
    assert (Outcome.FAIL, expected) == (outcome, message)


def test_without_bits_the_improvement_may_be_off_by_rounding() -> None:
    """Three printed values, each rounded: half a unit each, and no more."""
    data = without_bits(FOREIGN)
    printed = float(field_of("RESULT", "improvement"))
    for units, expected in ((1, Outcome.PASS), (-1, Outcome.PASS), (2, Outcome.FAIL), (-3, Outcome.FAIL)):
        exact = float(field_of("RESULT", "initial_validation")) - float(field_of("RESULT", "final_validation"))
        value = f"{round(exact, 6) + units * 1e-6:.6f}"
        assert abs(printed - exact) < 1.1e-6
        assert expected is recount(with_field("RESULT", "improvement", value, data))[0]


def test_several_contradictions_are_counted() -> None:
    """The first is told, the rest counted."""
    data = with_field("PROOF", "replay", "changed", with_field("PROOF", "gradients", "retained", FOREIGN))
    assert (Outcome.FAIL, "PROOF, field replay: changed (and 1 more)") == recount(data)


def test_steps_may_not_be_missing_in_the_middle() -> None:
    """Every step has its BITS record, or none has."""
    lines = [line for line in FOREIGN.splitlines(keepends=True) if not line.startswith(b"BITS|step=3|")]
    outcome, message = recount(sealed(b"".join(lines)))
    assert (Outcome.FAIL, True) == (outcome, message.startswith("BITS, field step: [0, 1, 2, 4, 5,"))


def learning(evidence: Evidence) -> tuple[Outcome, str]:
    """Return what the judge of learning says."""
    (finding,) = judge_learning(evidence)
    return finding.outcome, finding.message


class TestLearning:
    """Did training do anything?"""

    def test_losses_that_fell_pass_with_the_amount(self) -> None:
        """In nats, as printed."""
        before, after = (float(field_of(f"LOSS|step={step}|", "validation")) for step in (0, 15))
        expected = f"validation loss fell by {before - after:.6f} nats"
        assert (Outcome.PASS, expected) == learning(evidence_of(golden_bytes()))

    @pytest.mark.parametrize(
        ("field", "value"), [("train", "5.583487"), ("train", "9.000000"), ("train", "nan"), ("validation", "inf")]
    )
    def test_a_loss_that_did_not_fall_fails(self, field: str, value: str) -> None:
        """Equal, higher and no numbers."""
        outcome, message = learning(evidence_of(with_field("LOSS|step=15|", field, value), question()))
        assert (Outcome.FAIL, True) == (outcome, message.startswith(f"LOSS, field {field}: 5.58"))

    @pytest.mark.parametrize(("profile", "expected"), [("golden", Outcome.FAIL), ("foreign", Outcome.PASS)])
    @pytest.mark.parametrize("rise", [-0.009, 0.0, 0.5])
    def test_validation_must_fall_where_it_is_known_to(self, profile: str, expected: Outcome, rise: float) -> None:
        """By a hundredth of a nat; a foreign corpus may be validated on texts that are unlike its training texts."""
        before = float(field_of("LOSS|step=0|", "validation"))
        data = with_field("LOSS|step=15|", "validation", f"{before + rise:.6f}")
        outcome, message = learning(evidence_of(data, question_of(profile)))
        assert expected is outcome
        assert ("rose by 0.500000 nats" in message) == (rise == 0.5 and profile == "foreign")

    def test_a_loss_that_is_no_number_fails_everywhere(self) -> None:
        """On a foreign corpus, too."""
        data = with_field("LOSS|step=15|", "validation", "nan")
        assert Outcome.FAIL is learning(evidence_of(data, question_of("foreign")))[0]
