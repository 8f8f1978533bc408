"""Configurations and schedules as JSON, and back.

Values are taken out of parsed JSON each of the type that it must have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from cai_reference.checkpoints.errors import CheckpointError
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, MixerSpec, SsmSpec, Wiring
from cai_reference.models.llama import LlamaConfiguration
from cai_reference.models.neural_ngram import NeuralNgramConfiguration
from cai_reference.models.token_shift_draft import DraftConfiguration
from cai_reference.text.strict_json import Json, Object
from cai_reference.training.model_kinds import AnyConfiguration
from cai_reference.training.schedules import AnySchedule, ConstantRate, DecayShape, SteppedRate, WarmupDecay

STATE_DIGITS: Final = 16
DIGEST_DIGITS: Final = 64
LIMIT: Final = 1 << 256
"""Whole numbers are below it, so that products of a few stay short and can be printed."""
LONGEST: Final = 200
"""No parameter has a longer name."""
SHOWN: Final = 80
"""So many characters of a value are told."""
HEX_DIGITS: Final = frozenset("0123456789abcdef")


class SavedFields:
    """An object with exactly these keys.

    Raises:
        CheckpointError (bad-description): it is none, or lacks a key, or has another one; from every method: a value is
            of another type.
    """

    def __init__(self, value: Json, where: str, keys: Sequence[str]) -> None:
        if not isinstance(value, Object):
            raise CheckpointError("bad-description", where=where, problem="it is not an object")
        for key in keys:
            if key not in value:
                raise CheckpointError("bad-description", where=where, problem=f"it lacks {key!r}")
        for key in value:
            if key not in keys:
                raise CheckpointError(
                    "bad-description", where=where, problem=f"it has {shown(key)}, which means nothing"
                )
        self._value = value
        self.where = where

    def raw(self, key: str) -> Json:
        """Return a value of any type."""
        return self._value[key]

    def is_null(self, key: str) -> bool:
        """Tell whether there is a key without a value."""
        return self._value[key] is None

    def integer(self, key: str) -> int:
        """Return a whole number that is not negative and fits into 256 bits."""
        value = self._value[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LIMIT:
            raise self.problem(key, "a whole number that is not negative")
        return value

    def optional_integer(self, key: str) -> int | None:
        """Return a whole number that is not negative, or None."""
        return None if self.is_null(key) else self.integer(key)

    def double(self, key: str) -> float:
        """Return a finite number, spelled with a point or an exponent."""
        value = self._value[key]
        if not isinstance(value, float) or not math.isfinite(value):
            raise self.problem(key, "a finite number with a point or an exponent")
        return value

    def text(self, key: str) -> str:
        """Return a text."""
        value = self._value[key]
        if not isinstance(value, str):
            raise self.problem(key, "a text")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self._value[key]
        if not isinstance(value, bool):
            raise self.problem(key, "true or false")
        return value

    def hex_state(self, key: str) -> int:
        """Return the state of a generator."""
        value = self.text(key)
        if len(value) != STATE_DIGITS or not set(value) <= HEX_DIGITS:
            raise self.problem(key, f"{STATE_DIGITS} hex digits")
        return int(value, 16)

    def digest(self, key: str) -> str:
        """Return a SHA-256 in hex digits."""
        value = self.text(key)
        if len(value) != DIGEST_DIGITS or not set(value) <= HEX_DIGITS:
            raise self.problem(key, f"{DIGEST_DIGITS} hex digits")
        return value

    def array(self, key: str) -> list[Json]:
        """Return a list."""
        value = self._value[key]
        if not isinstance(value, list):
            raise self.problem(key, "a list")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, none of which is longer than `LONGEST`."""
        found = tuple(value for value in self.array(key) if isinstance(value, str) and len(value) <= LONGEST)
        if len(found) != len(self.array(key)):
            raise self.problem(key, "a list of texts")
        return found

    def shape(self, key: str) -> tuple[int, ...]:
        """Return a list of lengths, none of which is 0."""
        found = tuple(
            value
            for value in self.array(key)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < LIMIT
        )
        if len(found) != len(self.array(key)):
            raise self.problem(key, "a list of lengths")
        return found

    def problem(self, key: str, wanted: str) -> CheckpointError:
        """Return the error of a value that is something else."""
        return CheckpointError(
            "bad-description", where=self.where, problem=f"{key} is {shown(self._value[key])}, not {wanted}"
        )


