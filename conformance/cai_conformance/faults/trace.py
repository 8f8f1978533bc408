"""Faults of writing a trace: the numbers are right, and what is written is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from cai_conformance.backends.engine import stages
from cai_conformance.backends.engine.stages import Stage
from cai_conformance.backends.reference import decoder_records
from cai_conformance.backends.reference.decoder_run import DecodeExperiment
from cai_conformance.faults.fault import Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import COURSE, DENSE, NGRAM, exact, given, run
from cai_conformance.fixtures.llama_phases import LlamaPhase
from cai_conformance.fixtures.sizes import Sizes
from cai_conformance.trace import format as formatting
from cai_conformance.trace.records import Envelope, Record
from cai_reference.arithmetic import Arithmetic
from cai_reference.models.stack import DecoderStack


def _text(patch: Patch, changed: Callable[[str], str]) -> None:
    right = formatting.format_trace

    def wrong(envelope: Envelope, records: Iterable[Record]) -> str:
        return changed(right(envelope, records))

    patch.replace(right, wrong)


def _carriage_returns(text: str) -> str:
    return text.replace("\n", "\r\n")


def _second_last_lost(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:-2], lines[-1]])


def _kinds_without(patch: Patch, kind: str, field: str, text: str) -> None:
    """Write a field of all records of a kind wrongly."""
    right = decoder_records.trace_records

    def wrong(experiment: DecodeExperiment) -> tuple[Record, ...]:
        return tuple(_with(record, field, text) if record.kind == kind else record for record in right(experiment))

    patch.replace(right, wrong)


def _with(record: Record, field: str, text: str) -> Record:
    return replace(record, fields=tuple((name, text if name == field else value) for name, value in record.fields))


_trace = Family(frozenset({Place.TRACE}), run(DENSE))


@_trace("trace.digits-cut-off", "decimals cut off instead of rounded", "run.golden trace.recount", workloads=run(NGRAM))
def _digits_cut_off(patch: Patch) -> None:
    """Half of all printed numbers have another last digit."""
    right = formatting.format_real

    def wrong(value: float, digits: int = 6, *, negative_zero: bool = False) -> str:
        if not math.isfinite(value):
            return right(value, digits, negative_zero=negative_zero)
        scale = 10.0**digits
        return right(math.trunc(value * scale) / scale, digits, negative_zero=negative_zero)

    patch.replace(right, wrong)


@_trace("trace.single-precision", "exact values written in single precision", "run.bits", workloads=run(NGRAM))
def _bits_of_single(patch: Patch) -> None:
    """Printed decimals are right, and the bits beside them are those of a narrower number."""
    # Write the bits of a value that was rounded to 24 bits on the way.
    right = formatting.format_bits

    def wrong(value: float) -> str:
        mantissa, exponent = math.frexp(value)
        return right(math.ldexp(round(mantissa * 2.0**24) / 2.0**24, exponent))

    patch.replace(right, wrong)


@_trace(
    "trace.nan-as-zero",
    "NaN written as 0",
    seen_in="netket/netket#441; Netflix/vmaf#848",
    kinds="R01",
    equivalent="the reference refuses what is not finite before it is written, and answers a refusal by an id",
    workloads=(*exact(COURSE), *run(NGRAM)),
)
def _nan_as_zero(patch: Patch) -> None:
    """A value that is no number is written as one."""
    real, bits = formatting.format_real, formatting.format_bits

    def wrong(value: float, digits: int = 6, *, negative_zero: bool = False) -> str:
        return real(0.0 if math.isnan(value) else value, digits, negative_zero=negative_zero)

    def wrong_bits(value: float) -> str:
        return bits(0.0 if math.isnan(value) else value)

    patch.replace(real, wrong)
    patch.replace(bits, wrong_bits)


@_trace("trace.carriage-returns", "lines end in CR LF", "trace.format", workloads=(*exact(NGRAM), *run(NGRAM)))
def _carriage_returns_trace(patch: Patch) -> None:
    """A file is opened as text on a system that writes them."""
    _text(patch, changed=_carriage_returns)


@_trace("trace.record-lost", "a record is lost", "trace.format", workloads=(*exact(NGRAM), *run(NGRAM)))
def _record_lost(patch: Patch) -> None:
    """A buffer is not flushed before END is written."""
    _text(patch, changed=_second_last_lost)


@_trace(
    "trace.other-convention",
    "another convention is stated than is followed",
    "trace.convention",
    workloads=(*given(DENSE), *run(DENSE)),
)
def _other_convention(patch: Patch) -> None:
    """Every number is right, and the record that says how to read them is not."""
    right = LlamaPhase.conventions

    def wrong(phase: LlamaPhase, sizes: Sizes) -> tuple[tuple[str, str], ...]:
        return tuple((name, "highest id" if name == "argmax" else text) for name, text in right(phase, sizes))

    patch.replace((LlamaPhase, "conventions"), wrong)


@_trace("trace.stages-of-another-pass", "stages shown of another pass", "fwd.stage")
def _stages_of_less(patch: Patch) -> None:
    """What is observed is another sequence than the one that is stated; all results are right."""
    right = stages.record_stages

    def wrong(model: DecoderStack, ids: Sequence[int], arithmetic: Arithmetic) -> tuple[Stage, ...]:
        moved = [*ids[1:], ids[0]]
        return right(model, moved, arithmetic)

    patch.replace(right, wrong)


@_trace("trace.passes-miscounted", "calls of the model miscounted", "spec.trace")
def _passes_miscounted(patch: Patch) -> None:
    """Tokens are right, and what they cost is stated wrongly."""
    _kinds_without(patch, kind="DECODE", field="forwards", text="1")


@_trace("trace.proof-by-assertion", "agreement is stated and not looked at", "trace.recount")
def _proof_by_assertion(patch: Patch) -> None:
    """PROOF says what a run without any draft or cache would say."""
    _kinds_without(patch, kind="PROOF", field="logits", text="different")


TRACE: Final = tuple(_trace)
"""What is wrong with a trace whose numbers are right."""
