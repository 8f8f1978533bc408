"""Reading an object of a message key by key: each has a type, a range, and is there.

The answers to `start` and `load`: who an engine is, and what it made of a model folder.

The names and shapes of a model folder's tensors, from the head of its file alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Final

from safetensors import SafetensorError, safe_open

from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.lines import Json, Object
from cai_conformance.backends.serve.process import LARGEST, NAMES, PROTOCOL, TEXT
from cai_conformance.engine import MANTISSA_BITS, PRECISIONS, Description, Feature, Loaded, Nondeterminism, Precision
from cai_reference.arithmetic.bits import from_hex_bits

_BITS: Final = re.compile(r"[0-9a-fA-F]{16}")


def violation(what: str, value: object, wanted: str) -> ProtocolViolation:
    """Return the error for a value that is something else than what is wanted there."""
    shown = _kind(value) if isinstance(value, dict | list) else repr(value)
    return ProtocolViolation(what, f"is {shown if len(shown) <= 60 else shown[:59] + '…'}, not {wanted}")


def integer(value: Json, what: str, low: int = 0, high: int = LARGEST) -> int:
    """Return a value that is an integer from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise violation(what, value, f"an integer from {low} to {high}")
    return value


def text(value: Json, what: str) -> str:
    """Return a value that is a string of 1 to `TEXT` characters."""
    if not isinstance(value, str) or not 0 < len(value) <= TEXT:
        raise violation(what, value, f"a text of 1 to {TEXT} characters")
    return value


def real(value: Json, what: str) -> float:
    """Return the double whose bits a string holds; NaN and infinities are numbers here."""
    if not isinstance(value, str) or not _BITS.fullmatch(value):
        raise violation(what, value, "the sixteen hex digits of a double")
    return from_hex_bits(value)


def large_integer(value: Json, what: str) -> int:
    """Return an integer that is not negative, as a number up to 2^53 or as bits."""
    if isinstance(value, str) and _BITS.fullmatch(value):
        return int(value, 16)
    return integer(value, what)


def one_of(value: Json, what: str, words: Iterable[str]) -> str:
    """Return a value that is one of some words."""
    known = tuple(words)
    if not isinstance(value, str) or value not in known:
        raise violation(what, value, f"one of {', '.join(known)}")
    return value


def items(value: Json, what: str, low: int = 0, high: int = NAMES) -> list[Json]:
    """Return a value that is a list of `low` to `high` things."""
    if not isinstance(value, list):
        raise violation(what, value, "a list")
    if not low <= len(value) <= high:
        wanted = f"{low}" if low == high else f"{low} to {high}"
        raise ProtocolViolation(what, f"has {len(value)} entries, not {wanted}")
    return value


def entries(value: Json, what: str) -> dict[str, Json]:
    """Return a value that is an object with keys of its own choice, each a text."""
    if not isinstance(value, dict):
        raise violation(what, value, "an object")
    if len(value) > NAMES:
        raise ProtocolViolation(what, f"has {len(value)} keys, more than {NAMES}")
    for key in value:
        text(key, f"a key of {what}")
    return value


class Fields:
    """An object whose keys are known: all that are required are there, and none but those and `x_…`."""

    def __init__(self, value: Json, what: str, required: str = "", optional: str = "") -> None:
        """Take an object and the names of its keys, with blanks between them.

        Raises:
            ProtocolViolation: it is no object, lacks a key, or has one that nobody knows.
        """
        if not isinstance(value, dict):
            raise violation(what, value, "an object")
        self.what = what
        self._values = value
        names = required.split()
        for name in names:
            if name not in value:
                raise ProtocolViolation(what, f"has no {name!r}")
        known = {*names, *optional.split()}
        for key in value:
            if key not in known and not key.startswith("x_"):
                raise ProtocolViolation(what, f"has the key {key[:60]!r}, which the protocol does not know")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Json:
        return self._values.get(key)

    def label(self, key: str) -> str:
        """Return what a value is called in a message."""
        return f"{key!r} of {self.what}"

    def integer(self, key: str, low: int = 0, high: int = LARGEST) -> int:
        """Return an integer from `low` to `high`."""
        return integer(self[key], self.label(key), low, high)

    def text(self, key: str) -> str:
        """Return a text that is not empty."""
        return text(self[key], self.label(key))

    def real(self, key: str) -> float:
        """Return a double."""
        return real(self[key], self.label(key))

    def flag(self, key: str) -> bool:
        """Return a truth value."""
        value = self[key]
        if not isinstance(value, bool):
            raise violation(self.label(key), value, "true or false")
        return value

    def one_of(self, key: str, words: Iterable[str]) -> str:
        """Return one of some words."""
        return one_of(self[key], self.label(key), words)

    def items(self, key: str, low: int = 0, high: int = NAMES) -> list[Json]:
        """Return a list."""
        return items(self[key], self.label(key), low, high)

    def integers(self, key: str, low: int = 0, high: int = LARGEST, *, least: int = 0) -> tuple[int, ...]:
        """Return a list of integers with at least so many entries."""
        found = items(self[key], self.label(key), least, LARGEST)
        return tuple(integer(value, f"entry {i} of {self.label(key)}", low, high) for i, value in enumerate(found))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of different texts."""
        found = tuple(text(value, f"entry {i} of {self.label(key)}") for i, value in enumerate(self.items(key)))
        if len(set(found)) != len(found):
            raise ProtocolViolation(self.label(key), "has an entry twice")
        return found


def _kind(value: object) -> str:
    return "an object" if isinstance(value, dict) else "a list"


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


FILES = ("model.safetensors", "weights.safetensors")
"""What the file of weights is called, in the order in which it is looked for."""


def model_shapes(folder: Path) -> dict[str, tuple[int, ...]] | None:
    """Return the shape of each tensor of a model folder; None where it has no file that can be read."""
    for name in FILES:
        if not (folder / name).is_file():
            continue
        try:
            with safe_open(folder / name, "np") as file:
                return {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError):
            return None
    return None
