"""The judge of caches: floats, slack and allocation of every layer, recomputed from CONFIG."""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.judges.decoder.reading import DecodeTrace
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.trace.records import Record


@dataclass(frozen=True)
class Expected:
    """What a cache has to hold."""

    floats: int
    slack: int
    allocated: int
    formula: str


def judge_caches(evidence: Evidence) -> tuple[Finding, ...]:
    """Hold every CACHE record against the formula of its layer's mixer."""
    trace = DecodeTrace(evidence.main)
    records = evidence.main.all("CACHE")
    for record in records:
        layer = record.integer("layer")
        if not 0 <= layer < len(trace.mixers):
            return (Finding.failed(f"{record.label}: the model has {len(trace.mixers)} layers"),)
        wanted = expected_cache(trace, trace.mixers[layer], record)
        for field in ("floats", "slack", "allocated", "formula"):
            if record.get(field) != str(getattr(wanted, field)):
                text = f"{record.get(field)}, but {getattr(wanted, field)} follows from CONFIG"
                return (Finding.failed(f"{record.label}, field {field}: {text}"),)
    missing = [
        str(layer) for layer in range(len(trace.mixers)) if not any(r.integer("layer") == layer for r in records)
    ]
    if missing:
        return (Finding.failed(f"CACHE: nothing is said about layer {', '.join(missing)}"),)
    return (Finding.passed(f"{len(records)} caches hold what their formulas say"),)


def expected_cache(trace: DecodeTrace, mixer: str, record: Record) -> Expected:
    """Return what a layer's cache has to hold after `prefix` tokens.

    Width d, heads H of width w = d/H, latent L, rope r, window W, slack S, context C, tokens t:
    attention 2·d·t; with a window 2·d·min(t, W), in a ring of W + S rows; latent attention 2·H·(w + r)·t by head, or
    (L + r)·t; a recurrence d, with the last S states beside it. Where G heads of keys and values are shared by query
    heads, attention holds 2·G·w floats a token in place of 2·d.
    """
    tokens, context = record.integer("prefix"), trace.size("context")
    width, heads, slack = trace.size("width"), trace.size("heads"), trace.size("slack")
    latent, rope, window = trace.size("latent", 0), trace.size("rope", 0), trace.size("window")
    if trace.config.has("key_value_heads"):
        width, per_token = trace.size("key_value_heads") * trace.size("head_width"), "2*G*w"
    else:
        per_token = "2*d"
    if mixer == "diagonal ssm":
        states = min(tokens, slack)
        return Expected(width, width * states, width * (states + 1), "d")
    if mixer == "window attention":
        ring = min(context, window + slack)
        held, seen = min(tokens, ring), min(tokens, window)
        return Expected(2 * width * seen, 2 * width * (held - seen), 2 * width * ring, f"{per_token}*min(t,W)")
    if mixer == "latent attention" and record.get("arm") == "latent":
        row = latent + rope
        return Expected(row * tokens, 0, row * context, "(L+r)*t")
    if mixer == "latent attention":
        row = 2 * (width + heads * rope)
        return Expected(row * tokens, 0, row * context, "2*H*(w+r)*t")
    return Expected(2 * width * tokens, 0, 2 * width * context, f"{per_token}*t")
