"""What is asked of a phase: the part in which the decode suites differ.

A decode suite is one skeleton (data, training, arms, caches, records, vector cases, judges) around a phase. Phases come
in families: those of the CAI NEURAL API's bake-off in `plan`, Llama models in `llama_plan`. A family says what its
models are made of, which conventions they follow and what a trace states about their sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from cai_conformance.backends.decoder.course_plan import CourseTraining
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_reference.autograd import Parameter
from cai_reference.models.decoder_configuration import DraftConfiguration
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64


class DecodePhase(Protocol):
    """What sets one decode suite apart."""

    def __hash__(self) -> int:
        """Phases are values."""
        ...

    @property
    def suite(self) -> str:
        """The id of the suite."""
        ...

    @property
    def golden_sizes(self) -> Sizes:
        """The sizes of the golden."""
        ...

    @property
    def published_sizes(self) -> Sizes:
        """The sizes of the published bake-off."""
        ...

    @property
    def mixer_names(self) -> tuple[str, ...]:
        """What mixes tokens in each block, as CONFIG calls it."""
        ...

    @property
    def has_window(self) -> bool:
        """Whether a layer sees a window only."""
        ...

    @property
    def has_latent(self) -> bool:
        """Whether a layer is latent attention, so that there are two more arms."""
        ...

    @property
    def futures(self) -> bool:
        """Whether the model predicts several tokens, so that its later heads can guess."""
        ...

    @property
    def has_draft(self) -> bool:
        """Whether a small model is trained beside it, to guess ahead."""
        ...

    @property
    def self_draft(self) -> bool:
        """Whether the model also drafts for itself."""
        ...

    @property
    def selection(self) -> CourseTraining | None:
        """How the model is trained, where its smallest validation loss decides which one is kept; None elsewhere."""
        ...

    @property
    def obstacle(self) -> str:
        """Why no engine can load the model; nothing where engines can."""
        ...

    @property
    def weights_layout(self) -> WeightsLayout:
        """How the given weights are named and laid out."""
        ...

    def initialized(self, sizes: Sizes, vocabulary: int, generator: SplitMix64) -> DecoderStack:
        """Draw the model of the suite at a size."""
        ...

    def model_files(self, sizes: Sizes, vocabulary: int) -> Mapping[str, bytes]:
        """Return what stands beside the weights, by file name."""
        ...

    def draft_configuration(self, sizes: Sizes, vocabulary: int) -> DraftConfiguration | None:
        """Return the draft that is trained beside the model; None where there is none."""
        ...

    def output_axis(self, parameter: Parameter) -> int | None:
        """Return the axis of a parameter along which the head's ids lie; None for what is no output."""
        ...

    def conventions(self, sizes: Sizes) -> tuple[tuple[str, str], ...]:
        """Return the fields of the CONVENTION record."""
        ...

    def model_fields(self, sizes: Sizes) -> Mapping[str, str]:
        """Return what CONFIG states between the common sizes and the counts of parameters."""
        ...

    def draft_fields(self, parameters: int, weights: int) -> Mapping[str, str]:
        """Return what CONFIG states about the parameters of a draft."""
        ...
