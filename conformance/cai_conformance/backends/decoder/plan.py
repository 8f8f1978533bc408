"""What the decode suites train and decode, as data: the nine phases of the bake-off, and where all phases are found.

The nine phases are the published ones (CAI NEURAL API, decode-features bake-off).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from cai_conformance.backends.decoder.llama_plan import LLAMA_PHASES
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.sizes import GOLDEN_SIZES, PUBLISHED_SIZES, Sizes
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_reference.autograd import Parameter
from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import (
    AttentionSpec,
    DecoderConfiguration,
    DraftConfiguration,
    LatentSpec,
    MixerSpec,
    SsmSpec,
    Wiring,
)
from cai_reference.splitmix import SplitMix64

__all__ = [
    "DECODE_PHASES",
    "GOLDEN_SIZES",
    "PHASES",
    "PUBLISHED_SIZES",
    "DecodePhase",
    "Phase",
    "Sizes",
    "phase_of",
    "sizes_for",
]

MIXER_NAMES: Final = {"a": "attention", "w": "window attention", "l": "latent attention", "s": "diagonal ssm"}


@dataclass(frozen=True)
class Phase:
    """A phase of the bake-off: the mixers, their wiring, whether projections are grouped, and the extra arms.

    Attributes:
        suite: the id of the suite.
        mixers: a letter a block: `a` attention, `w` attention with a window, `l` latent attention, `s` recurrence.
        wiring: of the blocks.
        grouped: whether projections are grouped.
        futures: whether the model predicts several tokens.
        draft: whether a token-shift draft is trained beside it.
        steps: updates at the golden size, where they differ from the common number.
    """

    suite: str
    mixers: str
    wiring: Wiring = Wiring.SEQUENTIAL
    grouped: bool = False
    futures: bool = False
    draft: bool = False
    steps: int | None = None

    selection: ClassVar[None] = None
    weights_layout: ClassVar[WeightsLayout] = WeightsLayout.NATIVE
    obstacle: ClassVar[str] = "engines have no layers such as dynamic tanh and a slab that gates itself"

    @property
    def golden_sizes(self) -> Sizes:
        """The common sizes, with the phase's own number of updates."""
        return GOLDEN_SIZES if self.steps is None else replace(GOLDEN_SIZES, steps=self.steps)

    @property
    def published_sizes(self) -> Sizes:
        """The sizes of the published bake-off."""
        return PUBLISHED_SIZES

    @property
    def mixer_names(self) -> tuple[str, ...]:
        """What mixes tokens in each block, as CONFIG calls it."""
        return tuple(MIXER_NAMES[letter] for letter in self.mixers)

    @property
    def has_window(self) -> bool:
        """Whether a layer sees a window only."""
        return "w" in self.mixers

    @property
    def has_latent(self) -> bool:
        """Whether a layer is latent attention, so that there are two more arms."""
        return "l" in self.mixers

    @property
    def has_draft(self) -> bool:
        """Whether there is a trained draft."""
        return self.draft

    @property
    def self_draft(self) -> bool:
        """Whether the model drafts for itself, beside the trained draft."""
        return self.draft

    def specs(self, sizes: Sizes) -> tuple[MixerSpec, ...]:
        """Return the mixers at a size."""
        made: dict[str, MixerSpec] = {
            "a": AttentionSpec(),
            "w": AttentionSpec(sizes.window),
            "l": LatentSpec(sizes.latent, sizes.rope),
            "s": SsmSpec(),
        }
        return tuple(made[letter] for letter in self.mixers)

    def decoder(self, sizes: Sizes, vocabulary: int) -> DecoderConfiguration:
        """Return the model of the suite at a size."""
        return DecoderConfiguration(
            vocabulary,
            sizes.context,
            sizes.width,
            sizes.heads,
            sizes.feed_forward,
            self.specs(sizes),
            self.wiring,
            sizes.channels_per_group if self.grouped else None,
            sizes.futures if self.futures else 1,
        )

    def draft_model(self, sizes: Sizes, vocabulary: int) -> DraftConfiguration:
        """Return the draft of the suite at a size."""
        return DraftConfiguration(vocabulary, sizes.context, sizes.draft_width, sizes.draft_hidden)

    def initialized(self, sizes: Sizes, vocabulary: int, generator: SplitMix64) -> Decoder:
        """Draw the model of the suite at a size.

        Raises:
            MixerError, DecoderError: widths, heads or windows do not fit.
        """
        return Decoder.initialize(self.decoder(sizes, vocabulary), generator)

    def model_files(self, sizes: Sizes, vocabulary: int) -> Mapping[str, bytes]:
        """Return nothing: no engine has these models."""
        return {}

    def draft_configuration(self, sizes: Sizes, vocabulary: int) -> DraftConfiguration | None:
        """Return the draft that is trained beside the model; None where there is none."""
        return self.draft_model(sizes, vocabulary) if self.draft else None

    def output_axis(self, parameter: Parameter) -> int | None:
        """Return the last axis of weights and biases of the output maps."""
        return len(parameter.shape) - 1 if parameter.name.startswith("head.outputs.") else None

    def conventions(self, sizes: Sizes) -> tuple[tuple[str, str], ...]:
        """Return the fields of the CONVENTION record."""
        attends = any(letter in self.mixers for letter in "awl")
        scale = "1/sqrt(head width + rope width)" if self.has_latent else "1/sqrt(head width)"
        return (
            ("rope", "adjacent pairs" if attends else "none"),
            ("rope_base", "10000" if attends else "none"),
            ("window", f"{sizes.window}, the current token included" if self.has_window else "none"),
            ("argmax", "lowest id"),
            ("softmax_scale", f"product with {scale}" if attends else "none"),
            ("swiglu_gate", "second half"),
            ("norm", "dynamic tanh"),
            ("norm_eps", "none"),
            ("tie", "untied"),
            ("adamw", "decoupled decay of matrices before the update, epsilon outside the root, running beta products"),
            ("loss", "mean over real targets" + ("; mean of the heads' means" if self.futures else "")),
            ("padding", "id 0 on the right, never counted"),
        )

    def model_fields(self, sizes: Sizes) -> Mapping[str, str]:
        """Return mixers, wiring, and the sizes of what there is; 0 of what there is not."""
        latent = self.has_latent
        return {
            "mixers": ", ".join(self.mixer_names),
            "wiring": self.wiring.value,
            "window": str(sizes.window if self.has_window else 0),
            "latent": str(sizes.latent if latent else 0),
            "rope": str(sizes.rope if latent else 0),
            "channels_per_group": str(sizes.channels_per_group if self.grouped else 0),
            "futures": str(sizes.futures if self.futures else 1),
        }

    def draft_fields(self, parameters: int, weights: int) -> Mapping[str, str]:
        """Return both counts of the draft; 0 where there is none."""
        return {"draft_parameters": str(parameters), "draft_weights": str(weights)}


