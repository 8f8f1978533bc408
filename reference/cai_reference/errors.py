"""The root of every error that the reference raises.

Those of what computes a model stand here, those of the other rooms in a file beside the code that raises them::

    CaiReferenceError
    ├── ArithmeticFault          names, bits, matrix products
    ├── SplitMixError            cai_reference.splitmix
    ├── TextError                cai_reference.text.errors
    │   ├── CorpusError          corpus, manifest, partition
    │   ├── BpeTokenizerError    coding with merges
    │   └── BatchError           epochs and mini-batches
    ├── AutogradError            shapes, probabilities, what a tape refuses
    ├── LayerError               initial values, embeddings, linear maps, norms, mixers
    ├── ModelError               sizes, ids, sequences
    ├── TrainingError            cai_reference.training.errors
    ├── DecodingError            cai_reference.decoding.errors
    │   ├── SessionError         streaming sessions
    │   └── SamplingError        cai_reference.decoding.errors
    └── CheckpointError          cai_reference.checkpoints.errors

An error carries the offending values as fields and a message made from them. Sources: course, chapters 8 to 20, 23 and
25 (the error variants and what their texts carry).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar, Final

LONGEST_SHOWN: Final = 4000
"""So many characters of a text are shown in a message: a field may hold what stood in a file, whatever its length."""


def shown(value: object) -> object:
    """Return a field as messages show it: a long text is cut, everything else is left as it is."""
    if isinstance(value, str) and len(value) > LONGEST_SHOWN:
        return f"{value[: LONGEST_SHOWN - 1]}…"
    return value


REFERENCE_TEMPLATES: Final[Mapping[str, str]] = {
    # No arithmetic has this name.
    "unknown-arithmetic": "unknown arithmetic {name!r}; known are {known}",
    # A text that should hold the bits of a double is not sixteen hexadecimal digits.
    "not-hex-bits": "{text!r} is not sixteen hexadecimal digits of a double",
    # Two arrays cannot be multiplied: too few axes, unequal inner axes, or leading axes that don't broadcast.
    "matmul-shapes": "cannot multiply shapes {left} and {right}: need [..., n, k] and [..., k, m]",
    # ── tensors and their shapes
    # A shape holds another number of elements than there are values.
    "data-length-mismatch": "the shape holds {expected} elements, the values are {actual}",
    # An index lies beyond its axis.
    "index-out-of-bounds": "index {index} is out of bounds for axis {axis} of length {dimension}",
    # Two shapes cannot be aligned from the right. `axis` counts in the aligned output.
    "incompatible-broadcast": "lengths {left} and {right} cannot be broadcast at output axis {axis}",
    # A reduction names an axis that is not there.
    "reduction-axis-out-of-bounds": "axis {axis} is out of bounds for a reduction over {rank} axes",
    # The mean of nothing does not exist.
    "empty-mean-axis": "the mean over axis {axis} has no elements",
    # The left operand has fewer than two axes.
    "left-rank-too-small": "the left operand has {rank} axes; a matrix product needs at least 2",
    # The right operand has fewer than two axes.
    "right-rank-too-small": "the right operand has {rank} axes; a matrix product needs at least 2",
    # The columns of the left operand are not as many as the rows of the right one.
    "inner-dimension-mismatch": "the inner lengths differ: {left} columns on the left, {right} rows on the right",
    # The leading axes cannot be broadcast. `axis` counts in the aligned output.
    "incompatible-batch": "batch lengths {left} and {right} cannot be broadcast at axis {axis}",
    # The class axis is not there.
    "axis-out-of-bounds": "class axis {axis} is out of bounds for {rank} axes",
    # There are no classes.
    "empty-normalization-axis": "class axis {axis} has no classes",
    # A logit is not a number.
    "nan-logit": "the logit of class {class_index} in group {group} is NaN",
    # A logit is +inf.
    "positive-infinity-logit": "the logit of class {class_index} in group {group} is +inf",
    # A logit is -inf.
    "negative-infinity-logit": "the logit of class {class_index} in group {group} is -inf",
    # There are not as many targets as groups.
    "target-count-mismatch": "expected {expected} targets, found {actual}",
    # The mean over no groups does not exist.
    "empty-targets": "there are no targets, so there is no mean loss",
    # A target is not a class.
    "target-out-of-bounds": "target {target} of group {group} is not one of {classes} classes",
    # Rows are gathered from a table of two axes.
    "gather-table-rank": "rows are gathered from a table of 2 axes, found {rank}",
    # There are not as many indices as the index shape holds.
    "gather-index-count-mismatch": "expected {expected} indices, found {actual}",
    # An index is not a row of the table.
    "gather-index-out-of-bounds": "index {index} at position {position} is not one of {rows} rows",
    # Scores need a query and a key axis.
    "causal-softmax-rank": "causal scores need at least 2 axes, found {rank}",
    # A causal mask over all positions needs as many queries as keys.
    "causal-softmax-non-square": "causal scores are square, found {queries} queries and {keys} keys",
    # There are no positions.
    "causal-softmax-empty-tokens": "causal scores over no positions have no rows",
    # ── the tape
    # A leaf was made from a value that is not finite.
    "non-finite-leaf": "{operation}: the value at flat index {index} is {value}",
    # An operation made a value that is not finite.
    "non-finite-forward": "{operation}: the result at flat index {index} is {value}",
    # A sweep was asked for on a value that depends on no parameter.
    "untracked-output": "{operation}: the output depends on no parameter, so it has no gradients",
    # A sweep was asked for on a graph that has been swept.
    "graph-released": "{operation}: the graph was released by an earlier backward pass",
    # An operation was given a value whose graph has been swept.
    "released-operand": "{operation}: operand {operand} belongs to a released graph",
    # The seed of a sweep has another shape than its output.
    "seed-shape-mismatch": "expected a seed of shape {expected}, found {actual}",
    # The seed of a sweep is not finite.
    "non-finite-seed": "the seed at flat index {index} is {value}",
    # A parameter changed between the forward pass and the sweep.
    "stale-operand-value": (
        "{child}: operand {operand} ({parent}) was recorded at revision {recorded_revision}, its value is now at "
        "revision {current_revision}"
    ),
    # A pullback made a contribution that is not finite.
    "non-finite-vjp": "{child}: the contribution to operand {operand} ({parent}) at flat index {index} is {value}",
    # The sum of finite contributions left the range of binary64.
    "non-finite-pass-adjoint": (
        "{node}: adjoint {previous} plus contribution {contribution} at flat index {index} is not finite"
    ),
    # A stored gradient plus the adjoint of this pass left the range of binary64.
    "non-finite-accumulated-gradient": (
        "{node}: stored gradient {stored} plus adjoint {pass_adjoint} at flat index {index} is not finite"
    ),
    # A parameter was to be given a value of another shape.
    "assigned-shape-mismatch": "parameter {name!r} has shape {expected}, the new value {actual}",
    # A gradient was asked of a value that stores none.
    "not-a-parameter": "{operation}: only parameters store gradients",
    # ── names and initial values
    # A parameter needs a name.
    "empty-name": "a parameter name is empty",
    # Two dots meet, or a name starts or ends with one.
    "empty-name-segment": "the parameter name has an empty segment at byte {index}",
    # A name holds something else than a–z, 0–9, underscore and dot.
    "invalid-name-character": "the parameter name has byte 0x{byte:02x} at byte {index}; only [a-z0-9_.] are allowed",
    # A matrix has no inputs.
    "zero-fan-in": "the fan-in must be at least 1",
    # A matrix has no outputs.
    "zero-fan-out": "the fan-out must be at least 1",
    # Two parameters share a name.
    "duplicate-name": "parameter {name!r} stands at positions {first} and {repeated}",
    # ── embedding
    # A table has a vocabulary axis and a width axis.
    "table-rank": "an embedding table has 2 axes, found {rank}",
    # A table has no rows.
    "empty-embedding-vocabulary": "an embedding table needs at least one row",
    # A table has no columns.
    "zero-table-width": "an embedding table needs at least one column",
    # A token shape has a negative length.
    "token-shape": "token shape {shape} has a negative length",
    # There are not as many ids as the token shape holds.
    "token-count-mismatch": "expected {expected} token ids, found {actual}",
    # An id is beyond the table. `position` counts row-major through the token shape.
    "token-id-out-of-bounds": "token id {token_id} at position {position} is not in a vocabulary of {vocabulary_size}",
    # ── linear
    # A weight has an input axis and an output axis.
    "weight-rank": "a linear weight has 2 axes, found {rank}",
    # A weight has no inputs.
    "zero-input-width": "a linear weight needs at least one input",
    # A weight has no outputs.
    "zero-output-width": "a linear weight needs at least one output",
    # A bias has one axis.
    "bias-rank": "a bias has 1 axis, found {rank}",
    # A bias has another width than the output.
    "bias-width-mismatch": "expected a bias of width {expected}, found {actual}",
    # An input needs at least the feature axis and one before it.
    "input-rank": "a linear input has at least 2 axes, found {rank}",
    # An input has another width than the weight takes.
    "input-width-mismatch": "expected an input of width {expected}, found {actual}",
    # ── SwiGLU
    # One of the three linear maps failed; the inner error is the cause.
    "projection-failed": "{projection} projection: {inner}",
    # The `SiLU gate` or the `elementwise gate` failed; the inner error is the cause.
    "gate-failed": "{operation}: {inner}",
    # Gate and up take different inputs.
    "branch-input-width-mismatch": "gate takes {gate} inputs, up takes {up}",
    # Gate and up have different outputs.
    "branch-hidden-width-mismatch": "gate has {gate} outputs, up has {up}",
    # Down does not take what gate and up make.
    "down-input-width-mismatch": "the hidden width is {hidden}, down takes {down} inputs",
    # ── RMSNorm
    # An epsilon is finite and not negative.
    "invalid-norm-epsilon": "the epsilon of a norm must be finite and not negative, found {epsilon}",
    # A gain is a vector as wide as the rows.
    "gain-shape-mismatch": "expected a gain of shape ({width},), found {shape}",
    # Without an epsilon, a row of zeros (or of numbers whose squares vanish) has no direction to keep. `row` counts the
    # rows row-major.
    "zero-energy-row": "row {row} has a mean square of zero, and epsilon is zero",
    # ── attention and recurrence
    # The width cannot be split into heads.
    "heads-do-not-divide": "a width of {width} cannot be split into {heads} heads",
    # Rotary embedding pairs features, so it needs an even number of them.
    "odd-rope-width": "rotary embedding needs an even width, found {width}",
    # A window holds at least the current token; no window at all is None.
    "window-too-small": "a window must hold at least 1 token, found {window}",
    # Query heads cannot be shared out evenly among the heads of keys and values.
    "key-value-heads-do-not-divide": "{heads} query heads cannot share {key_value_heads} heads of keys and values",
    # Rotary frequencies are powers of a positive finite number.
    "invalid-rope-base": "the base of rotary frequencies must be finite and above 0, found {base}",
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
    # A mask names an id beyond the vocabulary. Looked at before the forward pass.
    "masked-token-out-of-bounds": "masked token {token_id} is not in a vocabulary of {vocabulary_size}",
    # A mask leaves nothing to choose from.
    "no-unmasked-token": "every token is masked",
    # A logit is NaN or infinite, masked or not.
    "non-finite-logit": "the logit of token {token_id} is {value}",
    # A decoder has no blocks.
    "empty-decoder": "a decoder needs at least one block",
    # A size is below 1.
    "size-too-small": "{name} must be at least 1, found {size}",
    # A model has any number of layers, also none, but not fewer.
    "negative-layers": "there must be at least 0 layers, found {layers}",
    # A forward pass was asked for over no tokens.
    "empty-sequence": "a sequence needs at least one token",
    # A sequence does not fit into the context.
    "sequence-too-long": "{length} tokens do not fit into a context of {context}",
    # A batch has no real target: every row is padding.
    "no-targets": "the batch has no targets",
}


class CodedError(Exception):
    """An error as data: its kind is the class, its variant the `code`, the offending values are the `fields`.

    `str(error)` is the template of the code, filled from the fields. The templates of a kind stand in the table of the
    room that the kind belongs to. Errors survive pickling, so they can cross a process border.
    """

    templates: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init__(self, code: str, /, **fields: object) -> None:
        super().__init__(code)
        self.code = code
        self.fields: Mapping[str, object] = fields

    def __str__(self) -> str:
        return self.filled(self.templates[self.code])

    def filled(self, template: str) -> str:
        """Return a template with the fields in it, as `shown` cuts them."""
        return template.format(**{name: shown(value) for name, value in self.fields.items()})

    def __reduce__(self) -> tuple[Callable[..., CodedError], tuple[type[CodedError], str], dict[str, object]]:
        # Made without `__init__`, whose arguments differ from kind to kind; what it would set is handed over instead.
        return _bare, (type(self), self.code), vars(self)


def _bare(kind: type[CodedError], code: str) -> CodedError:
    return kind.__new__(kind, code)


class CaiReferenceError(CodedError):
    """Base of the tree: whatever the reference refuses; kinds of this file have its table, others their room's."""

    templates = REFERENCE_TEMPLATES


class ArithmeticFault(CaiReferenceError):
    """Base of this branch: a caller asked the arithmetic for something that it doesn't define."""


Shape = tuple[int, ...]


class AutogradError(CaiReferenceError):
    """An operation, a graph or a gradient is not valid."""


class LayerError(CaiReferenceError):
    """A layer cannot be made or applied."""


class LinearError(LayerError):
    """A linear map cannot be applied."""


class ModelError(CaiReferenceError):
    """A model cannot be made or applied."""
