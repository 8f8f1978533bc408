"""The root of every error that the reference raises.

Those of what computes a model stand here, those of the other rooms in a file beside the code that raises them::

    CaiReferenceError
    ├── ArithmeticFault          names, bits, matrix products
    ├── SplitMixError            cai_reference.splitmix
    ├── TextError                cai_reference.text.errors
    │   ├── CorpusError          corpus, manifest, partition
    │   ├── BpeTokenizerError    coding with merges
    │   └── BatchError           epochs and mini-batches
    ├── AutogradError            shapes, probabilities, values
    │   └── SweepError           cai_reference.autograd.backward
    ├── LayerError               initial values, embeddings, norms, mixers
    │   ├── LinearError          cai_reference.layers.projection
    │   └── SwiGluError          cai_reference.layers.swiglu
    ├── ModelError               sizes, ids, sequences
    │   └── NgramError           cai_reference.models.neural_ngram
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
    "unknown-arithmetic": "unknown arithmetic {name!r}; known are {known}",
    "not-hex-bits": "{text!r} is not sixteen hexadecimal digits of a double",
    "matmul-shapes": "cannot multiply shapes {left} and {right}: need [..., n, k] and [..., k, m]",
    # ── tensors and their shapes
    "data-length-mismatch": "the shape holds {expected} elements, the values are {actual}",
    "index-out-of-bounds": "index {index} is out of bounds for axis {axis} of length {dimension}",
    # `axis` counts in the output, which is aligned from the right.
    "incompatible-broadcast": "lengths {left} and {right} cannot be broadcast at output axis {axis}",
    "reduction-axis-out-of-bounds": "axis {axis} is out of bounds for a reduction over {rank} axes",
    "empty-mean-axis": "the mean over axis {axis} has no elements",
    "left-rank-too-small": "the left operand has {rank} axes; a matrix product needs at least 2",
    "right-rank-too-small": "the right operand has {rank} axes; a matrix product needs at least 2",
    "inner-dimension-mismatch": "the inner lengths differ: {left} columns on the left, {right} rows on the right",
    "incompatible-batch": "batch lengths {left} and {right} cannot be broadcast at axis {axis}",
    "axis-out-of-bounds": "class axis {axis} is out of bounds for {rank} axes",
    "empty-normalization-axis": "class axis {axis} has no classes",
    "nan-logit": "the logit of class {class_index} in group {group} is NaN",
    "positive-infinity-logit": "the logit of class {class_index} in group {group} is +inf",
    "negative-infinity-logit": "the logit of class {class_index} in group {group} is -inf",
    "target-count-mismatch": "expected {expected} targets, found {actual}",
    "empty-targets": "there are no targets, so there is no mean loss",
    "target-out-of-bounds": "target {target} of group {group} is not one of {classes} classes",
    "gather-table-rank": "rows are gathered from a table of 2 axes, found {rank}",
    "gather-index-count-mismatch": "expected {expected} indices, found {actual}",
    "gather-index-out-of-bounds": "index {index} at position {position} is not one of {rows} rows",
    "causal-softmax-rank": "causal scores need at least 2 axes, found {rank}",
    "causal-softmax-non-square": "causal scores are square, found {queries} queries and {keys} keys",
    "causal-softmax-empty-tokens": "causal scores over no positions have no rows",
    # ── the tape
    "non-finite-leaf": "{operation}: the value at flat index {index} is {value}",
    "non-finite-forward": "{operation}: the result at flat index {index} is {value}",
    "released-operand": "{operation}: operand {operand} belongs to a released graph",
    "assigned-shape-mismatch": "parameter {name!r} has shape {expected}, the new value {actual}",
    "not-a-parameter": "{operation}: only parameters store gradients",
    # ── names and initial values
    "empty-name": "a parameter name is empty",
    "empty-name-segment": "the parameter name has an empty segment at byte {index}",
    "invalid-name-character": "the parameter name has byte 0x{byte:02x} at byte {index}; only [a-z0-9_.] are allowed",
    "zero-fan-in": "the fan-in must be at least 1",
    "zero-fan-out": "the fan-out must be at least 1",
    "duplicate-name": "parameter {name!r} stands at positions {first} and {repeated}",
    # ── embedding
    "table-rank": "an embedding table has 2 axes, found {rank}",
    "empty-embedding-vocabulary": "an embedding table needs at least one row",
    "zero-table-width": "an embedding table needs at least one column",
    "token-shape": "token shape {shape} has a negative length",
    "token-count-mismatch": "expected {expected} token ids, found {actual}",
    # `position` counts row-major through the token shape.
    "token-id-out-of-bounds": "token id {token_id} at position {position} is not in a vocabulary of {vocabulary_size}",
    # ── RMSNorm
    "invalid-norm-epsilon": "the epsilon of a norm must be finite and not negative, found {epsilon}",
    "gain-shape-mismatch": "expected a gain of shape ({width},), found {shape}",
    # A row of zeros, or of numbers whose squares vanish, has no direction to keep. `row` counts row-major.
    "zero-energy-row": "row {row} has a mean square of zero, and epsilon is zero",
    # ── attention and recurrence
    "heads-do-not-divide": "a width of {width} cannot be split into {heads} heads",
    "odd-rope-width": "rotary embedding needs an even width, found {width}",
    # A window holds at least the current token; no window at all is None.
    "window-too-small": "a window must hold at least 1 token, found {window}",
    "key-value-heads-do-not-divide": "{heads} query heads cannot share {key_value_heads} heads of keys and values",
    "invalid-rope-base": "the base of rotary frequencies must be finite and above 0, found {base}",
    "masked-token-out-of-bounds": "masked token {token_id} is not in a vocabulary of {vocabulary_size}",
    "no-unmasked-token": "every token is masked",
    "non-finite-logit": "the logit of token {token_id} is {value}",
    "empty-decoder": "a decoder needs at least one block",
    "size-too-small": "{name} must be at least 1, found {size}",
    "negative-layers": "there must be at least 0 layers, found {layers}",
    "empty-sequence": "a sequence needs at least one token",
    "sequence-too-long": "{length} tokens do not fit into a context of {context}",
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


class ModelError(CaiReferenceError):
    """A model cannot be made or applied."""
