"""The neural n-gram: the next token from a fixed number of previous ones.

The embeddings of the context are laid side by side, pass a SwiGLU layer, and are projected to logits::

    x = [E[c₀] … E[c_{C−1}]]        [batch, C·D]
    h = (SiLU(x Wg) · (x Wu)) Wd    [batch, H]
    z = h Wo                        [batch, V]

(Bengio and others, "A neural probabilistic language model", 2003, with a SwiGLU hidden layer; course, chapter 23.) Only
the token after the context is predicted: of a window's shifted targets, the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.operations import reshape
from cai_reference.autograd.probability import mean_nll
from cai_reference.errors import ModelError
from cai_reference.layers.matrices import Units, check_unique_names, embedding, xavier_uniform
from cai_reference.layers.projection import linear
from cai_reference.layers.swiglu import swiglu
from cai_reference.text.batches import Window

PARAMETER_NAMES: Final = (
    "ngram.embedding.weight",
    "ngram.ffn.gate.weight",
    "ngram.ffn.up.weight",
    "ngram.ffn.down.weight",
    "ngram.output.weight",
)


class NgramError(ModelError):
    """The n-gram model cannot be made or applied."""

    templates: ClassVar[Mapping[str, str]] = {
        # The vocabulary has no tokens.
        "empty-vocabulary": "the vocabulary must hold at least 1 token",
        # The context has no tokens.
        "zero-context": "the context length must be at least 1",
        # The embedding has no columns.
        "zero-embedding-width": "the embedding width must be at least 1",
        # The hidden layer has no units.
        "zero-hidden-width": "the hidden width must be at least 1",
        # A batch has no rows.
        "empty-batch": "a batch needs at least one row",
        # There are not as many context ids as rows times context length.
        "context-token-count-mismatch": "expected {expected} context tokens, found {actual}",
        # A window is of another length than the model's context.
        "batch-context-length-mismatch": "expected windows of {expected} tokens, found {actual}",
        # A registry holds another number of parameters.
        "parameter-count-mismatch": "expected {expected} parameters, found {actual}",
        # A parameter of another name stands in the registry. Names are looked at before shapes, index by index.
        "parameter-name-mismatch": "parameter {index}: expected {expected!r}, found {actual!r}",
        # A parameter has another shape than the configuration asks for.
        "parameter-shape-mismatch": "parameter {name!r}: expected shape {expected}, found {actual}",
        # There are fewer targets than rows.
        "missing-target-row": "row {row} has no target",
        # A target is beyond the vocabulary. All rows are looked at before the forward pass.
        "target-id-out-of-bounds": "row {row}: target {token_id} is not in a vocabulary of {vocabulary_size}",
    }


@dataclass(frozen=True)
class NeuralNgramConfiguration:
    """The sizes: vocabulary V, context C, embedding width D, hidden width H.

    Raises:
        NgramError (empty-vocabulary, zero-context, zero-embedding-width, zero-hidden-width): a size is below 1, looked
            at in this order.
    """

    vocabulary: int
    context: int
    embedding: int
    hidden: int

    def __post_init__(self) -> None:
        if self.vocabulary < 1:
            raise NgramError("empty-vocabulary")
        if self.context < 1:
            raise NgramError("zero-context")
        if self.embedding < 1:
            raise NgramError("zero-embedding-width")
        if self.hidden < 1:
            raise NgramError("zero-hidden-width")

    @property
    def concatenated(self) -> int:
        """The width of a context, C·D."""
        return self.context * self.embedding

    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Return the shape [inputs, outputs] of each parameter, in registry order."""
        # registry order: embedding, gate, up, down, output
        return (
            (self.vocabulary, self.embedding),
            (self.concatenated, self.hidden),
            (self.concatenated, self.hidden),
            (self.hidden, self.hidden),
            (self.hidden, self.vocabulary),
        )

    @property
    def parameters(self) -> int:
        """How many scalars are trained."""
        return sum(inputs * outputs for inputs, outputs in self.shapes())


