"""The answers to `start` and `load`: who an engine is, and what it made of a model folder."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from typing import Final

from cai_conformance.engines.description import (
    MANTISSA_BITS,
    PRECISIONS,
    Description,
    Feature,
    Nondeterminism,
    Precision,
)
from cai_conformance.engines.protocol import Loaded
from cai_conformance.serving.errors import ProtocolViolation
from cai_conformance.serving.fields import Fields, entries, integer, large_integer, one_of, text, violation
from cai_conformance.serving.limits import LARGEST, PROTOCOL
from cai_conformance.serving.lines import Json, Object

DEFINED_ARITHMETICS: Final = ("strict/1", "libm/1")
"""Arithmetics whose bits are defined; both compute in float64 throughout."""

_PARTS: Final = tuple(field.name for field in dataclass_fields(Precision))

_KEYS: Final = "name version protocol arithmetic precision precisions nondeterminism features arms slots"


def write_description(description: Description) -> dict[str, Json]:
    """Return the answer to `start`."""
    return {
        "name": description.name,
        "version": description.version,
        "protocol": PROTOCOL,
        "arithmetic": description.arithmetic,
        "precision": {part: getattr(description.precision, part) for part in _PARTS},
        "precisions": list(description.precisions),
        "nondeterminism": description.nondeterminism.value,
        "features": [feature.value for feature in Feature if feature in description.features],
        "arms": [*sorted(description.arms)],
        "slots": description.slots,
    }


def read_description(answer: Json) -> Description:
    """Read the answer to `start`.

    Raises:
        ProtocolViolation: it speaks another version, or what it says does not go together.
    """
    fields = Fields(answer, "the answer to start", _KEYS)
    if fields["protocol"] != PROTOCOL:
        raise violation(fields.label("protocol"), fields["protocol"], f"{PROTOCOL!r}, the one that is spoken here")
    precision = _precision(fields["precision"])
    features = frozenset(
        Feature(one_of(name, f"{name!r} among the features", list(Feature))) for name in fields.texts("features")
    )
    arms = frozenset(fields.texts("arms"))
    if arms and Feature.GENERATE not in features:
        raise ProtocolViolation(fields.label("arms"), "names arms without the feature generate")
    return Description(
        name=fields.text("name"),
        version=fields.text("version"),
        arithmetic=_arithmetic(fields, precision),
        precision=precision,
        precisions=_precisions(fields),
        nondeterminism=Nondeterminism(fields.one_of("nondeterminism", list(Nondeterminism))),
        features=features,
        arms=arms,
        slots=fields.integer("slots", 1, 1 << 20),
    )


def write_loaded(loaded: Loaded) -> dict[str, Json]:
    """Return the answer to `load`."""
    return {
        "conventions": dict(loaded.conventions),
        "context": loaded.context,
        "claimed": {name: value if value <= LARGEST else f"{value:016x}" for name, value in loaded.claimed.items()},
    }


def read_loaded(answer: Json) -> Loaded:
    """Read the answer to `load`."""
    fields = Fields(answer, "the answer to load", "conventions context claimed")
    conventions = entries(fields["conventions"], fields.label("conventions"))
    claimed = entries(fields["claimed"], fields.label("claimed"))
    return Loaded(
        conventions={key: text(value, f"the convention {key!r}") for key, value in conventions.items()},
        context=None if fields["context"] is None else integer(fields["context"], fields.label("context"), 1),
        claimed={key: large_integer(value, f"the claimed {key!r}") for key, value in claimed.items()},
    )


def read_load(message: Object) -> tuple[str, str | None]:
    """Read what `load` asks: a folder, and a format or None."""
    fields = Fields(dict(message), "the message", "id do seconds folder precision")
    precision = None if fields["precision"] is None else fields.one_of("precision", PRECISIONS)
    return fields.text("folder"), precision


def _precision(value: Json) -> Precision:
    fields = Fields(value, "'precision' of the answer to start", " ".join(_PARTS))
    return Precision(**{part: fields.one_of(part, PRECISIONS) for part in _PARTS})


def _precisions(fields: Fields) -> tuple[str, ...]:
    label = fields.label("precisions")
    found = tuple(one_of(name, f"an entry of {label}", PRECISIONS) for name in fields.texts("precisions"))
    finest_first = tuple(sorted(found, key=lambda name: -MANTISSA_BITS[name]))
    if found != finest_first:
        raise ProtocolViolation(label, f"does not have the finest format first: {', '.join(finest_first)}")
    return found


def _arithmetic(fields: Fields, precision: Precision) -> str:
    name = fields.text("arithmetic")
    coarsest = precision.coarsest
    if name in DEFINED_ARITHMETICS and precision == Precision.uniform("float64"):
        return name
    if name != coarsest:
        defined = f" or {' or '.join(DEFINED_ARITHMETICS)}" if precision == Precision.uniform("float64") else ""
        raise violation(fields.label("arithmetic"), name, f"{coarsest}, the coarsest of its formats{defined}")
    return name
