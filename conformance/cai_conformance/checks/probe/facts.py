"""What is known of a model before it is asked: sizes, windows, and which kinds of layers it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.fixtures.configurations import read_configuration
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, SsmSpec
from cai_reference.models.llama import LlamaConfiguration

ATTENDING: Final = "attention"
RECURRENT: Final = "ssm"
WINDOWED: Final = "window attention"
OUTPUTS: Final = "head.outputs."
CHUNK: Final = 5
"""How many tokens a middling call has, where nobody says."""
BLOCK: Final = 4
"""How many tokens are guessed ahead, where nobody says."""


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model; it is believed only where it decides what is asked, and never as an answer.

    Attributes:
        windows: a layer each, how many tokens it sees, the current one included; None for all. Empty where unknown.
        rotary: whether a layer has rotary positions.
        recurrent: whether a layer carries a state from token to token.
        positions: how many positions the model can be told; None for no limit that is known.
        chunk, block: how many tokens a middling call has, and how many are guessed ahead.
        vocabulary: how many ids there are; None where that has to be asked.
        later_heads: for each later head, the tensors of the first head and its own, as pairs of names.
        output_biases: the tensors that add to logits, an entry an id.
        tied: whether the table of ids gives the logits as well.
    """

    windows: tuple[int | None, ...] = ()
    rotary: bool = False
    recurrent: bool = False
    positions: int | None = None
    chunk: int = CHUNK
    block: int = BLOCK
    vocabulary: int | None = None
    later_heads: tuple[tuple[str, str], ...] = ()
    output_biases: tuple[str, ...] = ()
    tied: bool = False

    @property
    def layers(self) -> int:
        """How many there are; 0 where that is unknown."""
        return len(self.windows)

    @property
    def window(self) -> int | None:
        """The narrowest window; None where there is none."""
        return min((window for window in self.windows if window is not None), default=None)

    @property
    def reach(self) -> int | None:
        """At which distance the first token is last felt, through all layers; None where there is no end to it."""
        if not self.windows:
            return None
        total = 0
        for window in self.windows:
            if window is None:
                return None
            total += window - 1
        return total


def facts_of(given: GivenModel) -> ModelFacts:
    """Return what a suite says of the model that it gives."""
    phase, sizes, configuration = given.phase, given.sizes, given.model.configuration
    facts = ModelFacts(
        windows=tuple(sizes.window if name == WINDOWED else None for name in phase.mixer_names),
        rotary=any(ATTENDING in name for name in phase.mixer_names),
        recurrent=any(RECURRENT in name for name in phase.mixer_names),
        chunk=sizes.chunk,
        block=sizes.block,
        vocabulary=configuration.vocabulary,
        tied=isinstance(configuration, LlamaConfiguration) and configuration.tied,
    )
    return with_heads(facts, tuple(given.tensors))


def with_heads(facts: ModelFacts, names: tuple[str, ...]) -> ModelFacts:
    """Return what is known, with the tensors of output heads among the names of a file."""
    biases = tuple(name for name in names if name.startswith(OUTPUTS) and name.endswith(".bias"))
    return replace(facts, later_heads=_later_heads(names), output_biases=biases)


def facts_of_settings(settings: Mapping[str, Any]) -> ModelFacts:
    """Return what a folder's `config.json` says, in the words of Hugging Face's model files or in this project's."""
    if settings.get("model") == "llama":
        return _of_llama(settings)
    if "mixers" in settings:
        return _of_decoder(settings)
    layers = settings.get("num_hidden_layers")
    if not isinstance(layers, int) or isinstance(layers, bool) or layers < 1:
        return ModelFacts()
    rotary = any(name in settings for name in ("rope_theta", "rope_parameters", "rope_scaling"))
    return ModelFacts(
        windows=tuple(_windows(settings, layers)),
        rotary=rotary,
        positions=_count(settings.get("max_position_embeddings")),
        tied=settings.get("tie_word_embeddings") is True,
    )


def _of_llama(settings: Mapping[str, Any]) -> ModelFacts:
    layers = _count(settings.get("layers")) or 0
    windows = (_count(settings.get("window")),) * layers
    return ModelFacts(windows=windows, rotary=True, tied=settings.get("tied") is True)


def _of_decoder(settings: Mapping[str, Any]) -> ModelFacts:
    try:
        decoder = read_configuration(json.dumps(settings))
    except ValueError:
        return ModelFacts()
    if not isinstance(decoder, DecoderConfiguration):
        return ModelFacts()
    windows = tuple(spec.window if isinstance(spec, AttentionSpec) else None for spec in decoder.mixers)
    kinds = [isinstance(spec, SsmSpec) for spec in decoder.mixers]
    return ModelFacts(windows=windows, rotary=not all(kinds), recurrent=any(kinds))


def _windows(settings: Mapping[str, Any], layers: int) -> list[int | None]:
    window = _count(settings.get("sliding_window"))
    if settings.get("use_sliding_window") is False:
        window = None
    kinds = settings.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return [window if kind == "sliding_attention" else None for kind in kinds]
    return [window] * layers


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _later_heads(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Pair the tensors of the first head with those of each later one."""
    pairs: list[tuple[str, str]] = []
    for name in names:
        head, _, rest = name.removeprefix(OUTPUTS).partition(".")
        if name.startswith(OUTPUTS) and head != "0":
            pairs.append((f"{OUTPUTS}0.{rest}", name))
    return tuple(pairs)
