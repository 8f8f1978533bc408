"""What can go wrong before a chapter of the course is printed, and what its caches refuse.

::

    InputError
    └── CourseError              a chapter cannot be printed, or a cache of one refuses a call
    CheckpointError
    └── CourseCheckpointError    a checkpoint file of the course is damaged, or cannot be written

Errors of the course's checkpoint, chapter 35. Sizes or counts beyond the file end in `checkpoint-truncated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from cai_conformance.errors import InputError
from cai_reference.checkpoints.errors import CheckpointError


class Refusal(StrEnum):
    """Why a cache of the course refuses a call."""

    TOKENS = "it takes one token a call"
    WIDTH = "it was made for another width"
    HEADS = "it was made for other heads"
    WEIGHTS = "it was made for other weights"
    ROPE = "it was made for another rotary base"
    POSITIONS = "it was made for another number of positions"
    FULL = "it is full"
    EMPTY = "a prompt comes first"
    FILLED = "it holds a prompt already"
    MODEL = "it was made for another model"
    CONFIGURATION = "it was made for another configuration"
    CHANGED = "the weights have changed since"


COURSE_TEMPLATES: Final[Mapping[str, str]] = {
    # The bytes end inside a field.
    "checkpoint-truncated": "the checkpoint ends inside {what}",
    # The first eight bytes are not those of this format.
    "wrong-magic": "a checkpoint starts with LLMCP35 and a NUL, not with the bytes {found}",
    # The version is not 1.
    "unsupported-checkpoint-version": "the checkpoint has version {found}, not 1",
    # The marker reads otherwise, as it does where bytes are swapped.
    "wrong-byte-order": "the byte order marker reads {found}",
    # Header and payload do not fill the file exactly.
    "file-extent": "a header of {header} bytes and a payload of {payload} do not fill a file of {actual}",
    # The file was damaged after it was written.
    "checkpoint-checksum": "the checkpoint says its checksum is {stored}, but it is {actual}",
    # The layout of token ids is not version 1.
    "unsupported-tokenizer-layout": "token ids are laid out in version {found}, not 1",
    # The random generator is not number 1, SplitMix64.
    "unsupported-generator": "the random generator is number {found}, not 1",
    # Tokenizers are literal, 1, or byte pairs, 2.
    "unknown-tokenizer-kind": "the tokenizer is of kind {tag}, neither 1 nor 2",
    # Records have five roles.
    "unknown-role": "a record has role {tag}, which is none of 1 to 5",
    # Records hold bytes, 32-bit integers or doubles.
    "unknown-number-kind": "a record holds numbers of kind {tag}, which is none of 1 to 3",
    # A name is not UTF-8.
    "name-not-utf8": "the bytes of {what} are not UTF-8",
    # A record is not what must stand in its place.
    "record-layout": "record {name!r}: {problem}",
    # There are other numbers of records than tokenizer, model and optimiser need.
    "record-count": "{what}: expected {expected} records, found {actual}",
    # The same content has other bytes when it is written.
    "non-canonical-checkpoint": "the checkpoint is not written as its content is: {problem}",
    # A literal tokenizer has at least one token.
    "no-literal-tokens": "a literal tokenizer needs at least one token",
    # A literal token has no bytes.
    "empty-literal-token": "literal token {token} has no bytes",
    # Two literal tokens have the same bytes.
    "repeated-literal-token": "literal token {token} has the bytes of an earlier one",
    # The format holds one kind of model, and says nothing about what other kinds differ in.
    "not-the-course-decoder": "the checkpoint has no place for a decoder whose {field} is {value}",
    # Tokenizer and model have different numbers of ids.
    "tokenizer-vocabulary": "the tokenizer has {tokenizer} ids, the decoder {decoder}",
    # The optimiser is not that of the selected step.
    "selected-step": "step {selected} is selected, but the optimiser has made {optimizer} steps",
    # There are not as many parameters as the configuration has.
    "parameter-count": "the configuration has {expected} parameters, the checkpoint {actual}",
    # A parameter stands in the place of another one.
    "parameter-name": "parameter {index} is {actual!r}, not {expected!r}",
    # A parameter has another shape than the configuration gives it.
    "parameter-extent": "parameter {name!r} has shape {actual}, not {expected}",
    # A parameter holds an infinity or a NaN.
    "parameter-not-finite": "parameter {name!r}: the value at flat index {index} is {value}",
}


class CourseCheckpointError(CheckpointError):
    """Bytes are no such checkpoint, or a model cannot be put into one."""

    templates = COURSE_TEMPLATES


CHAPTER_TEMPLATES: Final[Mapping[str, str]] = {
    # Nothing is printed of a chapter.
    "unknown-chapter": "there is no chapter {number} here, only {known}",
    # A chapter reads the course's corpus.
    "corpus-needed": (
        "chapter {number} trains on the course's corpus, which is not part of this package; it needs {missing}"
    ),
    # A corpus was given to a chapter that reads none.
    "corpus-not-read": "chapter {number} reads no corpus: {option} changes nothing",
    # A file of bytes would be printed.
    "file-not-text": "chapter {number} is a file of bytes, which are not printed: --output says where they go",
    # A cache of the course refuses a call, and is as it was before.
    "cache-refused": "the cache refuses the call: {refusal}",
}

CHAPTER_HINTS: Final[Mapping[str, str]] = {
    "unknown-chapter": "cai-conform course",
    "corpus-needed": "cai-conform course {number} --corpus tiny-bilingual-corpus.json --splits splits.json",
    "file-not-text": "cai-conform course {number} --output checkpoint.bin",
}
"""The command or step to try next, by code, filled from the fields as the templates are."""


class CourseError(InputError):
    """A chapter cannot be printed, or a cache of one refuses a call."""

    templates = CHAPTER_TEMPLATES
    hints = CHAPTER_HINTS
