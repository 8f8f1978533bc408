"""Configurations as JSON, as a weights file carries them; read strictly, so that every key means what it says."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from cai_conformance.goldens import strict_json
from cai_reference.errors import CaiReferenceError
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    DraftConfiguration,
    LatentSpec,
    MixerSpec,
    SsmSpec,
    Wiring,
)

Configuration: TypeAlias = DecoderConfiguration | DraftConfiguration

DECODER: Final = "decoder"
DRAFT: Final = "token-shift-draft"


def write_configuration(configuration: Configuration) -> str:
    """Return a configuration as one line of JSON, keys in alphabetical order."""
    sizes = configuration
    value: strict_json.Object
    if isinstance(sizes, DraftConfiguration):
        value = {
            "model": DRAFT,
            "vocabulary": sizes.vocabulary,
            "context": sizes.context,
            "width": sizes.width,
            "hidden": sizes.hidden,
        }
    else:
        value = {
            "model": DECODER,
            "vocabulary": sizes.vocabulary,
            "context": sizes.context,
            "width": sizes.width,
            "heads": sizes.heads,
            "feed_forward": sizes.feed_forward,
            "mixers": [_written_mixer(spec) for spec in sizes.mixers],
            "wiring": sizes.wiring.value,
            "channels_per_group": sizes.channels_per_group,
            "futures": sizes.futures,
            "rope_base": sizes.rope_base,
        }
    return strict_json.write_line(value).decode("utf-8").rstrip("\n")


def read_configuration(text: str) -> Configuration:
    """Return the configuration that `write_configuration` wrote.

    Raises:
        ValueError: the text is something else, or the configuration is refused; the message says why.
    """
    parsed = strict_json.parse(text.encode("utf-8", "surrogatepass"))
    if not isinstance(parsed, dict):
        raise ValueError("it is not an object")
    model = parsed.get("model")
    try:
        if model == DRAFT:
            return _draft(strict_json.obj(parsed, ("model", "vocabulary", "context", "width", "hidden"), "it"))
        if model == DECODER:
            return _decoder(parsed)
    except CaiReferenceError as error:
        raise ValueError(str(error)) from error
    raise ValueError(f"the model {strict_json.shown(model)} is neither {DECODER!r} nor {DRAFT!r}")


def _draft(value: strict_json.Object) -> DraftConfiguration:
    vocabulary, context, width, hidden = (_size(value, key) for key in ("vocabulary", "context", "width", "hidden"))
    return DraftConfiguration(vocabulary, context, width, hidden)


def _decoder(parsed: strict_json.Object) -> DecoderConfiguration:
    counted = ("vocabulary", "context", "width", "heads", "feed_forward", "futures")
    value = strict_json.obj(parsed, ("model", *counted, "mixers", "wiring", "channels_per_group", "rope_base"), "it")
    vocabulary, context, width, heads, feed_forward, futures = (_size(value, key) for key in counted)
    wirings = {wiring.value: wiring for wiring in Wiring}
    wiring, groups, base = value["wiring"], value["channels_per_group"], value["rope_base"]
    if not isinstance(wiring, str) or wiring not in wirings:
        raise ValueError(f"wiring is {strict_json.shown(wiring)}, not one of {', '.join(wirings)}")
    if not isinstance(base, float) or not math.isfinite(base) or base <= 0:
        raise ValueError(f"rope_base is {strict_json.shown(base)}, not a positive number with a decimal point")
    return DecoderConfiguration(
        vocabulary,
        context,
        width,
        heads,
        feed_forward,
        tuple(_mixer(mixer) for mixer in strict_json.array(value["mixers"], "mixers")),
        wirings[wiring],
        None if groups is None else _size(value, "channels_per_group"),
        futures,
        base,
    )


def _written_mixer(spec: MixerSpec) -> strict_json.Object:
    if isinstance(spec, AttentionSpec):
        return {"mixer": "attention", "window": spec.window}
    if isinstance(spec, LatentSpec):
        return {"mixer": "latent-attention", "latent": spec.latent, "rope": spec.rope}
    return {"mixer": "diagonal-ssm"}


def _mixer(value: object) -> MixerSpec:
    kind = value.get("mixer") if isinstance(value, dict) else None
    if kind == "attention":
        fields = strict_json.obj(value, ("mixer", "window"), "a mixer")
        return AttentionSpec(None if fields["window"] is None else _size(fields, "window"))
    if kind == "latent-attention":
        fields = strict_json.obj(value, ("mixer", "latent", "rope"), "a mixer")
        return LatentSpec(_size(fields, "latent"), _size(fields, "rope"))
    if kind == "diagonal-ssm":
        strict_json.obj(value, ("mixer",), "a mixer")
        return SsmSpec()
    raise ValueError(f"a mixer is {strict_json.shown(value)}, which is none")


def _size(value: strict_json.Object, key: str) -> int:
    size = strict_json.count(value[key], key)
    if size < 1:
        raise ValueError(f"{key} is {size}, but must be at least 1")
    return size
