"""The phases whose models are Llama models: what real engines run, and the decoder of the course.

`llama.dense` and `llama.gqa-window` differ from each other in everything in which engines are configured: shared keys,
a window, a tied head, base and epsilon. None of their settings is a usual default, so that an option that is ignored
shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from cai_conformance.backends.decoder import hugging_face
from cai_conformance.backends.decoder.course_plan import CourseTraining
from cai_conformance.backends.decoder.sizes import GOLDEN_SIZES, PUBLISHED_SIZES, Sizes
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_conformance.trace.formatting import format_integers, format_real, format_reals
from cai_reference.autograd import Parameter
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.decoder_configuration import DraftConfiguration
from cai_reference.models.llama import Llama
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.training import AdamWConfiguration

POSITIONS: Final = 4096
"""How many positions the models can be told; a sequence may start late, and is never longer than the context."""

NORMS: Final = {
    InverseForm.INVERSE_ROOT: "root mean square, (x * (1 / sqrt(mean + epsilon))) * gain",
    InverseForm.EXPONENTIAL: "root mean square, (x * exp(log(mean + epsilon) * -0.5)) * gain",
}
PAIRS: Final = {RopeLayout.HALF_SPLIT: "half-split pairs", RopeLayout.ADJACENT: "adjacent pairs"}
POWERS: Final = {
    Frequencies.EXPONENTIAL: "exp((-2j/w) * log(base))",
    Frequencies.NEAREST: "base^(-2j/w), rounded once",
}


@dataclass(frozen=True)
class LlamaPhase:
    """A Llama model: RMSNorm, rotary attention whose query heads may share keys, SwiGLU of three matrices.

    Attributes:
        suite: the id of the suite.
        rope_base: the base of the rotary frequencies.
        epsilon: stands inside the root of every norm.
        sizes: at which the golden is recorded.
        queries_per_key: how many query heads share a head of keys and values.
        windowed: whether every layer sees a window only.
        tied: whether the embedding table is the output matrix, too.
        layout: which features of a head are turned together.
        frequencies: how the rotary frequencies are computed.
        norm: how the norms compute the inverse of the root.
        selection: how the model is trained, where validation decides which one is kept; None for the common way.
    """

    suite: str
    rope_base: float
    epsilon: float
    sizes: Sizes
    queries_per_key: int = 1
    windowed: bool = False
    tied: bool = False
    layout: RopeLayout = RopeLayout.HALF_SPLIT
    frequencies: Frequencies = Frequencies.EXPONENTIAL
    norm: InverseForm = InverseForm.INVERSE_ROOT
    selection: CourseTraining | None = None

    layers: ClassVar[int] = 2
    has_latent: ClassVar[bool] = False
    futures: ClassVar[bool] = False
    has_draft: ClassVar[bool] = False
    self_draft: ClassVar[bool] = True

    @property
    def golden_sizes(self) -> Sizes:
        """The sizes of the golden."""
        return self.sizes

    @property
    def published_sizes(self) -> Sizes:
        """The sizes of the published bake-off, which has no such model; window and optimiser stay the suite's own."""
        sizes = replace(PUBLISHED_SIZES, window=self.sizes.window)
        if self.selection is None:
            return sizes
        return replace(sizes, optimizer=self.sizes.optimizer, clip=self.sizes.clip)

    @property
    def mixer_names(self) -> tuple[str, ...]:
        """What mixes tokens in each block, as CONFIG calls it."""
        return ("window attention" if self.windowed else "attention",) * self.layers

    @property
    def has_window(self) -> bool:
        """Whether every layer sees a window only."""
        return self.windowed

    @property
    def weights_layout(self) -> WeightsLayout:
        """That of engines, wherever they compute what the model computes."""
        return WeightsLayout.NATIVE if self.obstacle else WeightsLayout.HUGGING_FACE

    @property
    def obstacle(self) -> str:
        """Why engines, whose pairs are half-split and whose norm is by the inverse of a root, cannot load the model."""
        obstacles: list[str] = []
        if self.layout is not RopeLayout.HALF_SPLIT:
            obstacles.append("its heads turn adjacent pairs, where engines turn half-split ones")
        if self.norm is not InverseForm.INVERSE_ROOT:
            obstacles.append("its norm goes through exp and log, whose bits the inverse of a root does not have")
        return "; ".join(obstacles)

    def configuration(self, sizes: Sizes, vocabulary: int) -> LlamaConfiguration:
        """Return the model of the suite at a size."""
        return LlamaConfiguration(
            vocabulary,
            sizes.context,
            sizes.width,
            sizes.heads,
            sizes.feed_forward,
            self.layers,
            key_value_heads=sizes.heads // self.queries_per_key,
            window=sizes.window if self.windowed else None,
            tied=self.tied,
            rope_base=self.rope_base,
            rope_layout=self.layout,
            rope_frequencies=self.frequencies,
            epsilon=self.epsilon,
            norm=self.norm,
        )

    def initialized(self, sizes: Sizes, vocabulary: int, generator: SplitMix64) -> Llama:
        """Draw the model of the suite at a size.

        Raises:
            DecoderError, MixerError: the sizes do not fit.
        """
        return Llama.initialize(self.configuration(sizes, vocabulary), generator)

    def model_files(self, sizes: Sizes, vocabulary: int) -> Mapping[str, bytes]:
        """Return what makes the folder of the weights a model that engines load; nothing where they could not."""
        if self.weights_layout is WeightsLayout.NATIVE:
            return {}
        return hugging_face.model_files(self.configuration(sizes, vocabulary), POSITIONS)

    def draft_configuration(self, sizes: Sizes, vocabulary: int) -> DraftConfiguration | None:
        """Return nothing: no draft is trained."""
        return None

    def output_axis(self, parameter: Parameter) -> int | None:
        """Return the rows of a tied table, or the columns of the output matrix."""
        if self.tied:
            return 0 if parameter.name == "token_embedding.weight" else None
        return 1 if parameter.name == "output.weight" else None

    def conventions(self, sizes: Sizes) -> tuple[tuple[str, str], ...]:
        """Return the fields of the CONVENTION record."""
        return (
            ("rope", PAIRS[self.layout]),
            ("rope_base", f"{self.rope_base:.0f}, frequencies {POWERS[self.frequencies]}"),
            ("window", f"{sizes.window}, the current token included" if self.windowed else "none"),
            ("argmax", "lowest id"),
            ("softmax_scale", "product with 1/sqrt(head width)"),
            ("swiglu_gate", "a matrix of its own"),
            ("norm", NORMS[self.norm]),
            ("norm_eps", f"{self.epsilon:.6f}, inside the root"),
            ("tie", "tied" if self.tied else "untied"),
            ("adamw", "decoupled decay of matrices before the update, epsilon outside the root, running beta products"),
            ("loss", "mean over real targets" if self.selection is None else "mean over all targets of whole windows"),
            ("padding", "id 0 on the right, never counted" if self.selection is None else "none"),
        )

    def model_fields(self, sizes: Sizes) -> Mapping[str, str]:
        """Return mixers, the heads of keys and values, and what else makes the model."""
        return {
            "mixers": ", ".join(self.mixer_names),
            "key_value_heads": str(sizes.heads // self.queries_per_key),
            "head_width": str(sizes.width // sizes.heads),
            "window": str(sizes.window if self.windowed else 0),
            "positions": str(POSITIONS),
            "rope_base": format_real(self.rope_base),
            "norm_eps": format_real(self.epsilon, 9),
            "tied": "yes" if self.tied else "no",
            **self._selection_fields(sizes),
        }

    def _selection_fields(self, sizes: Sizes) -> Mapping[str, str]:
        if self.selection is None:
            return {}
        return {
            "stride": str(self.selection.stride),
            "evaluation_stride": str(self.selection.evaluation_stride),
            "rates": format_reals(self.selection.rates),
            "checkpoints": format_integers(self.selection.checkpoints(sizes.steps)),
        }

    def draft_fields(self, parameters: int, weights: int) -> Mapping[str, str]:
        """Return nothing: there is no draft to count."""
        return {}


LLAMA_SIZES: Final = replace(GOLDEN_SIZES, width=32, heads=4)

COURSE_TRAINING: Final = CourseTraining((0.04, 0.025, 0.015, 0.008), stride=240, evaluation_stride=240, measured=6)
"""The rates of chapter 33, for more than its eight updates. So wide a stride takes the first window of each story."""

COURSE_SIZES: Final = replace(
    LLAMA_SIZES,
    stories=16,
    validation_every=4,
    evaluation_stories=6,
    batch=3,
    steps=48,
    optimizer=AdamWConfiguration(COURSE_TRAINING.rates[0], 0.9, 0.999, 1e-8, 0.01),
    clip=0.8,
)
"""So few stories that the validation loss rises again, and a limit that some updates keep and others do not."""

LLAMA_PHASES: Final = (
    LlamaPhase("llama.dense", 500000.0, 1e-3, replace(LLAMA_SIZES, steps=52)),
    LlamaPhase(
        "llama.gqa-window",
        1000000.0,
        3e-4,
        replace(LLAMA_SIZES, steps=36),
        queries_per_key=2,
        windowed=True,
        tied=True,
    ),
    LlamaPhase(
        "course.decoder",
        10000.0,
        1e-6,
        COURSE_SIZES,
        tied=True,
        layout=RopeLayout.ADJACENT,
        frequencies=Frequencies.NEAREST,
        norm=InverseForm.EXPONENTIAL,
        selection=COURSE_TRAINING,
    ),
)
"""The models of engines, and that of the course."""
