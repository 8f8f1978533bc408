"""What a net is, told from its file without running it: layers, sizes, memory, caches, and which decoder it is.

The outline of a net as lines for a terminal, and as objects for a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rich.text import Text

from cai_conformance.report.terminal import Column, paragraph, table_lines
from cai_neural_api.conversion import net_to_decoder
from cai_neural_api.format import NetFile
from cai_neural_api.net.making import CONVOLUTIONS
from cai_neural_api.net.structure import LayerSpec, Shape, layer_shapes
from cai_neural_api.structure import ATTENTION, RECURRENCE, SHIFT, embedding_vocabulary, session_counts
from cai_reference.errors import CaiReferenceError
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, MixerSpec
from cai_reference.models.token_shift_draft import DraftConfiguration

Options: TypeAlias = tuple[tuple[str, str], ...]

SINGLE: Final = 4
DOUBLE: Final = 8
"""Bytes of a number in files of the library, and as run here."""


@dataclass(frozen=True)
class LayerOutline:
    """One layer.

    Attributes:
        index: from 0.
        kind: the library's name of the class.
        inputs: the layers that it reads.
        width: the depth of its output.
        weights: as the library counts them, biases left out.
        biases: those that are added; a suppressed one is not counted.
        options: what else the layer states, by name.
    """

    index: int
    kind: str
    inputs: tuple[int, ...]
    width: int
    weights: int
    biases: int
    options: Options


@dataclass(frozen=True)
class CacheOutline:
    """What a streaming session keeps.

    Attributes:
        what: in words.
        floats: how many.
        per_token: whether for each token, or once.
    """

    what: str
    floats: int
    per_token: bool


@dataclass(frozen=True)
class NetOutline:
    """A whole net.

    Attributes:
        layers: all of them.
        context: the longest sequence.
        vocabulary: ids of the embedding; None of a net without one.
        futures: how many future tokens it scores all ids for; None if that cannot be told.
        session: attention caches, recurrences and rotary layers.
        streaming: why it cannot be streamed exactly, in words; empty if it can.
        caches: what a session keeps.
        architecture: the decoder or draft that it is, in words; empty if it is none.
        obstacle: why it is none of the family; empty if it is.
    """

    layers: tuple[LayerOutline, ...]
    context: int
    vocabulary: int | None
    futures: int | None
    session: tuple[int, int, int]
    streaming: str
    caches: tuple[CacheOutline, ...]
    architecture: str
    obstacle: str

    @property
    def weights(self) -> int:
        """All weights, as the library counts them."""
        return sum(layer.weights for layer in self.layers)

    @property
    def biases(self) -> int:
        """All biases that are added."""
        return sum(layer.biases for layer in self.layers)

    def size_in_bytes(self, of_a_number: int) -> int:
        """How many bytes weights and biases take."""
        return (self.weights + self.biases) * of_a_number


def outline_net(file: NetFile) -> NetOutline:
    """Outline a net."""
    specs = file.specs
    shapes = layer_shapes(specs)
    layers = tuple(
        LayerOutline(
            index,
            spec.kind,
            spec.inputs,
            shape.depth,
            sum(neuron.weights.size for neuron in neurons),
            len(neurons) if spec.kind in CONVOLUTIONS and not spec.integers[4] else 0,
            tuple(_options(spec)),
        )
        for index, (spec, shape, neurons) in enumerate(zip(specs, shapes, file.neurons, strict=True))
    )
    vocabulary, depth = embedding_vocabulary(specs), shapes[-1].depth
    configuration, obstacle = _configuration(file)
    return NetOutline(
        layers,
        shapes[0].tokens,
        vocabulary,
        depth // vocabulary if vocabulary is not None and depth % vocabulary == 0 else None,
        session_counts(specs),
        _streaming(specs),
        tuple(_caches(specs, shapes, configuration)),
        "" if configuration is None else architecture_words(configuration),
        obstacle,
    )


def _configuration(file: NetFile) -> tuple[DecoderConfiguration | DraftConfiguration | None, str]:
    try:
        return net_to_decoder(file).configuration, ""
    except CaiReferenceError as error:
        return None, str(error)


def _options(spec: LayerSpec) -> Iterator[tuple[str, str]]:
    integers = spec.integers
    match spec.kind:
        case "TNNetEmbedding":
            yield "vocabulary", str(integers[0])
            yield "scale", f"{spec.floats[0]:g}"
            if integers[2]:
                yield "id 0", "has a row"
        case "TNNetGroupedPointwiseConvLinear":
            yield "groups", str(integers[5])
        case "TNNetScaledDotProductAttention":
            yield "d_k", str(integers[0])
            yield "mask", "causal" if integers[1] else "none"
            if integers[2]:
                yield "window", str(integers[2])
        case "TNNetRotaryEmbedding":
            yield "base", f"{spec.floats[0]:g}"
        case "TNNetInterleaveChannels":
            yield "step", str(integers[0])
        case "TNNetPointwiseSoftMax":
            yield "derivative", "skipped" if integers[0] else "full"
        case "TNNetDotProducts":
            yield "mask", "causal" if integers[2] else "none"
        case "TNNetSplitChannels":
            yield "channels", _ranges(spec.listed)
    if spec.kind in CONVOLUTIONS and integers[4]:
        yield "bias", "none"


def _ranges(numbers: Sequence[int]) -> str:
    """Spell numbers with runs taken together, as 0-7, 16-23."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _streaming(specs: Sequence[LayerSpec]) -> str:
    """Return the first reason why a streaming session is not what the whole sequence is."""
    for index, spec in enumerate(specs):
        if spec.kind in ("TNNetDotProducts", "TNNetTransposeXD"):
            return f"layer {index} ({spec.kind}) needs the whole sequence"
        if spec.kind == ATTENTION and not spec.integers[1]:
            return f"layer {index} ({spec.kind}) looks ahead, which a session does not"
        if spec.kind == SHIFT:
            return f"layer {index} ({spec.kind}) is forgotten between steps, unless the whole net is incremental"
    return ""


