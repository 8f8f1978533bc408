"""What a net is, told from its file without running it: layers, sizes, memory, caches, and which decoder it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from cai_conformance.nets.structure import (
    ATTENTION,
    RECURRENCE,
    SHIFT,
    embedding_vocabulary,
    session_counts,
)
from cai_reference.errors import CaiReferenceError
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    DraftConfiguration,
    LatentSpec,
    MixerSpec,
)
from cai_reference.nets.conversion import net_to_decoder
from cai_reference.nets.format import NetFile
from cai_reference.nets.graph.making import CONVOLUTIONS
from cai_reference.nets.shapes import Shape, layer_shapes
from cai_reference.nets.structure import LayerSpec

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
    specs: Sequence[LayerSpec],
    shapes: Sequence[Shape],
    configuration: DecoderConfiguration | DraftConfiguration | None,
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
    heads = [] if not _has_heads(sizes) else [f"{sizes.heads} heads"]
    groups = [] if sizes.channels_per_group is None else [f"{sizes.channels_per_group} channels or more per group"]
    futures = [] if sizes.futures == 1 else [f"{sizes.futures} future tokens"]
    parts = [f"width {sizes.width}", *heads, f"feed-forward {sizes.feed_forward}", *groups, *futures]
    blocks = f"{len(sizes.mixers)} {sizes.wiring.value} block{'s' if len(sizes.mixers) > 1 else ''}"
    return f"decoder, {', '.join(parts)}; {blocks}: {mixers}"


def _has_heads(sizes: DecoderConfiguration) -> bool:
    return any(isinstance(mixer, AttentionSpec | LatentSpec) for mixer in sizes.mixers)


def _mixer_words(mixer: MixerSpec) -> str:
    if isinstance(mixer, AttentionSpec):
        return "attention" if mixer.window is None else f"attention (window {mixer.window})"
    if isinstance(mixer, LatentSpec):
        return f"latent attention (latent {mixer.latent}, rotary {mixer.rope})"
    return "recurrence"
