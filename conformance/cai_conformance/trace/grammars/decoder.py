"""The grammar that the decode suites share: one training run, several decode arms, the caches they keep.

Profiles `golden` (the suite's own size), `published` (the published size) and `foreign` (the user's stories) have the
same records; `edges` has the answers to the vector cases, and `stages` every value of every stage of one of them.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.trace.grammar import Exact, FieldRule, Grammar, RecordRule
from cai_conformance.trace.grammars.common import CONVENTION, SAMPLE, integers, reals
from cai_conformance.trace.values import FieldType

CAI_SUITES: Final = (
    "cai.kv-cache",
    "cai.multi-token",
    "cai.diagonal-ssm",
    "cai.latent-attention",
    "cai.speculative",
    "cai.hybrid",
    "cai.grouped-hybrid",
    "cai.local-global",
    "cai.parallel-block",
)

LLAMA_SUITES: Final = ("llama.dense", "llama.gqa-window")

COURSE_SUITE: Final = "course.decoder"

SUITES: Final = (*CAI_SUITES, *LLAMA_SUITES, COURSE_SUITE)

_INTEGER, _INTEGERS = FieldType.INTEGER, FieldType.INTEGERS
_REAL, _STRING, _WORD = FieldType.REAL6, FieldType.STRING, FieldType.WORD


def _words(name: str, *words: str) -> FieldRule:
    return FieldRule(name, _WORD, words=words)


def config_rule(model: tuple[FieldRule, ...], counts: tuple[str, ...] = ()) -> RecordRule:
    """Return the rule of CONFIG: `model` says what a family's models are made of, `counts` what else is counted."""
    return RecordRule(
        "CONFIG",
        (
            *integers("vocabulary", "merges", "context", "width", "heads", "feed_forward"),
            FieldRule("mixers", _STRING),
            *model,
            *integers("parameters", "weights", *counts),
            *integers("stories", "story_seed", "validation_every", "story_cut"),
            *integers("batch", "evaluation_batch", "steps", "init_seed", "order_seed"),
            *reals("lr", "beta1", "beta2"),
            FieldRule("epsilon", FieldType.REAL9),
            *reals("weight_decay", "clip"),
            *integers("prompts", "prompt_tokens", "new_tokens", "chunk", "block", "slack"),
        ),
    )


CAI_CONFIG = config_rule(
    (
        FieldRule("wiring", _WORD, words=("sequential", "parallel")),
        *integers("window", "latent", "rope", "channels_per_group", "futures"),
    ),
    ("draft_parameters", "draft_weights"),
)

_LLAMA: Final = (
    *integers("key_value_heads", "head_width", "window", "positions"),
    *reals("rope_base"),
    FieldRule("norm_eps", FieldType.REAL9),
    _words("tied", "yes", "no"),
)

LLAMA_CONFIG = config_rule(_LLAMA)

COURSE_CONFIG = config_rule(
    (
        *_LLAMA,
        *integers("stride", "evaluation_stride"),
        FieldRule("rates", FieldType.REALS6),
        FieldRule("checkpoints", _INTEGERS),
    )
)

SPLIT = RecordRule(
    "SPLIT", integers("train_stories", "validation_stories", "train_windows", "validation_windows", "batches")
)

STAGE = RecordRule(
    "STAGE",
    (
        FieldRule("index", _INTEGER),
        FieldRule("name", _WORD),
        FieldRule("shape", _INTEGERS),
        FieldRule("at", _INTEGERS),
        FieldRule("values", FieldType.REALS6, exact=Exact("STAGE", "bits", same=(("index", "index"),))),
        FieldRule("bits", FieldType.BITS_LIST, required=False),
        FieldRule("norm", _REAL),
    ),
    maximum=None,
    ascending=True,
)

_LOSSES: Final = (
    FieldRule("step", _INTEGER),
    FieldRule("train", _REAL, exact=Exact("BITS", "train", same=(("step", "step"),))),
    FieldRule("validation", _REAL, exact=Exact("BITS", "validation", same=(("step", "step"),))),
)