def _caches(
    specs: Sequence[LayerSpec], shapes: Sequence[Shape], configuration: DecoderConfiguration | DraftConfiguration | None
) -> Iterator[CacheOutline]:
    attentions = [spec for spec in specs if spec.kind == ATTENTION]
    if attentions:
        yield CacheOutline("keys and values", sum(2 * spec.integers[0] for spec in attentions), True)
        local = [spec for spec in attentions if spec.integers[2]]
        if local:
            useful = sum(2 * spec.integers[0] * spec.integers[2] for spec in local)
            yield CacheOutline("of use to windowed layers, at most", useful, False)
    if isinstance(configuration, DecoderConfiguration):
        latent = [mixer for mixer in configuration.mixers if isinstance(mixer, LatentSpec)]
        if latent:
            floats = sum(mixer.latent + mixer.rope for mixer in latent)
            yield CacheOutline("latents and rotary keys instead", floats, True)
    for kind, what in ((RECURRENCE, "states of recurrences"), (SHIFT, "the token before each token shift")):
        widths = [shape.depth for spec, shape in zip(specs, shapes, strict=True) if spec.kind == kind]
        if widths:
            yield CacheOutline(what, sum(widths), False)


def architecture_words(configuration: DecoderConfiguration | DraftConfiguration) -> str:
    """Say in words which decoder or draft a configuration is."""
    sizes = configuration
    if isinstance(sizes, DraftConfiguration):
        return f"token-shift draft, width {sizes.width}, hidden {sizes.hidden}"
    mixers = ", ".join(_mixer_words(mixer) for mixer in sizes.mixers)
    attends = any(isinstance(mixer, AttentionSpec | LatentSpec) for mixer in sizes.mixers)
    heads = [f"{sizes.heads} heads"] if attends else []
    groups = [] if sizes.channels_per_group is None else [f"{sizes.channels_per_group} channels or more per group"]
    futures = [] if sizes.futures == 1 else [f"{sizes.futures} future tokens"]
    parts = [f"width {sizes.width}", *heads, f"feed-forward {sizes.feed_forward}", *groups, *futures]
    blocks = f"{len(sizes.mixers)} {sizes.wiring.value} block{'s' if len(sizes.mixers) > 1 else ''}"
    return f"decoder, {', '.join(parts)}; {blocks}: {mixers}"


def _mixer_words(mixer: MixerSpec) -> str:
    if isinstance(mixer, AttentionSpec):
        return "attention" if mixer.window is None else f"attention (window {mixer.window})"
    if isinstance(mixer, LatentSpec):
        return f"latent attention (latent {mixer.latent}, rotary {mixer.rope})"
    return "recurrence"


PREFIX: Final = "TNNet"
"""What the name of every class begins with; left out of tables."""
WIDEST_INPUTS: Final = 9
"""The cells of a list of inputs; a longer list is cut behind its first."""


def outline_lines(name: str, found: NetOutline, width: int, *, layers: bool) -> Iterator[Text]:
    """Yield the totals of a net and a table of its classes, or of all layers if `layers`."""
    yield from paragraph(name, width, "bold", indent="")
    yield from table_lines((Column(""), Column("", folded=True)), list(_totals(found)), width)
    yield Text("")
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


def _class_table(found: NetOutline, width: int) -> Iterator[Text]:
    columns = (
        Column("class", folded=True),
        Column("layers", right=True),
        Column("weights", right=True),
        Column("biases", right=True),
    )
    rows = [(kind.removeprefix(PREFIX), *(f"{number:,}" for number in numbers)) for kind, numbers in _classes(found)]
    yield from table_lines(columns, rows, width)


def _layer_table(found: NetOutline, width: int) -> Iterator[Text]:
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
