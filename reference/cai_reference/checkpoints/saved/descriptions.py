"""Configurations and schedules as JSON, and back."""

from __future__ import annotations

from typing import Final

from cai_reference.checkpoints.saved.errors import BadDescription
from cai_reference.checkpoints.saved.fields import Fields, choice, shown
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models import NeuralNgramConfiguration
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    DraftConfiguration,
    LatentSpec,
    MixerSpec,
    SsmSpec,
    Wiring,
)
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.text.strict_json import Json, Object
from cai_reference.training.model_kinds import AnyConfiguration
from cai_reference.training.schedules import AnySchedule, ConstantRate, DecayShape, SteppedRate, WarmupDecay

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
        BadDescription: it describes none.
        ModelError, MixerError: it describes one that cannot be.
    """
    kind = choice(value, MODEL, "kind", (NGRAM, DECODER, LLAMA, DRAFT))
    if kind == NGRAM:
        names: tuple[str, ...] = ("vocabulary", "context", "embedding", "hidden")
        fields = Fields(value, MODEL, ("kind", *names))
        vocabulary, context, width, hidden = (fields.integer(name) for name in names)
        return NeuralNgramConfiguration(vocabulary, context, width, hidden)
    if kind == DRAFT:
        names = ("vocabulary", "context", "width", "hidden")
        fields = Fields(value, MODEL, ("kind", *names))
        vocabulary, context, width, hidden = (fields.integer(name) for name in names)
        return DraftConfiguration(vocabulary, context, width, hidden)
    return _read_decoder(value) if kind == DECODER else _read_llama(value)


def _read_decoder(value: Json) -> DecoderConfiguration:
    fields = Fields(value, MODEL, (*COMMON, "mixers", "wiring", "channels_per_group", "futures"))
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
    fields = Fields(value, MODEL, (*COMMON, *flags, "rope_layout", "rope_frequencies", "epsilon", "norm"))
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
        return AttentionSpec(Fields(value, "mixer", ("kind", "window")).optional_integer("window"))
    if kind == LATENT:
        fields = Fields(value, "mixer", ("kind", "latent", "rope"))
        return LatentSpec(fields.integer("latent"), fields.integer("rope"))
    Fields(value, "mixer", ("kind",))
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
        BadDescription: it describes none.
        ScheduleError: it describes one that cannot be.
    """
    kind = choice(value, SCHEDULE, "kind", (CONSTANT, STEPPED, WARMUP))
    if kind == CONSTANT:
        return ConstantRate(Fields(value, SCHEDULE, ("kind", "rate")).double("rate"))
    if kind == STEPPED:
        stages = Fields(value, SCHEDULE, ("kind", "stages")).array("stages")
        return SteppedRate(tuple(_read_stage(stage) for stage in stages))
    fields = Fields(value, SCHEDULE, ("kind", "peak", "floor", "warmup", "steps", "shape"))
    shape = DecayShape(choice(value, SCHEDULE, "shape", [shape.value for shape in DecayShape]))
    return WarmupDecay(
        fields.double("peak"), fields.double("floor"), fields.integer("warmup"), fields.integer("steps"), shape
    )


def _read_stage(value: Json) -> tuple[float, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise BadDescription(SCHEDULE, f"a stage is {shown(value)}, not a rate and a number of steps")
    fields = Fields(Object(rate=value[0], steps=value[1]), SCHEDULE, ("rate", "steps"))
    return fields.double("rate"), fields.integer("steps")
