"""The neural n-gram on the course's own corpus, against digests that were published.

The parameter bits were published for one C library; where the one on this machine computes other bits, they cannot be
met and are skipped. Source: the course's chapter 23, measured on its Rust program (glibc 2.36, x86-64).
"""

from __future__ import annotations

import hashlib
from typing import Final

from cai_conformance.checks.check import check
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.witness import Witness
from cai_conformance.fixtures.published import BODY_SHA256, PARAMETER_SHA256
from cai_conformance.trace.format import format_body
from cai_conformance.verdicts import Level
from cai_reference.arithmetic.selftest import c_library_selftest

FUNCTIONS_USED = ("exp", "log1p")
"""The elementary functions that the model's parameters depend on."""

NOT_PUBLISHED = "the input is not the published corpus"

LINES: Final = Witness("published line", "published lines")
STEPS: Final = Witness("published step", "published steps")


@check(
    "published.text",
    Level.T3,
    "on the published corpus, the body is the published trace",
    "Byte for byte, in every arithmetic. Judged when the corpus given is the published one.",
    witnesses=(LINES,),
)
def judge_published_text(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the body with the published trace, byte for byte, by its digest."""
    if evidence.question.request.profile != "published":
        return (Finding.skipped(NOT_PUBLISHED),)
    body = evidence.main.body
    found = hashlib.sha256(format_body(body).encode("utf-8")).hexdigest()
    if found != BODY_SHA256:
        return (Finding.failed(f"the body has sha256 {found}, the published trace {BODY_SHA256}"),)
    text = f"{counted(len(body), 'line')} equal to the published trace, byte for byte"
    return (Finding.passed(text, met=[LINES.met(len(body))]),)


@check(
    "published.bits",
    Level.T3,
    "on the published corpus in libm/1, parameters have the published bits",
    "Sixteen digests that hold with the C library they were measured on; its self-test decides whether this machine "
    "has one like it.",
    witnesses=(STEPS,),
)
def judge_published_bits(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the parameters after every step with the published digests."""
    if evidence.question.request.profile != "published":
        return (Finding.skipped(NOT_PUBLISHED),)
    arithmetic = evidence.main.envelope.arithmetic
    if arithmetic != "libm/1":
        return (Finding.skipped(f"the published bits are those of libm/1; the backend ran in {arithmetic}"),)
    machine = c_library_selftest()
    if not machine.agrees_on(FUNCTIONS_USED):
        differing = " and ".join(name for name in machine.differing if name in FUNCTIONS_USED)
        reason = f"the C library here ({machine.library}) computes {differing} with other bits"
        return (Finding.skipped(f"{reason} than the one of the published digests"),)
    records = evidence.main.all("BITS")
    if len(records) != len(PARAMETER_SHA256):
        return (Finding.failed(f"expected {len(PARAMETER_SHA256)} BITS records, found {len(records)}"),)
    for record, digest in zip(records, PARAMETER_SHA256, strict=True):
        if record.get("parameters") != f"sha256:{digest}":
            return (
                Finding.failed(
                    f"{record.label}, field parameters: the published digest is sha256:{digest}, "
                    f"found {record.get('parameters')}"
                ),
            )
    text = f"parameters after {counted(len(records), 'step')} equal to the published bits"
    return (Finding.passed(text, met=[STEPS.met(len(records))]),)