PHASES: Final = (
    Phase("cai.kv-cache", "aa"),
    Phase("cai.multi-token", "aa", futures=True),
    Phase("cai.diagonal-ssm", "ss", steps=36),
    Phase("cai.latent-attention", "ll"),
    Phase("cai.speculative", "aa", draft=True),
    Phase("cai.hybrid", "sls"),
    Phase("cai.grouped-hybrid", "sls", grouped=True, steps=40),
    Phase("cai.local-global", "wa", steps=36),
    Phase("cai.parallel-block", "aa", wiring=Wiring.PARALLEL, steps=56),
)
"""The nine phases of the bake-off, in its order."""

DECODE_PHASES: Final[tuple[DecodePhase, ...]] = (*PHASES, *LLAMA_PHASES)
"""The phases of all decode suites."""


def phase_of(suite: str) -> DecodePhase:
    """Return the phase of a suite id; StopIteration if it is none."""
    return next(phase for phase in DECODE_PHASES if phase.suite == suite)


def sizes_for(phase: DecodePhase, profile: str, examples: int) -> Sizes:
    """Return the sizes of a profile; `examples`, where not 0, decides the number of updates."""
    sizes = phase.published_sizes if profile == "published" else phase.golden_sizes
    return replace(sizes, steps=max(1, examples // sizes.batch)) if examples else sizes
