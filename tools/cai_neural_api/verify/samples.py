"""What the library measured on a net: outputs, decoded tokens, gradients, fit steps, session edges.

Fields may be missing, and those that nobody knows are kept by name, so that whoever verifies can say that they were not
looked at. `cai_neural_api.verify.samples` reads such samples.

Reading samples of what the library measured, as JSON.

A file is recognised by what it holds, never by its name, and read strictly: a value of another type or shape than its
field's is an error that names the place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from cai_conformance import strict_json
from cai_neural_api.errors import NetInputError

Ids: TypeAlias = tuple[int, ...]
Row: TypeAlias = tuple[float, ...]


@dataclass(frozen=True)
class ForwardCase:
    """One input, a row a token and mostly a row of one id, with the output row of every token."""

    input: tuple[Row, ...]
    output: tuple[Row, ...]


@dataclass(frozen=True)
class DecodeCase:
    """One prompt with what each way of decoding made of it, prompt included; None where nothing was measured.

    Attributes:
        prompt: the ids.
        greedy_full: by encoding everything again for each token, padded with zeros to the context.
        greedy_session: by the streaming session, a token a step.
        streamed: by the library's own streamed generator, which stops behind the first id below 2.
        session_rows: the output row of each step of the session.
        incremental: by the net-level incremental mode, which carries token shifts.
        width2: from the two newest tokens alone.
    """

    prompt: Ids
    greedy_full: Ids | None = None
    greedy_session: Ids | None = None
    streamed: Ids | None = None
    session_rows: tuple[Row, ...] = ()
    incremental: Ids | None = None
    width2: Ids | None = None


@dataclass(frozen=True)
class NetSample:
    """Outputs and decoded tokens of one net.

    Attributes:
        seed: from which the initial values of the same net were drawn; None if it is not stated.
        sizes: the sizes that were asked for, by the sample's own names.
        weights, layers: counts; None if they are not stated.
        session: attention caches, recurrences and rotary layers; None if they are not stated.
        forward, decode: the cases.
        unknown: fields that are not verified, by name.
    """

    seed: int | None
    sizes: Mapping[str, int]
    weights: int | None
    layers: int | None
    session: tuple[int, int, int] | None
    forward: tuple[ForwardCase, ...]
    decode: tuple[DecodeCase, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class NeuronGradient:
    """The gradient of one neuron's bias and weights, in the order of the file."""

    bias: float
    weights: Row


@dataclass(frozen=True)
class GradientSample:
    """Gradients of a whole batch, by the index of the layer."""

    layers: Mapping[int, tuple[NeuronGradient, ...]]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class FitRun:
    """Some steps of the library's fitting loop.

    Attributes:
        rate, beta1, beta2, epsilon, decay, limit: of the optimiser.
        batch: stories a step, taken in order.
        losses, errors: the reports of each step.
        final: the name of the net that was left.
    """

    rate: float
    beta1: float
    beta2: float
    epsilon: float
    decay: float
    limit: float
    batch: int
    losses: Row
    errors: Row
    final: str