def choice(value: Json, where: str, key: str, known: Sequence[str]) -> str:
    """Return the text under a key of an object, which has to be one of these."""
    found = value.get(key) if isinstance(value, Object) else None
    if not isinstance(found, str) or found not in known:
        raise CheckpointError(
            "bad-description", where=where, problem=f"{key} is {shown(found)}, not one of {', '.join(known)}"
        )
    return found


def shown(value: Json) -> str:
    """Return a value as errors spell it, cut where it is long; of what is nested only what it is."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
        return "a nested list"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


MODEL: Final = "model"
SCHEDULE: Final = "schedule"
COMMON: Final = ("kind", "vocabulary", "context", "width", "heads", "feed_forward", "rope_base")
NGRAM, DECODER, LLAMA, DRAFT = "neural-ngram", "decoder", "llama", "token-shift-draft"
CONSTANT, STEPPED, WARMUP = "constant", "stepped", "warm-up"
ATTENTION, LATENT, SSM = "attention", "latent-attention", "diagonal-ssm"


def write_configuration(sizes: AnyConfiguration) -> Object:
    """Return a configuration as an object."""
    if isinstance(sizes, NeuralNgramConfiguration):
        return Object(
            kind=NGRAM,
            vocabulary=sizes.vocabulary,
            context=sizes.context,
            embedding=sizes.embedding,
            hidden=sizes.hidden,
        )
    if isinstance(sizes, DraftConfiguration):
        return Object(
            kind=DRAFT, vocabulary=sizes.vocabulary, context=sizes.context, width=sizes.width, hidden=sizes.hidden
        )
    common = Object(
        vocabulary=sizes.vocabulary,
        context=sizes.context,
        width=sizes.width,
        heads=sizes.heads,
        feed_forward=sizes.feed_forward,
        rope_base=float(sizes.rope_base),
    )
    if isinstance(sizes, DecoderConfiguration):
        return Object(
            common,
            kind=DECODER,
            mixers=[_write_mixer(mixer) for mixer in sizes.mixers],
            wiring=sizes.wiring.value,
            channels_per_group=sizes.channels_per_group,
            futures=sizes.futures,
        )
    return Object(
        common,
        kind=LLAMA,
        layers=sizes.layers,
        key_value_heads=sizes.key_value_heads,
        head_width=sizes.head_width,
        window=sizes.window,
        tied=sizes.tied,
        rope_layout=sizes.rope_layout.value,
        rope_frequencies=sizes.rope_frequencies.value,
        epsilon=float(sizes.epsilon),
        norm=sizes.norm.value,
    )


def read_configuration(value: Json) -> AnyConfiguration:
    """Return the configuration that an object describes.

    Raises:
        CheckpointError (bad-description): it describes none.
        ModelError, LayerError: it describes one that cannot be.
    """
    kind = choice(value, MODEL, "kind", (NGRAM, DECODER, LLAMA, DRAFT))
    if kind == NGRAM:
        names: tuple[str, ...] = ("vocabulary", "context", "embedding", "hidden")
        fields = SavedFields(value, MODEL, ("kind", *names))
        vocabulary, context, width, hidden = (fields.integer(name) for name in names)
        return NeuralNgramConfiguration(vocabulary, context, width, hidden)
    if kind == DRAFT:
        names = ("vocabulary", "context", "width", "hidden")
        fields = SavedFields(value, MODEL, ("kind", *names))
        vocabulary, context, width, hidden = (fields.integer(name) for name in names)
        return DraftConfiguration(vocabulary, context, width, hidden)
    return _read_decoder(value) if kind == DECODER else _read_llama(value)


def _read_decoder(value: Json) -> DecoderConfiguration:
    fields = SavedFields(value, MODEL, (*COMMON, "mixers", "wiring", "channels_per_group", "futures"))
    return DecoderConfiguration(
        vocabulary=fields.integer("vocabulary"),
        context=fields.integer("context"),
        width=fields.integer("width"),
        heads=fields.integer("heads"),
        feed_forward=fields.integer("feed_forward"),
        mixers=tuple(_read_mixer(mixer) for mixer in fields.array("mixers")),
        wiring=Wiring(choice(value, MODEL, "wiring", [wiring.value for wiring in Wiring])),
        channels_per_group=fields.optional_integer("channels_per_group"),
        futures=fields.integer("futures"),
        rope_base=fields.double("rope_base"),
    )


def _read_llama(value: Json) -> LlamaConfiguration:
    flags = ("layers", "key_value_heads", "head_width", "window", "tied")
    fields = SavedFields(value, MODEL, (*COMMON, *flags, "rope_layout", "rope_frequencies", "epsilon", "norm"))
    frequencies = choice(value, MODEL, "rope_frequencies", [kind.value for kind in Frequencies])
    return LlamaConfiguration(
        vocabulary=fields.integer("vocabulary"),
        context=fields.integer("context"),
        width=fields.integer("width"),
        heads=fields.integer("heads"),
        feed_forward=fields.integer("feed_forward"),
        layers=fields.integer("layers"),
        key_value_heads=fields.optional_integer("key_value_heads"),
        head_width=fields.optional_integer("head_width"),
        window=fields.optional_integer("window"),
        tied=fields.flag("tied"),
        rope_base=fields.double("rope_base"),
        rope_layout=RopeLayout(choice(value, MODEL, "rope_layout", [layout.value for layout in RopeLayout])),
        rope_frequencies=Frequencies(frequencies),
        epsilon=fields.double("epsilon"),
        norm=InverseForm(choice(value, MODEL, "norm", [form.value for form in InverseForm])),
    )


def _write_mixer(mixer: MixerSpec) -> Object:
    if isinstance(mixer, AttentionSpec):
        return Object(kind=ATTENTION, window=mixer.window)
    if isinstance(mixer, LatentSpec):
        return Object(kind=LATENT, latent=mixer.latent, rope=mixer.rope)
    return Object(kind=SSM)


def _read_mixer(value: Json) -> MixerSpec:
    kind = choice(value, "mixer", "kind", (ATTENTION, LATENT, SSM))
    if kind == ATTENTION:
        return AttentionSpec(SavedFields(value, "mixer", ("kind", "window")).optional_integer("window"))
    if kind == LATENT:
        fields = SavedFields(value, "mixer", ("kind", "latent", "rope"))
        return LatentSpec(fields.integer("latent"), fields.integer("rope"))
    SavedFields(value, "mixer", ("kind",))
    return SsmSpec()


def write_schedule(schedule: AnySchedule) -> Object:
    """Return a schedule as an object."""
    if isinstance(schedule, ConstantRate):
        return Object(kind=CONSTANT, rate=float(schedule.value))
    if isinstance(schedule, SteppedRate):
        return Object(kind=STEPPED, stages=[[float(rate), steps] for rate, steps in schedule.stages])
    return Object(
        kind=WARMUP,
        peak=float(schedule.peak),
        floor=float(schedule.floor),
        warmup=schedule.warmup,
        steps=schedule.steps,
        shape=schedule.shape.value,
    )


def read_schedule(value: Json) -> AnySchedule:
    """Return the schedule that an object describes.

    Raises:
        CheckpointError (bad-description): it describes none.
        TrainingError: it describes one that cannot be.
    """
    kind = choice(value, SCHEDULE, "kind", (CONSTANT, STEPPED, WARMUP))
    if kind == CONSTANT:
        return ConstantRate(SavedFields(value, SCHEDULE, ("kind", "rate")).double("rate"))
    if kind == STEPPED:
        stages = SavedFields(value, SCHEDULE, ("kind", "stages")).array("stages")
        return SteppedRate(tuple(_read_stage(stage) for stage in stages))
    fields = SavedFields(value, SCHEDULE, ("kind", "peak", "floor", "warmup", "steps", "shape"))
    shape = DecayShape(choice(value, SCHEDULE, "shape", [shape.value for shape in DecayShape]))
    return WarmupDecay(
        fields.double("peak"), fields.double("floor"), fields.integer("warmup"), fields.integer("steps"), shape
    )


def _read_stage(value: Json) -> tuple[float, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise CheckpointError(
            "bad-description", where=SCHEDULE, problem=f"a stage is {shown(value)}, not a rate and a number of steps"
        )
    fields = SavedFields(Object(rate=value[0], steps=value[1]), SCHEDULE, ("rate", "steps"))
    return fields.double("rate"), fields.integer("steps")
