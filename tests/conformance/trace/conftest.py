"""Traces for the tests, written out by hand and sealed without the formatter under test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Seal = Callable[[Sequence[str]], str]

ZERO = "sha256:" + "0" * 64

CONVENTION = (
    "CONVENTION|rope=none|rope_base=none|window=none|argmax=first-maximum|softmax_scale=one|swiglu_gate=gate-is-silu"
    "|norm=none|norm_eps=none|tie=untied|adamw=decoupled-decay|loss=mean-nll|padding=none"
)


def _opening(profile: str) -> str:
    return f"TRACE|grammar=1|suite=course.ngram|suite_version=1.0|profile={profile}|arithmetic=strict/1|vectors={ZERO}"


@pytest.fixture(scope="session")
def seal() -> Seal:
    """From the lines before END to the whole text."""

    def sealed(lines: Sequence[str]) -> str:
        text = "".join(line + "\n" for line in lines)
        return f"{text}END|records={len(lines) - 1}|digest=sha256:{hashlib.sha256(text.encode()).hexdigest()}\n"

    return sealed


@pytest.fixture(scope="session")
def edges_lines() -> tuple[str, ...]:
    """TRACE, CONVENTION (line 2) and three samples (lines 3 to 5)."""
    return (
        _opening("edges"),
        CONVENTION,
        r"SAMPLE|case=decode.space|draw=0|ids=[34, 259]|text=\x20а",
        "SAMPLE|case=decode.space|draw=1|ids=[]|text=",
        "SAMPLE|case=loss.uniform|draw=0|values=[3fe62e42fefa39ef, 8000000000000000]",
    )


@pytest.fixture(scope="session")
def golden_lines() -> tuple[str, ...]:
    """A small but complete n-gram trace: the body is on lines 3 to 14, BITS on lines 15 and 16."""
    return (
        _opening("golden"),
        CONVENTION,
        "CONFIG|vocabulary=266|merges=8|context=2|embedding=2|concatenated=4|swiglu_inner=4|hidden=2|parameters=99"
        "|batch=64|evaluation_batch=512|init_seed=23|shuffle_seed=23|max_steps=1|lr=0.010000|beta1=0.900000"
        "|beta2=0.999000|epsilon=0.000000010|weight_decay=0.010000",
        "SPLIT|train_documents=8|validation_documents=2|test_text_used=no|train_contexts=100|validation_contexts=20"
        "|train_batches=2|train_evaluation_batches=1|validation_evaluation_batches=1",
        "STAGE|index=0|name=context_ids|shape=[1, 2]|ids=[67, 118]",
        "STAGE|index=1|name=embeddings|shape=[1, 2, 2]|values=[0.500000, -0.000000, 0.250000, -1.000000]",
        "STAGE|index=2|name=concatenated|shape=[1, 4]|values=[0.500000, -0.000000, 0.250000, -1.000000]",
        "STAGE|index=3|name=hidden|shape=[1, 2]|values=[1.000000, 2.000000]",
        "STAGE|index=4|name=logits|shape=[1, 3]|preview=[1.000000, 2.000000]|argmax=2|argmax_logit=4.000000",
        "LOSS|step=0|train=5.500000|validation=5.750000",
        "LOSS|step=1|train=5.250000|validation=5.500000",
        "RESULT|step=1|initial_validation=5.750000|final_validation=5.500000|improvement=0.250000",
        "GENERATE|prompt=At|prompt_ids=[67, 118]|ids=[259, 211]|stop=limit",
        "PROOF|replay=bitwise|test_text=not_encoded_or_scored|target=final_shifted|gradient_l1=five_positive_finite"
        "|parameter_nodes=preserved|gradients=cleared|generation=deterministic",
        f"BITS|step=0|parameters={ZERO}|moments={ZERO}|train=4016000000000000|validation=4017000000000000"
        "|embeddings=[3fe0000000000000, be112e0be826d695, 3fd0000000000000, bff0000000000000]"
        "|hidden=[3ff0000000000000, 4000000000000000]|logits=[3ff0000000000000, 4000000000000000, 4010000000000000]",
        f"BITS|step=1|parameters={ZERO}|moments={ZERO}|train=4015000000000000|validation=4016000000000000"
        "|gradient_l1=[3ff0000000000000]",
    )


@pytest.fixture(scope="session")
def published() -> bytes:
    """The published trace of chapter 23, where the course data lie beside the repository."""
    path = Path(__file__).parents[4] / "shared" / "data" / "course" / "diagram-trace.txt"
    if not path.is_file():
        pytest.skip("the published course data do not lie beside the repository")
    return path.read_bytes()
