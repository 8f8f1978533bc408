"""The outline of a net as lines for a terminal, and as objects for a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cai_conformance.nets.outline import DOUBLE, SINGLE, LayerOutline, NetOutline
from cai_conformance.nets.screens import Column, Line, paragraph, table_lines

PREFIX: Final = "TNNet"
"""What the name of every class begins with; left out of tables."""
WIDEST_INPUTS: Final = 9
"""The cells of a list of inputs; a longer list is cut behind its first."""
LABEL: Final = 14


def outline_lines(name: str, found: NetOutline, width: int, *, layers: bool) -> Iterator[Line]:
    """Yield the totals of a net and a table of its classes, or of all layers if `layers`."""
    yield from paragraph(name, width, "bold", indent="")
    for label, text in _totals(found):
        lines = list(paragraph(text, width - LABEL, indent=""))
        for place, line in enumerate(lines):
            yield Line(f"  {label if place == 0 else '':<{LABEL - 2}}{line.text}".rstrip())
    yield Line("")
    yield from _layer_table(found, width) if layers else _class_table(found, width)


def outline_objects(name: str, found: NetOutline, *, layers: bool) -> Iterator[dict[str, object]]:
    """Yield an object with the totals, and one a layer if `layers`."""
    attentions, recurrences, rotary = found.session
    yield {
        "type": "net",
        "file": name,
        "layers": len(found.layers),
        "weights": found.weights,
        "biases": found.biases,
        "bytes": {"binary32": found.size_in_bytes(SINGLE), "as_run": found.size_in_bytes(DOUBLE)},
        "context": found.context,
        "vocabulary": found.vocabulary,
        "future_tokens": found.futures,
        "session": {"attention_caches": attentions, "recurrences": recurrences, "rotary_layers": rotary},
        "not_streamable_exactly": found.streaming or None,
        "caches": [
            {"what": cache.what, "floats": cache.floats, "per_token": cache.per_token} for cache in found.caches
        ],
        "architecture": found.architecture or None,
        "not_of_the_family": found.obstacle or None,
        "classes": {kind: {"layers": each[0], "weights": each[1], "biases": each[2]} for kind, each in _classes(found)},
    }
    for layer in found.layers if layers else ():
        yield {
            "type": "layer",
            "index": layer.index,
            "class": layer.kind,
            "inputs": list(layer.inputs),
            "width": layer.width,
            "weights": layer.weights,
            "biases": layer.biases,
            "options": dict(layer.options),
        }


def _totals(found: NetOutline) -> Iterator[tuple[str, str]]:
    attentions, recurrences, rotary = found.session
    yield "decoder", found.architecture or f"none of the family: {found.obstacle}"
    yield "sizes", f"{len(found.layers)} layers, {found.weights:,} weights, {found.biases:,} biases"
    single, double = found.size_in_bytes(SINGLE), found.size_in_bytes(DOUBLE)
    yield "memory", f"{single:,} bytes in binary32, {double:,} as run here"
    vocabulary = "no embedding" if found.vocabulary is None else f"{found.vocabulary:,} ids"
    futures = {None: "no scores of ids", 1: "1 future token"}.get(found.futures, f"{found.futures} future tokens")
    yield "reads", f"{found.context} tokens at most, {vocabulary}, {futures}"
    yield "session", f"{attentions} attention caches, {recurrences} recurrences, {rotary} rotary layers"
    if found.streaming:
        yield "", f"not exact: {found.streaming}"
    for place, cache in enumerate(found.caches):
        each = " a token" if cache.per_token else ""
        yield "keeps" if place == 0 else "", f"{cache.what}: {cache.floats:,} floats{each}"


def _classes(found: NetOutline) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Yield each class in the order of its first layer, with its layers, weights and biases."""
    for kind in dict.fromkeys(layer.kind for layer in found.layers):
        layers = [layer for layer in found.layers if layer.kind == kind]
        yield kind, (len(layers), sum(layer.weights for layer in layers), sum(layer.biases for layer in layers))


def _class_table(found: NetOutline, width: int) -> Iterator[Line]:
    columns = (
        Column("class", folded=True),
        Column("layers", right=True),
        Column("weights", right=True),
        Column("biases", right=True),
    )
    rows = [(kind.removeprefix(PREFIX), *(f"{number:,}" for number in numbers)) for kind, numbers in _classes(found)]
    yield from table_lines(columns, rows, width)


def _layer_table(found: NetOutline, width: int) -> Iterator[Line]:
    columns = (
        Column("#", right=True),
        Column("class"),
        Column("reads", right=True),
        Column("width", right=True),
        Column("weights", right=True),
        Column("biases", right=True),
        Column("options", folded=True),
    )
    yield from table_lines(columns, [_layer_row(layer) for layer in found.layers], width)


def _layer_row(layer: LayerOutline) -> tuple[str, ...]:
    inputs = ",".join(map(str, layer.inputs))
    if len(inputs) > WIDEST_INPUTS:
        inputs = f"{layer.inputs[0]},..({len(layer.inputs)})"
    return (
        str(layer.index),
        layer.kind.removeprefix(PREFIX),
        inputs,
        str(layer.width),
        f"{layer.weights:,}" if layer.weights else "",
        f"{layer.biases:,}" if layer.biases else "",
        ", ".join(f"{name} {value}" for name, value in layer.options),
    )
