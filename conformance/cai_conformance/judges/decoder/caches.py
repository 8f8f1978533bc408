"""The judge of caches: floats, slack and allocation of every layer, recomputed from CONFIG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from cai_conformance.judges.decoder.reading import DecodeTrace, decode_trace
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness

WINDOWED: Final = "window attention"
LATENT: Final = "latent"
"""The arm that keeps latents only."""

STATED: Final = ("floats", "slack", "allocated", "formula")

CACHES: Final = Witness("cache", "caches")
EVICTED: Final = Witness("ring that has let go of rows", "rings that have let go of rows")


Stated: TypeAlias = tuple[str, ...]
"""What a CACHE record says in the fields `STATED`."""


def judge_caches(evidence: Evidence) -> tuple[Finding, ...]:
    """Hold every CACHE record against the formula of its layer's mixer."""
    trace = decode_trace(evidence)
    layers, count, evicted = len(trace.mixers), 0, 0
    ring = trace.size("window") + trace.size("slack")
    formulas: dict[tuple[str, bool], Callable[[int], Stated]] = {}
    for layer, arm, prefix, *stated in trace.trace.rows("CACHE", "layer", "arm", "prefix", *STATED):
        formula = formulas.get((layer, arm == LATENT))
        if formula is None:
            if not 0 <= int(layer) < layers:
                return (Finding.failed(f"{_label(evidence, count)}: the model has {layers} layers"),)
            formula = formulas[layer, arm == LATENT] = cache_formula(trace, trace.mixers[int(layer)], arm)
        wanted = formula(int(prefix))
        if (*stated,) != wanted:
            field, found, expected = next(
                (field, one, other) for field, one, other in zip(STATED, stated, wanted, strict=True) if one != other
            )
            text = f"{found}, but {expected} follows from CONFIG"
            return (Finding.failed(f"{_label(evidence, count)}, field {field}: {text}"),)
        count += 1
        evicted += trace.mixers[int(layer)] == WINDOWED and int(prefix) > ring
    met = {layer for layer, _ in formulas}
    missing = [str(layer) for layer in range(layers) if str(layer) not in met]
    if missing:
        return (Finding.failed(f"CACHE: nothing is said about layer {', '.join(missing)}"),)
    text = f"{count} caches hold what their formulas say"
    return (Finding.passed(text, met=[CACHES.met(count), EVICTED.met(evicted)]),)


def _label(evidence: Evidence, place: int) -> str:
    return evidence.main.all("CACHE")[place].label


def cache_formula(trace: DecodeTrace, mixer: str, arm: str) -> Callable[[int], Stated]:
    """Return what is to be said of a layer's cache after some tokens.

    Width d, heads H of width w = d/H, latent L, rope r, window W, slack S, context C, tokens t:
    attention 2·d·t; with a window 2·d·min(t, W), in a ring of W + S rows; latent attention 2·H·(w + r)·t by head, or
    (L + r)·t; a recurrence d, with the last S states beside it. Where G heads of keys and values are shared by query
    heads, attention holds 2·G·w floats a token in place of 2·d.
    """
    context, width, heads, slack = (trace.size(name) for name in ("context", "width", "heads", "slack"))
    latent, rope, window = trace.size("latent", 0), trace.size("rope", 0), trace.size("window")
    per_token = "2*d"
    if trace.config.has("key_value_heads"):
        width, per_token = trace.size("key_value_heads") * trace.size("head_width"), "2*G*w"

    def recurrence(tokens: int) -> Stated:
        states = min(tokens, slack)
        return f"{width}", f"{width * states}", f"{width * (states + 1)}", "d"

    def in_window(tokens: int) -> Stated:
        ring = min(context, window + slack)
        held, seen = min(tokens, ring), min(tokens, window)
        return f"{2 * width * seen}", f"{2 * width * (held - seen)}", f"{2 * width * ring}", f"{per_token}*min(t,W)"

    def rows_of(row: int, formula: str) -> Callable[[int], Stated]:
        allocated = f"{row * context}"
        return lambda tokens: (f"{row * tokens}", "0", allocated, formula)

    if mixer == "diagonal ssm":
        return recurrence
    if mixer == WINDOWED:
        return in_window
    if mixer == "latent attention" and arm == LATENT:
        return rows_of(latent + rope, "(L+r)*t")
    if mixer == "latent attention":
        return rows_of(2 * (width + heads * rope), "2*H*(w+r)*t")
    return rows_of(2 * width, f"{per_token}*t")