@dataclass(frozen=True)
class TrainingSample:
    """Stories, which of them the gradients are of, and fits on them.

    Attributes:
        stories: ids.
        gradient_file: the name of the file with the gradients; None if there are none.
        gradient_batch: which stories they are of, in order.
        runs: the fits.
        unknown: fields that are not verified, by name.
    """

    stories: tuple[Ids, ...]
    gradient_file: str | None
    gradient_batch: tuple[int, ...]
    runs: tuple[FitRun, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class EdgeStep:
    """One step of a session: a token at a position, the row that came out, and how long the caches were then."""

    token: int
    position: int
    cache_length: int
    row: Row


@dataclass(frozen=True)
class SessionEdgeSample:
    """Sequences of session steps, by the name of what was done to the session."""

    sequences: Mapping[str, tuple[EdgeStep, ...]]
    unknown: tuple[str, ...] = ()


Sample: TypeAlias = NetSample | GradientSample | TrainingSample | SessionEdgeSample


LARGEST: Final = 1e6
"""No setting of an optimiser is as large as this."""

COMMENTS: Final = frozenset({"note", "draft_note"})
"""Fields for readers only."""


def parse_sample(data: bytes, path: str) -> Sample:
    """Read a file of measurements.

    Args:
        data: its bytes.
        path: its name, for errors.

    Raises:
        NetInputError (sample-damaged): it is not JSON, of no known layout, or a field is not what it should be.
    """
    try:
        found = strict_json.parse(data)
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        return _recognised(found)
    except ValueError as error:
        raise NetInputError("sample-damaged", path=path, problem=str(error)) from None


def _recognised(found: strict_json.Object) -> Sample:
    if "forward" in found or "decode" in found:
        return _net_sample(found)
    if "stories" in found:
        return _training_sample(found)
    if isinstance(found.get("layers"), dict):
        return _gradient_sample(found)
    sequences = {name: value for name, value in found.items() if _is_sequence(value)}
    if sequences:
        sequences |= {name: value for name, value in found.items() if EDGES.fullmatch(name)}
        return SessionEdgeSample(
            {name: _list_of(_edge_step)(value, name) for name, value in sequences.items()},
            _unknown(found, {"net", *sequences}),
        )
    raise ValueError("it has neither forward, decode, stories, layers nor steps of a session: its layout is not known")


# ── outputs and tokens ───────────────────────────────────────────────────────────────────────────────────────────────


def _net_sample(found: strict_json.Object) -> NetSample:
    drafts = {
        case.prompt: case for case in _list_of(_case(DRAFT_FIELDS, []))(found.get("draft_decode", []), "draft_decode")
    }
    unknown: list[str] = []
    decode = list(_list_of(_case(DECODE_FIELDS, unknown))(found.get("decode", []), "decode"))
    for place, case in enumerate(decode):
        if draft := drafts.pop(case.prompt, None):
            decode[place] = replace(case, incremental=draft.incremental, width2=draft.width2)
    return NetSample(
        seed=_optional(found, "seed", strict_json.count),
        sizes=_sizes(found.get("config", {})),
        weights=_optional(found, "count_weights", strict_json.count),
        layers=_optional(found, "layers", strict_json.count),
        session=_optional(found, "session", _session),
        forward=_list_of(_forward_case)(found.get("forward", []), "forward"),
        decode=(*decode, *drafts.values()),
        unknown=(*_unknown(found, NET_FIELDS), *sorted(set(unknown))),
    )


NET_FIELDS: Final = {
    "kind", "seed", "config", "count_weights", "layers", "forward", "session", "decode", "draft_decode",
}  # fmt: skip
DECODE_FIELDS: Final = {
    "greedy_full": "greedy_full",
    "greedy_session": "greedy_session",
    "library_streamed_eos_lt2": "streamed",
}
"""Lists of ids of a decode case, and what they are called here."""
DRAFT_FIELDS: Final = {"net_incremental": "incremental", "width2": "width2"}


def _case(fields: Mapping[str, str], unknown: list[str]) -> Callable[[object, str], DecodeCase]:
    theirs = {ours: name for name, ours in fields.items()}

    def read(value: object, where: str) -> DecodeCase:
        case = _object(value, where)
        known = {ours: _ids(case[name], f"{where}.{name}") for name, ours in fields.items() if name in case}
        rows = _list_of(_row)(case.get("session_rows", []), f"{where}.session_rows")
        unknown.extend(f"decode.{name}" for name in _unknown(case, {"prompt", "session_rows", *fields}))
        prompt = _field(case, "prompt", where, _ids)
        if not prompt:
            raise ValueError(f"{where}.prompt is empty")
        for name, ids in known.items():
            if ids[: len(prompt)] != prompt:
                raise ValueError(f"{where}.{theirs[name]} does not begin with the prompt")
        return DecodeCase(prompt, session_rows=rows, **known)

    return read


def _forward_case(value: object, where: str) -> ForwardCase:
    case = _object(value, where)
    given = _field(case, "input", where, _list_of(_input_row))
    if len({len(row) for row in given}) > 1:
        raise ValueError(f"{where}.input has rows of several lengths")
    return ForwardCase(given, _field(case, "output", where, _list_of(_row)))


def _input_row(value: object, where: str) -> Row:
    return _row(value, where) if isinstance(value, list) else (_number(value, where),)


def _session(value: object, where: str) -> tuple[int, int, int]:
    counts = _object(value, where)
    attentions, recurrences, rotary = (
        _field(counts, name, where, strict_json.count) for name in ("sdpa", "ssm", "rope")
    )
    return attentions, recurrences, rotary


SIZES: Final = frozenset({"ctx", "vocab", "d_model", "heads", "ffn", "latent", "rope", "window", "num_future"})
"""Sizes that are verified, where they are stated."""


def _sizes(value: object) -> dict[str, int]:
    sizes = _object(value, "config")
    return {
        name: strict_json.count(size, f"config.{name}")
        for name, size in sizes.items()
        if name in SIZES or type(size) is int
    }


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gradient_sample(found: strict_json.Object) -> GradientSample:
    layers: dict[int, tuple[NeuronGradient, ...]] = {}
    for name, value in _object(found["layers"], "layers").items():
        if not name.isascii() or not name.isdigit() or str(int(name)) != name:
            raise ValueError(f"layers: {name!r} is not the index of a layer")
        layers[int(name)] = _list_of(_neuron)(value, f"layers.{name}")
    return GradientSample(dict(sorted(layers.items())), _unknown(found, {"layers"}))


def _neuron(value: object, where: str) -> NeuronGradient:
    parts = strict_json.array(value, where)
    if len(parts) != 2:
        raise ValueError(f"{where} is not [bias, [weights]]")
    return NeuronGradient(_number(parts[0], f"{where}[0]"), _row(parts[1], f"{where}[1]"))


def _training_sample(found: strict_json.Object) -> TrainingSample:
    stories = _list_of(_ids)(found["stories"], "stories")
    batch = _optional(found, "grad_batch", _ids) or ()
    for number in batch:
        if number >= len(stories):
            raise ValueError(f"grad_batch names story {number}, but there are {len(stories)}")
    runs = _list_of(_fit_run)(found.get("runs", []), "runs")
    for number, run in enumerate(runs):
        if (needed := run.batch * len(run.losses)) > len(stories):
            raise ValueError(f"runs[{number}] needs {needed} stories, but there are {len(stories)}")
    unknown = _unknown(found, {"stories", "grad_file", "grad_batch", "runs", "kind", "seed"})
    return TrainingSample(stories, _optional(found, "grad_file", _file_name), batch, runs, unknown)


def _fit_run(value: object, where: str) -> FitRun:
    run = _object(value, where)

    def number(name: str, default: float, below: float, *, positive: bool = False) -> float:
        value = _number(run[name], f"{where}.{name}") if name in run else default
        if not 0.0 <= value < below or (positive and value == 0.0):
            raise ValueError(f"{where}.{name} is {value}, which no optimiser can use")
        return value

    losses, errors = (_field(run, name, where, _row) for name in ("step_loss", "step_error"))
    steps = strict_json.count(run.get("steps", len(losses)), f"{where}.steps")
    if not steps == len(losses) == len(errors):
        raise ValueError(f"{where} has {steps} steps, {len(losses)} losses and {len(errors)} errors")
    batch = _field(run, "batch", where, strict_json.count)
    if batch < 1:
        raise ValueError(f"{where}.batch is 0")
    return FitRun(
        number("lr", 0.0, LARGEST, positive=True),
        number("beta1", 0.9, 1.0),
        number("beta2", 0.98, 1.0),
        number("eps", 1e-7, LARGEST, positive=True),
        number("l2decay", 0.1, LARGEST),
        number("clipnorm", 1.0, LARGEST, positive=True),
        batch,
        losses,
        errors,
        _field(run, "final", where, _file_name),
    )


def _file_name(value: object, where: str) -> str:
    """A name without a folder: a sample must not lead to files that lie elsewhere."""
    name = strict_json.text(value, where)
    if set(name) & {"/", "\\", "\0"} or name in {".", ".."}:
        raise ValueError(f"{where} is not the name of a file beside this one")
    return name


# ── session edges ────────────────────────────────────────────────────────────────────────────────────────────────────


EDGES: Final = re.compile(
    "plain|int8_kv|evict_sink[0-9]+_window[0-9]+|overflow_maxcache[0-9]+"
    "|pre_snapshot|after_snapshot_first|after_restore|pre_truncate|after_truncate_to_[0-9]+"
)
"""Names of sequences of steps that are verified; others are told by what they hold."""


def _is_sequence(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(step, dict) and "row" in step for step in value)


def _edge_step(value: object, where: str) -> EdgeStep:
    step = _object(value, where)
    token, position, length = (_field(step, name, where, strict_json.count) for name in ("token", "pos", "cache_len"))
    return EdgeStep(token, position, length, _field(step, "row", where, _row))


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_T = TypeVar("_T")


def _object(value: object, where: str) -> strict_json.Object:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not an object")
    return value


def _field(found: strict_json.Object, key: str, where: str, read: Callable[[object, str], _T]) -> _T:
    if key not in found:
        raise ValueError(f"{where} lacks the key {key}")
    return read(found[key], f"{where}.{key}")


def _optional(found: strict_json.Object, key: str, read: Callable[[object, str], _T]) -> _T | None:
    return read(found[key], key) if key in found else None


def _list_of(read: Callable[[object, str], _T]) -> Callable[[object, str], tuple[_T, ...]]:
    def read_all(value: object, where: str) -> tuple[_T, ...]:
        return tuple(read(item, f"{where}[{number}]") for number, item in enumerate(strict_json.array(value, where)))

    return read_all


def _row(value: object, where: str) -> Row:
    return _list_of(_number)(value, where)


def _ids(value: object, where: str) -> Ids:
    return _list_of(strict_json.count)(value, where)


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{where} is beyond the range of binary64")
    return number


def _unknown(found: strict_json.Object, known: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(found.keys() - set(known) - COMMENTS))
