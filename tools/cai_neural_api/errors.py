"""What can go wrong with nets of the CAI NEURAL API, with what imitates that library, and with what is asked of both.

::

    CaiReferenceError
    ├── NetError                  a net cannot be read, built, run or converted
    │   ├── NetFormatError        a `.nn` file is damaged, or a net cannot be written as one
    │   ├── GraphShapeError       layers do not fit together
    │   └── NetSessionError       a net cannot be streamed
    └── LegacyError               the library would crash, read past an array, or do what nobody meant
        └── LegacyTokenizerError  damaged files, texts and sizes that it cannot take
    InputError
    ├── NetInputError             a net that is asked about, or what it is asked
    ├── ChatInputError            before a text is continued
    ├── BakeOffError              before the bake-off computes anything
    └── InterchangeError
        └── ExchangeError         while nets and weights are read and converted
    ConformanceError
    └── PublishedError            a published figure cannot be counted

Lines and columns of files count from 1; layers, neurons, weights and positions from 0, as a file counts its layers.
What a file says is carried clipped, so that a message stays short whatever stands in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cai_conformance.errors import ConformanceError, InputError
from cai_conformance.fixtures.files import InterchangeError
from cai_reference.errors import CaiReferenceError

NEURAL_API_TEMPLATES: Final[Mapping[str, str]] = {
    # ── lines
    # The file holds no bytes.
    "empty-net-file": "the file is empty; a .nn file has a structure line and a data line",
    # A line holds a carriage return, as line ends of Windows do.
    "windows-line-end": "line {line} holds a carriage return; the lines of a .nn file end with a line feed alone",
    # A byte that is not printable ASCII.
    "unexpected-byte": "line {line}, column {column}: byte {byte} is not printable ASCII",
    # The last line has no line end. `layer` is the last layer of it that begins.
    "cut-off": "line {line} has no line end: the file is cut off in layer {layer} or right behind it",
    # Not two lines.
    "wrong-line-count": "a .nn file has a structure line and a data line, 2 lines; found {found}",
    # The two lines tell of different numbers of layers.
    "layer-count-mismatch": "the structure line has {structure} layers, the data line {data}",
    # ── structure line
    # A layer of the structure line is not of the form `PREVIOUS)CLASS:INTEGERS:LIST:FLOATS`.
    "malformed-layer": "layer {layer} of the structure line is not PREVIOUS)CLASS:INTEGERS:LIST:FLOATS: {text!r}",
    # A number of the structure line is not an integer in its only spelling.
    "not-an-integer": "layer {layer}: {what} {text!r} is not an integer",
    # An integer of the structure line does not fit into 32 bits.
    "integer-out-of-range": "layer {layer}: {what} {text} does not fit into 32 bits",
    # A float of the structure line is not a number that float32 holds. `position` counts from 0.
    "invalid-structure-float": "layer {layer}: float {position} is {text!r}, which is {problem}",
    # A layer asks for something that is not supported; ignoring it would change the result.
    "unsupported-option": "layer {layer} ({kind}): {option} is {value}; supported is {supported}",
    # ── data line
    # A layer has another number of neurons than its class and sizes call for.
    "neuron-count-mismatch": "layer {layer} ({kind}) needs {expected} neurons, found {found}",
    # A neuron is not of the form `BIAS]1;SX;SY;D;w0;w1;…`.
    "malformed-neuron": "layer {layer}, neuron {neuron} is not BIAS]1;SX;SY;D;WEIGHTS: {problem}",
    # A neuron states other sizes than its layer calls for.
    "volume-mismatch": "layer {layer}, neuron {neuron} needs a volume of {expected}, found {found}",
    # A neuron holds another number of weights than its volume.
    "weight-count-mismatch": "layer {layer}, neuron {neuron} needs {expected} weights, found {found}",
    # A bias is not a number that float32 holds.
    "invalid-bias": "layer {layer}, neuron {neuron}: the bias is {text!r}, which is {problem}",
    # A weight is not a number that float32 holds.
    "invalid-weight": "layer {layer}, neuron {neuron}: weight {position} is {text!r}, which is {problem}",
    # A number is not finite in float32, so that no decimal stands for it.
    "number-not-writable": "{value} cannot be written: it is not finite in float32",
    # A net needs an input at least.
    "no-layers": "the net has no layers",
    # A layer is of a class that is not known here.
    "unknown-layer-class": "layer {layer}: the class {kind!r} is not known",
    # A layer states another number of integers or floats than eight.
    "wrong-number-count": "layer {layer} states {found} {what}; each layer states 8",
    # The first layer is not an input without predecessor.
    "first-layer-not-input": (
        "layer 0 must be a TNNetInput with predecessor -1, found {kind} with predecessor {previous}"
    ),
    # A net reads one input.
    "second-input": "layer {layer} is a second TNNetInput; only layer 0 may be an input",
    # A layer reads itself, a later layer, or one that does not exist.
    "source-not-earlier": (
        "layer {layer} ({kind}) names layer {source} as its {role}; it may name layers 0 to {last} only"
    ),
    # A sum, a concatenation or a split lists nothing.
    "list-missing": "layer {layer} ({kind}) lists nothing, but needs a list of {what}",
    # A layer of a class without a list has one.
    "list-unexpected": "layer {layer} ({kind}) takes no list, but has one of {found} numbers",
    # A size that a layer states is impossible.
    "size-out-of-range": "layer {layer} ({kind}): {what} is {value}, but must be {needed}",
    # A layer cannot take the depth of the layer that it reads.
    "depth-does-not-fit": "layer {layer} ({kind}) reads a depth of {depth}, but needs {needed}",
    # Layers that are taken together differ in a size that must agree. `source` is the first that differs.
    "inputs-differ": "layer {layer} ({kind}): layer {source} has {found} {what}, but layer {first} has {expected}",
    # A split names a channel that its predecessor does not have.
    "channel-out-of-range": (
        "layer {layer} picks channel {channel} at place {place} of its list, but reads a depth of {depth}"
    ),
    # An id that the embedding has no row for, or that is no number.
    "net-token-out-of-range": "position {position}: id {token} is not below the {vocabulary} of the embedding",
    # Arrays of other shapes than the structure of a layer calls for: of its weights, then of its biases.
    "learned-does-not-fit": "layer {layer} ({kind}) learns arrays of shapes {expected}, and was given {given}",
    # Ids or values of another shape than the net can read.
    "wrong-input": "the net reads [examples, 1 to {context} tokens, {depth}], and was given {shape}",
    # A net in which tokens become channels, given fewer of them than its sizes speak of.
    "fixed-length": "the net reads {context} tokens and no fewer, since they become channels; it was given {tokens}",
    # A gradient that does not have the shape of the output.
    "wrong-gradient": "a gradient of shape {given} is not one of an output of shape {expected}",
    # A layer's output left the range of binary64.
    "non-finite-output": "layer {layer} ({kind}) gives numbers that are not finite",
    # A layer looks at the whole sequence at once.
    "not-streamable": "layer {layer} ({kind}) needs the whole sequence, so the net cannot be streamed",
    # A session that could hold nothing. The library prints a line and streams without caches.
    "no-capacity": "a session needs room for a token at least, not {capacity}",
    # A step without tokens, or a question about the newest step before there was any.
    "nothing-fed": "no token was fed",
    # The caches are full. The library prints a line, and the stale output of the step before flows on.
    "cache-overflow": "the caches hold {length} of {capacity} tokens, {tokens} more do not fit",
    # Caches cannot be cut to a length that they do not have.
    "cut-out-of-range": "caches of {length} tokens cannot be cut to {wanted}",
    # A layer that keeps one state cannot be cut back. The library cuts the caches alone.
    "recurrence-stays": (
        "layer {layer} ({kind}) keeps one state, which cannot be cut back to {wanted} tokens; restore a snapshot"
    ),
    # Caches cannot keep so many sinks and recent tokens.
    "eviction-refused": "{sinks} sinks and {recent} recent tokens: {reason}",
    # Caches change their format only while they are empty, and 8-bit caches are not copied.
    "quantisation-refused": "{reason}",
    # A snapshot of a session of another kind.
    "foreign-snapshot": "the snapshot holds {what} of widths {given}, the session of widths {expected}",
    # A snapshot that the caches have no room for.
    "snapshot-too-long": "the snapshot needs room for {needed} tokens, the caches have room for {capacity}",
    # The net lacks a layer that every decoder of the family has.
    "not-a-decoder": "the net has no {missing}, so it is no decoder or draft of the known family",
    # The first layer that is not the one that a decoder of the net's sizes has at this place; `aspect` says how.
    "layer-differs": "layer {layer}: the {aspect} is {found}, but a decoder of these sizes has {expected} there",
    # A layer has another number of neurons, or a neuron of another size.
    "neurons-differ": "layer {layer} ({kind}): expected {expected}, found {found}",
    # A neuron of a layer that has no biases carries one, which the decoder could not keep.
    "unused-bias": "layer {layer} ({kind}): neuron {neuron} has the bias {bias}, but this class has none",
    # A weight would become infinite in single precision.
    "weight-beyond-single": "{parameter}: {value} is too large for single precision",
    # ── lines of vocabularies and rows
    # The file is binary, or of another encoding.
    "nul-byte": "line {line} holds a NUL byte, so this is no plain text",
    # The line ends were translated on the way.
    "carriage-return": "line {line} holds a carriage return; lines end in LF alone, not in CR LF",
    # An editor put a byte order mark before the first line.
    "byte-order-mark": "line {line} opens with a byte order mark, which would become part of its first token",
    # The last line has no line end: the file was cut off.
    "unfinished-line": "line {line} has no line end, so the file is cut off",
    # ── vocabularies
    # A vocabulary has an empty line.
    "empty-entry": "line {line} is empty; a vocabulary has one token a line",
    # Two entries are equal to the library, which ignores letter case; which one it finds depends on chance.
    "repeated-entry": "line {line} repeats line {first}; letter case makes no difference",
    # A vocabulary has more ids than the model that it is for.
    "too-many-entries": "line {line} would get id {token_id}, but the vocabulary holds {size} ids",
    # ── rows of ids
    # A field is empty, or not a decimal number without a sign and leading zeros.
    "not-an-id": "line {line}, field {field}: {text!r} is not a token id",
    # An id is below zero.
    "negative-id": "line {line}, field {field}: token id {token_id} is negative",
    # An id does not fit into the library's 32-bit integers with a sign, or not into the vocabulary.
    "id-too-large": "line {line}, field {field}: token id {text} is too large; the largest is {largest}",
    # An id below zero stands for nothing.
    "undecodable-id": "token id {token_id} at position {position} is negative",
    # A filter of rows would keep none, whatever they are.
    "invalid-row-filter": "no row passes a filter of {limit} rows with ids up to {largest}",
    # ── texts and sizes
    # A text holds a byte that the library uses as a mark of its own; what it would do then was not measured.
    "reserved-byte": "line {line} holds byte {byte}, which the library keeps for itself",
    # No room is left beside the ids of single bytes.
    "vocabulary-size-too-small": (
        "a vocabulary of {size} ids cannot be fitted: the first {single} are those of single bytes"
    ),
    # What was given is not one row.
    "sampling-row-shape": "probabilities of shape {shape} are not one row",
    # A row holds no token.
    "empty-sampling-row": "a row without tokens leaves nothing to choose",
    # A value is negative, above 1 or not a number.
    "not-a-probability": "token {token_id} has probability {value}, which is none",
    # Every probability is zero, for the library as float32.
    "nothing-probable": "all {size} probabilities are zero",
    # Fewer than one token would be left.
    "top-k-too-small": "top-k with k = {k} keeps no token; k must be at least 1",
    # The library would choose from memory behind the row.
    "top-k-beyond-row": "top-k with k = {k} reads past a row of {size} tokens",
    # A bound on a sum of probabilities lies in (0, 1].
    "top-p-out-of-range": "top-p with p = {p} does not exist; p must be above 0 and at most 1",
    # A share of the largest probability lies in (0, 1].
    "min-p-out-of-range": "min-p with q = {q} does not exist; q must be above 0 and at most 1",
    # Probabilities cannot be raised to the power of one by this.
    "temperature-out-of-range": "temperature {temperature} does not exist; it must be finite and above 0",
    # There is nothing to draw a batch from, or nothing in it.
    "no-stories": "there is no story to train on",
    # A story without ids, which the library's row filter would have left out.
    "empty-story": "story {story} has no ids",
    # An id for which the net has no output.
    "story-token-out-of-range": "story {story}, position {position}: id {token} is not among the net's {vocabulary}",
    # A number of a schedule, or of threads, with which nothing would be learned or validated.
    "schedule-too-small": "{name} is {value}; it must be at least {least}",
    # A net that does not look ids up.
    "no-embedding": "no layer of the net embeds its input",
    # An embedding of something that an earlier layer computed.
    "embedding-elsewhere": "layer {layer} embeds the output of layer {source}, not the net's input",
    # An output that cannot be rows of one score an id.
    "output-depth": "the net's output is {depth} deep, which is no multiple of the {vocabulary} ids of its embedding",
    # A net to train with another end than a softmax or several side by side.
    "no-probabilities": (
        "the net ends in layer {layer}, a {kind}: neither one softmax nor a concatenation of softmaxes alone"
    ),
    # An embedding and a softmax, or two of a kind, over different vocabularies.
    "vocabulary-mismatch": "layer {layer} knows {found} ids, but layer {other} knows {expected}",
    # There is no row behind the last token of an empty prompt.
    "no-prompt-tokens": "a prompt without tokens cannot be continued",
    # A prompt holds an id for which the net has no row.
    "prompt-token-unknown": "position {position} of the prompt: id {token} is not among the {vocabulary} of the net",
    # The library would write behind the end of its input.
    "prompt-overruns-context": "a prompt of {tokens} tokens overruns the context of {context}",
    # What the net read last does not fill its context.
    "last-input-length": "the last input of the net has {tokens} tokens; its context has {context}",
    # The library would choose over the rows of all heads at once, so that most ids would be none.
    "several-future-tokens": (
        "the net predicts {heads} future tokens side by side; only nets that predict one are continued this way"
    ),
    # A stop sequence without ids would end every generation.
    "empty-stop-sequence": "stop sequence {index} is empty",
}

PROGRAM_TEMPLATES: Final[Mapping[str, str]] = {
    # A file of measurements is no JSON, of no known layout, or holds what a measurement cannot be.
    "sample-damaged": "{path}: {problem}",
    # Gradients alone do not say what they are gradients of.
    "stories-missing": "{path} holds gradients, but not the stories that they are of; {wanted} is not beside it",
    # A sample that states nothing has not been verified.
    "nothing-to-verify": "{path} states nothing that could be verified",
    # A prompt without tokens. `number` counts from 1.
    "empty-net-prompt": "prompt {number} has no tokens",
    # A prompt that fills the context leaves nothing to generate. `number` counts from 1.
    "net-prompt-too-long": "prompt {number} has {tokens} tokens, which leaves none of the context of {context}",
    # A prompt holds an id that the net does not know. `number` counts from 1, positions from 0.
    "prompt-id-too-large": "prompt {number}, position {position}: id {token} is not among the {vocabulary} of the net",
    # The net was trained with another vocabulary: it has no rows for some of the ids.
    "vocabulary-too-large": "the vocabulary has {given} ids, the net knows {known}: it belongs to another net",
    # A net with such a context would take more memory than anybody wants to spend on it, both in GiB.
    "net-too-large": "running a net with a context of {context:,} takes {needed:,} GiB, more than {most}",
    # A draft must know exactly the ids of its target, and as long a context where it reads all of it.
    "draft-differs": "the draft has {draft} {what}, the net {target}: they cannot work together",
    # A number of tokens that makes no sense.
    "invalid-decode-setting": "{name} must be 1 or more, not {value}",
    # The net is no language model for this, whatever the prompt.
    "unsuitable-net": "{path!r} cannot continue a text: {problem}",
    # The tokenizer or the net cannot take the prompt.
    "unusable-prompt": "the prompt cannot be continued: {problem}",
    # There is no room for a token behind the prompt.
    "prompt-fills-context": (
        "the prompt is too long: it has {tokens} tokens, and the net has room for {most} and one to come"
    ),
    # An empty text stands before every other one.
    "empty-stop-text": "a text to stop at cannot be empty",
    # An option without an effect is a misunderstanding.
    "setting-unused": "{option} has no effect on {chosen}",
    # The library takes the low 32 bits of a seed.
    "seed-beyond-generator": "seed {seed} is too large for the library's generator; the largest is {largest}",
    # There are nine phases.
    "unknown-bake-phase": "phase {text!r} is unknown; a phase is a number from 1 to 9, or all",
    # Rows mean nothing without the vocabulary that they were made with.
    "data-incomplete": "{given} needs {missing} beside it",
    # A vocabulary or a file of rows cannot be read; the problem names its line.
    "data-damaged": "{path!r}: {problem}",
    # Every row is empty or has an id that the nets do not know.
    "no-usable-row": "{path!r} has no row to train on: {rows} rows, of which none has ids, all of them up to {largest}",
    # Training ends after a time or after a number of steps, not after both.
    "limits-conflict": "--budget and --steps exclude each other: a run is boxed in time, or replayable",
    # A time box must be a finite number of seconds.
    "invalid-budget": "a training time of {seconds} s is none",
    # A number below 1 of something that is counted.
    "invalid-bake-setting": "{name} must be 1 or more, not {value}",
    # Phase 5 decodes the net that phase 1 trained.
    "checkpoint-missing": "phase 5 needs the net of phase 1, but {path!r} does not exist",
    # A net of other layers cannot stand for that of phase 1.
    "checkpoint-differs": "{path!r} is not the net of phase 1: layer {layer} differs",
    # A weights file is no safetensors file.
    "damaged-weights": "{path!r} is not a safetensors file: {problem}",
    # A safetensors file was not written as a model's weights, so that its configuration is unknown.
    "foreign-weights": "{path!r} has no metadata key {key!r}, so nothing says which model its tensors are",
    # A weights file is of a version that this program does not read.
    "unknown-weights-version": "{path!r} is of version {version!r} of the weights format; only {known!r} can be read",
    # The configuration in a weights file is not one, or no model can have it.
    "bad-configuration": "the configuration in {path!r} cannot be used: {problem}",
    # A parameter of the model is not in the file.
    "missing-tensor": "{path!r} lacks the tensor {name!r}",
    # A tensor is no parameter of the model.
    "unexpected-tensor": "{path!r} has the tensor {name!r}, which the model has not",
    # A tensor has another shape or number format than the parameter of its name.
    "tensor-differs": "{path!r}: tensor {name!r} is {found}, expected {expected}",
    # A tensor holds a number that no weight can be.
    "tensor-not-finite": "{path!r}: tensor {name!r} holds {value} at flat index {index}",
    # A `.nn` file is damaged, or holds what is not supported.
    "unreadable-net": "{path!r} cannot be read as a net: {problem}",
    # A model does not fit into a net, or a net is no model of the family; the inner error is the cause.
    "unfit-source": "{source} cannot be converted: {problem}",
    # A text names nothing that a net could be made of.
    "unknown-source": "{text!r} is neither a file, nor phase1 to phase9 or draft, nor a suite ({problem})",
    # The suite has no decoder, so there is no net of it.
    "not-a-decode-suite": "suite {suite} has no decoder, so no net can be made of it",
    # A cache's own account is not what its arrays hold, so neither can be compared with a published figure.
    "cache-miscounted": (
        "the cache of layer {layer} accounts for {accounted} floats after {tokens} tokens, but holds {held}"
    ),
}
"""Of what the programs of this package refuse; the table above is of the library itself."""

PROGRAM_HINTS: Final[Mapping[str, str]] = {
    "unknown-source": "cai-conform list",
    "not-a-decode-suite": "cai-conform list",
    "stories-missing": "put {wanted} beside it",
    "data-incomplete": "cai-conform bakeoff --phase all --vocabulary VOCABULARY --rows ROWS.csv",
    "limits-conflict": "leave one of them out",
    "checkpoint-missing": "cai-conform bakeoff --phase 1 --output {folder}",
    "checkpoint-differs": "cai-conform bakeoff --phase 1 --output {folder}",
}
"""The command or step to try next, by code, filled from the fields as the templates are."""


class NetError(CaiReferenceError):
    """A net cannot be read, built, run or converted."""

    templates = NEURAL_API_TEMPLATES


class LegacyError(CaiReferenceError):
    """What the library would do cannot be done, or would crash there."""

    templates = NEURAL_API_TEMPLATES


SHOWN: Final = 40
"""How many characters of a file an error repeats."""


def clipped(text: str | bytes) -> str:
    """Return the start of a piece of a file, for an error."""
    start = text[: SHOWN + 1]
    shown = start.decode("ascii", "backslashreplace") if isinstance(start, bytes) else start
    return shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"


class NetFormatError(NetError):
    """A `.nn` file is damaged, or a net cannot be written as one."""


class GraphShapeError(NetError):
    """The layers of a net do not fit together."""


class NetSessionError(NetError):
    """A streaming session on a net was asked for what it cannot do."""


class LegacyTokenizerError(LegacyError):
    """A vocabulary, a file of rows or a text cannot be used."""


class NetInputError(InputError):
    """A net, or what it is asked, cannot be used."""

    templates = PROGRAM_TEMPLATES
    hints = PROGRAM_HINTS


class ChatInputError(InputError):
    """A text cannot be continued."""

    templates = PROGRAM_TEMPLATES
    hints = PROGRAM_HINTS


class BakeOffError(InputError):
    """The bake-off cannot be run as it was asked for."""

    templates = PROGRAM_TEMPLATES
    hints = PROGRAM_HINTS


class ExchangeError(InterchangeError):
    """A net or a file of weights cannot be read or converted."""

    templates = PROGRAM_TEMPLATES
    hints = PROGRAM_HINTS


class PublishedError(ConformanceError):
    """A published figure cannot be counted: the exit code is that of a wrong value."""

    templates = PROGRAM_TEMPLATES
    exit_codes = MappingProxyType({"cache-miscounted": 1})
