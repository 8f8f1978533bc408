"""The grammar of `course.ngram`: the published trace of the neural n-gram, with conventions and bits around it.

Profiles `golden` (the embedded corpus), `published` (the course's corpus) and `foreign` (any other) have the published
records in the published order; `edges` has the answers to the vector cases of the suite.
"""

from __future__ import annotations

from cai_conformance.trace.grammar import Exact, FieldRule, Grammar, RecordRule
from cai_conformance.trace.grammars.common import CONVENTION, SAMPLE, integers, reals
from cai_conformance.trace.values import FieldType

SUITE = "course.ngram"

_INTEGER, _INTEGERS = FieldType.INTEGER, FieldType.INTEGERS
_REAL, _REALS = FieldType.REAL6, FieldType.REALS6
_BITS, _BITS_LIST = FieldType.BITS, FieldType.BITS_LIST
_WORD = FieldType.WORD


def _probe(field: str) -> Exact:
    """The bits of the probe before the first update."""
    return Exact("BITS", field, key=(("step", "0"),))


def _at_step(field: str) -> Exact:
    """The bits at the step of the printing record."""
    return Exact("BITS", field, same=(("step", "step"),))


CONFIG = RecordRule(
    "CONFIG",
    (
        *integers("vocabulary", "merges", "context", "embedding", "concatenated", "swiglu_inner", "hidden"),
        *integers("parameters", "batch", "evaluation_batch", "init_seed", "shuffle_seed", "max_steps"),
        *reals("lr", "beta1", "beta2"),
        FieldRule("epsilon", FieldType.REAL9),
        *reals("weight_decay"),
    ),
)

SPLIT = RecordRule(
    "SPLIT",
    (
        *integers("train_documents", "validation_documents"),
        FieldRule("test_text_used", _WORD, words=("no", "yes")),
        *integers("train_contexts", "validation_contexts", "train_batches"),
        *integers("train_evaluation_batches", "validation_evaluation_batches"),
    ),
)

STAGE = RecordRule(
    "STAGE",
    (
        FieldRule("index", _INTEGER, words=("0", "1", "2", "3", "4")),
        FieldRule("name", _WORD, words=("context_ids",), variants=("0",)),
        FieldRule("name", _WORD, words=("embeddings",), variants=("1",)),
        FieldRule("name", _WORD, words=("concatenated",), variants=("2",)),
        FieldRule("name", _WORD, words=("hidden",), variants=("3",)),
        FieldRule("name", _WORD, words=("logits",), variants=("4",)),
        FieldRule("shape", _INTEGERS),
        FieldRule("ids", _INTEGERS, variants=("0",)),
        FieldRule("values", _REALS, variants=("1", "2"), exact=_probe("embeddings")),
        FieldRule("values", _REALS, variants=("3",), exact=_probe("hidden")),
        FieldRule("preview", _REALS, variants=("4",), exact=_probe("logits")),
        FieldRule("argmax", _INTEGER, variants=("4",)),
        FieldRule(
            "argmax_logit", _REAL, variants=("4",), exact=Exact("BITS", "logits", key=(("step", "0"),), at="argmax")
        ),
    ),
    minimum=5,
    maximum=5,
    ascending=True,
    variant="index",
)

LOSS = RecordRule(
    "LOSS",
    (
        FieldRule("step", _INTEGER),
        FieldRule("train", _REAL, exact=_at_step("train")),
        FieldRule("validation", _REAL, exact=_at_step("validation")),
    ),
    maximum=None,
    ascending=True,
)

RESULT = RecordRule(
    "RESULT",
    (
        FieldRule("step", _INTEGER),
        FieldRule("initial_validation", _REAL, exact=_probe("validation")),
        FieldRule("final_validation", _REAL, exact=_at_step("validation")),
        FieldRule("improvement", _REAL),
    ),
)

GENERATE = RecordRule(
    "GENERATE",
    (
        FieldRule("prompt", FieldType.STRING),
        FieldRule("prompt_ids", _INTEGERS),
        FieldRule("ids", _INTEGERS),
        FieldRule("stop", _WORD, words=("eos", "limit")),
    ),
)

PROOF = RecordRule(
    "PROOF",
    (
        FieldRule("replay", _WORD, words=("bitwise", "changed")),
        FieldRule("test_text", _WORD, words=("not_encoded_or_scored", "encoded_or_scored")),
        FieldRule("target", _WORD, words=("final_shifted",)),
        FieldRule("gradient_l1", _WORD, words=("five_positive_finite", "invalid")),
        FieldRule("parameter_nodes", _WORD, words=("preserved", "replaced")),
        FieldRule("gradients", _WORD, words=("cleared", "retained")),
        FieldRule("generation", _WORD, words=("deterministic",)),
    ),
)

BITS = RecordRule(
    "BITS",
    (
        FieldRule("step", _INTEGER),
        FieldRule("parameters", FieldType.SHA256),
        FieldRule("moments", FieldType.SHA256),
        FieldRule("batch_loss", _BITS, required=False),
        FieldRule("train", _BITS, required=False),
        FieldRule("validation", _BITS, required=False),
        FieldRule("embeddings", _BITS_LIST, required=False, variants=("0",)),
        FieldRule("hidden", _BITS_LIST, required=False, variants=("0",)),
        FieldRule("logits", _BITS_LIST, required=False, variants=("0",)),
        FieldRule("gradient_l1", _BITS_LIST, required=False, variants=("1",)),
    ),
    # A backend without exact bits (arithmetic `fast`, another language) leaves them out; the judge of bits then skips.
    minimum=0,
    maximum=None,
    ascending=True,
    variant="step",
)

_BODY = (CONVENTION, CONFIG, SPLIT, STAGE, LOSS, RESULT, GENERATE, PROOF, BITS)

COURSE_NGRAM = Grammar(
    SUITE, {"golden": _BODY, "published": _BODY, "foreign": _BODY, "edges": (CONVENTION, SAMPLE)}, negative_zero=True
)
