"""Faults of writing a trace: the numbers are right, and what is written is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from cai_conformance.backends.decoder import records as decoder_records
from cai_conformance.backends.decoder import stages
from cai_conformance.backends.decoder.experiment import DecodeExperiment
from cai_conformance.backends.decoder.llama_plan import LlamaPhase
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.backends.decoder.stages import Stage
from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import COURSE, DENSE, NGRAM, Vehicle, exact, given, run
from cai_conformance.trace import formatting
from cai_conformance.trace.records import Envelope, Record
from cai_reference.arithmetic import Arithmetic
from cai_reference.models.stack import DecoderStack

TRACE: Final = frozenset({Place.TRACE})


def _digits_cut_off(planting: Planting) -> None:
    right = formatting.format_real

    def wrong(value: float, digits: int = 6, *, negative_zero: bool = False) -> str:
        if not math.isfinite(value):
            return right(value, digits, negative_zero=negative_zero)
        scale = 10.0**digits
        return right(math.trunc(value * scale) / scale, digits, negative_zero=negative_zero)

    planting.function(right, wrong)


def _bits_of_single(planting: Planting) -> None:
    """Write the bits of a value that was rounded to 24 bits on the way."""
    right = formatting.format_bits

    def wrong(value: float) -> str:
        mantissa, exponent = math.frexp(value)
        return right(math.ldexp(round(mantissa * 2.0**24) / 2.0**24, exponent))

    planting.function(right, wrong)


def _nan_as_zero(planting: Planting) -> None:
    real, bits = formatting.format_real, formatting.format_bits

    def wrong(value: float, digits: int = 6, *, negative_zero: bool = False) -> str:
        return real(0.0 if math.isnan(value) else value, digits, negative_zero=negative_zero)

    def wrong_bits(value: float) -> str:
        return bits(0.0 if math.isnan(value) else value)

    planting.function(real, wrong)
    planting.function(bits, wrong_bits)


def _text(planting: Planting, changed: Callable[[str], str]) -> None:
    right = formatting.format_trace

    def wrong(envelope: Envelope, records: Iterable[Record]) -> str:
        return changed(right(envelope, records))

    planting.function(right, wrong)


def _carriage_returns(text: str) -> str:
    return text.replace("\n", "\r\n")


def _second_last_lost(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:-2], lines[-1]])


def _other_convention(planting: Planting) -> None:
    right = LlamaPhase.conventions

    def wrong(phase: LlamaPhase, sizes: Sizes) -> tuple[tuple[str, str], ...]:
        return tuple((name, "highest id" if name == "argmax" else text) for name, text in right(phase, sizes))

    planting.method(LlamaPhase, "conventions", wrong)


def _stages_of_less(planting: Planting) -> None:
    right = stages.record_stages

    def wrong(model: DecoderStack, ids: Sequence[int], arithmetic: Arithmetic) -> tuple[Stage, ...]:
        moved = [*ids[1:], ids[0]]
        return right(model, moved, arithmetic)

    planting.function(right, wrong)


def _kinds_without(planting: Planting, kind: str, field: str, text: str) -> None:
    """Write a field of all records of a kind wrongly."""
    right = decoder_records.trace_records

    def wrong(experiment: DecodeExperiment) -> tuple[Record, ...]:
        return tuple(_with(record, field, text) if record.kind == kind else record for record in right(experiment))

    planting.function(right, wrong)


def _with(record: Record, field: str, text: str) -> Record:
    return replace(record, fields=tuple((name, text if name == field else value) for name, value in record.fields))


def _fault(
    slug: str,
    title: str,
    story: str,
    plant: Callable[[Planting], None],
    expected: tuple[str, ...],
    vehicles: tuple[Vehicle, ...],
) -> Fault:
    return Fault(f"trace.{slug}", title, story, "", TRACE, plant, vehicles=vehicles, expected=expected)


TRACING: Final = (
    _fault(
        "digits-cut-off",
        "decimals cut off instead of rounded",
        "Half of all printed numbers have another last digit.",
        _digits_cut_off,
        ("run.golden", "trace.recount"),
        run(NGRAM),
    ),
    _fault(
        "single-precision",
        "exact values written in single precision",
        "Printed decimals are right, and the bits beside them are those of a narrower number.",
        _bits_of_single,
        ("run.bits",),
        run(NGRAM),
    ),
    Fault(
        "trace.nan-as-zero",
        "NaN written as 0",
        "A value that is no number is written as one.",
        "netket/netket#441; Netflix/vmaf#848",
        TRACE,
        _nan_as_zero,
        kinds=("R01",),
        vehicles=(*exact(COURSE), *run(NGRAM)),
        equivalent="the reference refuses what is not finite before it is written, and answers a refusal by an id",
    ),
    _fault(
        "carriage-returns",
        "lines end in CR LF",
        "A file is opened as text on a system that writes them.",
        partial(_text, changed=_carriage_returns),
        ("trace.format",),
        (*exact(NGRAM), *run(NGRAM)),
    ),
    _fault(
        "record-lost",
        "a record is lost",
        "A buffer is not flushed before END is written.",
        partial(_text, changed=_second_last_lost),
        ("trace.format",),
        (*exact(NGRAM), *run(NGRAM)),
    ),
    _fault(
        "other-convention",
        "another convention is stated than is followed",
        "Every number is right, and the record that says how to read them is not.",
        _other_convention,
        ("trace.convention",),
        (*given(DENSE), *run(DENSE)),
    ),
    _fault(
        "stages-of-another-pass",
        "stages shown of another pass",
        "What is observed is another sequence than the one that is stated; all results are right.",
        _stages_of_less,
        ("fwd.stage",),
        run(DENSE),
    ),
    _fault(
        "passes-miscounted",
        "calls of the model miscounted",
        "Tokens are right, and what they cost is stated wrongly.",
        partial(_kinds_without, kind="DECODE", field="forwards", text="1"),
        ("spec.trace",),
        run(DENSE),
    ),
    _fault(
        "proof-by-assertion",
        "agreement is stated and not looked at",
        "PROOF says what a run without any draft or cache would say.",
        partial(_kinds_without, kind="PROOF", field="logits", text="different"),
        ("trace.recount",),
        run(DENSE),
    ),
)
"""What is wrong with a trace whose numbers are right."""