LOSS = RecordRule("LOSS", _LOSSES, maximum=None, ascending=True)

COURSE_LOSS = RecordRule("LOSS", (*_LOSSES, *reals("rate", "norm"), *integers("clipped")), maximum=None, ascending=True)

_RESULTS: Final = (*integers("step"), *reals("initial_validation", "final_validation", "improvement"))

RESULT = RecordRule("RESULT", _RESULTS)

COURSE_RESULT = RecordRule("RESULT", (*_RESULTS, *integers("selected_step"), *reals("selected_validation")))

DECODE = RecordRule(
    "DECODE",
    (
        FieldRule("arm", _WORD),
        FieldRule("prompt", _INTEGER),
        FieldRule("prompt_ids", _INTEGERS),
        FieldRule("ids", _INTEGERS),
        FieldRule("margins", FieldType.REALS6),
        # Of the logits from which the tokens were chosen; not where bits mean nothing.
        FieldRule("logits", FieldType.SHA256, required=False),
        *integers("forwards", "draft_forwards"),
        FieldRule("stop", _WORD, words=("eos", "limit", "context-limit")),
    ),
    maximum=None,
)

DRAFT = RecordRule(
    "DRAFT",
    (FieldRule("arm", _WORD), *integers("prompt", "pass", "proposed", "accepted", "committed", "rolled_back")),
    maximum=None,
)

CACHE = RecordRule(
    "CACHE",
    (
        FieldRule("layer", _INTEGER),
        FieldRule("arm", _WORD),
        *integers("prefix", "floats", "slack", "allocated"),
        FieldRule("formula", _STRING),
    ),
    maximum=None,
)

GENERATE = RecordRule(
    "GENERATE",
    (
        FieldRule("arm", _WORD),
        FieldRule("prompt", _INTEGER),
        FieldRule("ids", _INTEGERS),
        FieldRule("text", _STRING),
        FieldRule("stop", _WORD, words=("eos", "limit", "context-limit")),
    ),
    maximum=None,
)

PROOF = RecordRule(
    "PROOF",
    (
        _words("replay", "bitwise", "equal", "changed"),
        _words("arms", "equal", "different"),
        _words("logits", "bitwise", "close", "different"),
        _words("cache", "exact", "wrong"),
        _words("rollback", "exact", "close", "wrong"),
        _words("witnesses", "met", "missing"),
    ),
)


def _bits_rule(*, every_state: bool) -> RecordRule:
    """Return the rule of BITS; digests may be missing where a run keeps only some of its states."""
    return RecordRule(
        "BITS",
        (
            FieldRule("step", _INTEGER),
            FieldRule("parameters", FieldType.SHA256, required=every_state),
            FieldRule("moments", FieldType.SHA256, required=every_state),
            FieldRule("train", FieldType.BITS, required=False),
            FieldRule("validation", FieldType.BITS, required=False),
        ),
        minimum=0,
        maximum=None,
        ascending=True,
    )


BITS = _bits_rule(every_state=True)

COURSE_BITS = _bits_rule(every_state=False)

_MIDDLE: Final = (DECODE, DRAFT, CACHE, GENERATE, PROOF)


def _grammar(suite: str, *body: RecordRule) -> Grammar:
    given = {"edges": (CONVENTION, SAMPLE), "stages": (CONVENTION, STAGE)}
    return Grammar(suite, {"golden": body, "published": body, "foreign": body, **given})


def _usual(suite: str, config: RecordRule) -> Grammar:
    return _grammar(suite, CONVENTION, config, SPLIT, STAGE, LOSS, RESULT, *_MIDDLE, BITS)


DECODER_GRAMMARS: Final = (
    *(_usual(suite, CAI_CONFIG) for suite in CAI_SUITES),
    *(_usual(suite, LLAMA_CONFIG) for suite in LLAMA_SUITES),
    _grammar(
        COURSE_SUITE, *(CONVENTION, COURSE_CONFIG, SPLIT, STAGE, COURSE_LOSS, COURSE_RESULT), *_MIDDLE, COURSE_BITS
    ),
)