@dataclass(frozen=True)
class Stages:
    """What a forward pass computes on the way.

    Attributes:
        embeddings: shape [batch, C, D].
        concatenated: shape [batch, C·D].
        hidden: shape [batch, H].
        logits: shape [batch, V].
    """

    embeddings: Variable
    concatenated: Variable
    hidden: Variable
    logits: Variable


class NeuralNgram:
    """A model: sizes and five parameters in registry order.

    Raises:
        NgramError (parameter-count-mismatch, parameter-name-mismatch, parameter-shape-mismatch): the parameters do not
            fit the sizes.
    """

    def __init__(self, configuration: NeuralNgramConfiguration, parameters: Sequence[Parameter]) -> None:
        shapes = configuration.shapes()
        if len(parameters) != len(shapes):
            raise NgramError("parameter-count-mismatch", expected=len(shapes), actual=len(parameters))
        for index, (parameter, name, shape) in enumerate(zip(parameters, PARAMETER_NAMES, shapes, strict=True)):
            if parameter.name != name:
                raise NgramError("parameter-name-mismatch", index=index, expected=name, actual=parameter.name)
            if parameter.shape != shape:
                raise NgramError("parameter-shape-mismatch", name=name, expected=shape, actual=parameter.shape)
        self.configuration = configuration
        self.parameters = tuple(parameters)

    @classmethod
    def initialize(cls, configuration: NeuralNgramConfiguration, generator: Units) -> NeuralNgram:
        """Draw all parameters from one stream, in registry order."""
        check_unique_names(PARAMETER_NAMES)
        parameters = [
            xavier_uniform(name, inputs, outputs, generator)
            for name, (inputs, outputs) in zip(PARAMETER_NAMES, configuration.shapes(), strict=True)
        ]
        return cls(configuration, parameters)

    def forward(self, tape: Tape, context_ids: Sequence[int], batch: int) -> Stages:
        """Run the model on `batch` contexts, given flat, oldest token first.

        Raises:
            NgramError (empty-batch): there are no rows.
            NgramError (context-token-count-mismatch): there are not batch · C ids.
            LayerError: an id is beyond the vocabulary.
        """
        sizes = self.configuration
        if batch < 1:
            raise NgramError("empty-batch")
        if len(context_ids) != batch * sizes.context:
            raise NgramError("context-token-count-mismatch", expected=batch * sizes.context, actual=len(context_ids))
        table, gate, up, down, output = self.parameters
        embeddings = embedding(tape, table, context_ids, (batch, sizes.context))
        concatenated = reshape(tape, embeddings, (batch, sizes.concatenated))
        hidden = swiglu(tape, concatenated, gate, up, down)
        return Stages(embeddings, concatenated, hidden, linear(tape, hidden, output))

    def loss(self, tape: Tape, windows: Sequence[Window]) -> Variable:
        """Return the mean negative log-likelihood, in nats, of the last target of each window.

        Raises:
            NgramError (empty-batch, batch-context-length-mismatch, missing-target-row, target-id-out-of-bounds): looked
                for in this order,
                before the forward pass.
        """
        sizes = self.configuration
        if not windows:
            raise NgramError("empty-batch")
        for window in windows:
            if len(window.inputs) != sizes.context:
                raise NgramError("batch-context-length-mismatch", expected=sizes.context, actual=len(window.inputs))
        targets: list[int] = []
        for row, window in enumerate(windows):
            if not window.targets:
                raise NgramError("missing-target-row", row=row)
            target = window.targets[-1]
            if not 0 <= target < sizes.vocabulary:
                raise NgramError("target-id-out-of-bounds", row=row, token_id=target, vocabulary_size=sizes.vocabulary)
            targets.append(target)
        context_ids = [token for window in windows for token in window.inputs]
        return mean_nll(tape, self.forward(tape, context_ids, len(windows)).logits, targets)

    def next_token_logits(self, arithmetic: Arithmetic, context: Sequence[int]) -> Array:
        """Return the logits [V] after one context, without recording."""
        logits: Array = self.forward(Tape(arithmetic, recording=False), context, batch=1).logits.value[0]
        return logits
