"""Errors of a net's layer graph: who reads whom, and widths that do not fit.

Layers count from 0, as the structure line of a file counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.nets.errors import NetError


class GraphShapeError(NetError):
    """The layers of a net do not fit together."""


@dataclass(eq=False)
class NoLayers(GraphShapeError):
    """A net needs an input at least."""

    template = "the net has no layers"


@dataclass(eq=False)
class UnknownLayerClass(GraphShapeError):
    """A layer is of a class that is not known here."""

    template = "layer {layer}: the class {kind!r} is not known"
    layer: int
    kind: str


@dataclass(eq=False)
class WrongNumberCount(GraphShapeError):
    """A layer states another number of integers or floats than eight."""

    template = "layer {layer} states {found} {what}; each layer states 8"
    layer: int
    what: str
    found: int


@dataclass(eq=False)
class FirstLayerNotInput(GraphShapeError):
    """The first layer is not an input without predecessor."""

    template = "layer 0 must be a TNNetInput with predecessor -1, found {kind} with predecessor {previous}"
    kind: str
    previous: int


@dataclass(eq=False)
class SecondInput(GraphShapeError):
    """A net reads one input."""

    template = "layer {layer} is a second TNNetInput; only layer 0 may be an input"
    layer: int


@dataclass(eq=False)
class SourceNotEarlier(GraphShapeError):
    """A layer reads itself, a later layer, or one that does not exist."""

    template = "layer {layer} ({kind}) names layer {source} as its {role}; it may name layers 0 to {last} only"
    layer: int
    kind: str
    role: str
    source: int
    last: int


@dataclass(eq=False)
class ListMissing(GraphShapeError):
    """A sum, a concatenation or a split lists nothing."""

    template = "layer {layer} ({kind}) lists nothing, but needs a list of {what}"
    layer: int
    kind: str
    what: str


@dataclass(eq=False)
class ListUnexpected(GraphShapeError):
    """A layer of a class without a list has one."""

    template = "layer {layer} ({kind}) takes no list, but has one of {found} numbers"
    layer: int
    kind: str
    found: int


@dataclass(eq=False)
class SizeOutOfRange(GraphShapeError):
    """A size that a layer states is impossible."""

    template = "layer {layer} ({kind}): {what} is {value}, but must be {needed}"
    layer: int
    kind: str
    what: str
    value: int
    needed: str


@dataclass(eq=False)
class DepthDoesNotFit(GraphShapeError):
    """A layer cannot take the depth of the layer that it reads."""

    template = "layer {layer} ({kind}) reads a depth of {depth}, but needs {needed}"
    layer: int
    kind: str
    depth: int
    needed: str


@dataclass(eq=False)
class InputsDiffer(GraphShapeError):
    """Layers that are taken together differ in a size that must agree. `source` is the first that differs."""

    template = "layer {layer} ({kind}): layer {source} has {found} {what}, but layer {first} has {expected}"
    layer: int
    kind: str
    what: str
    first: int
    expected: int
    source: int
    found: int


@dataclass(eq=False)
class ChannelOutOfRange(GraphShapeError):
    """A split names a channel that its predecessor does not have."""

    template = "layer {layer} picks channel {channel} at place {place} of its list, but reads a depth of {depth}"
    layer: int
    place: int
    channel: int
    depth: int
