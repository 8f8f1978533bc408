"""Errors of the course's checkpoint, chapter 35. Sizes or counts beyond the file end in `CheckpointTruncated`."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.checkpoints.errors import CheckpointError
from cai_reference.training.errors import Shape


class CourseCheckpointError(CheckpointError):
    """Bytes are no such checkpoint, or a model cannot be put into one."""


@dataclass(eq=False)
class CheckpointTruncated(CourseCheckpointError):
    """The bytes end inside a field."""

    template = "the checkpoint ends inside {what}"
    what: str


@dataclass(eq=False)
class WrongMagic(CourseCheckpointError):
    """The first eight bytes are not those of this format."""

    template = "a checkpoint starts with LLMCP35 and a NUL, not with the bytes {found}"
    found: str


@dataclass(eq=False)
class UnsupportedCheckpointVersion(CourseCheckpointError):
    """The version is not 1."""

    template = "the checkpoint has version {found}, not 1"
    found: int


@dataclass(eq=False)
class WrongByteOrder(CourseCheckpointError):
    """The marker reads otherwise, as it does where bytes are swapped."""

    template = "the byte order marker reads {found}"
    found: str


@dataclass(eq=False)
class FileExtent(CourseCheckpointError):
    """Header and payload do not fill the file exactly."""

    template = "a header of {header} bytes and a payload of {payload} do not fill a file of {actual}"
    header: int
    payload: int
    actual: int


@dataclass(eq=False)
class CheckpointChecksum(CourseCheckpointError):
    """The file was damaged after it was written."""

    template = "the checkpoint says its checksum is {stored}, but it is {actual}"
    stored: str
    actual: str


@dataclass(eq=False)
class UnsupportedTokenizerLayout(CourseCheckpointError):
    """The layout of token ids is not version 1."""

    template = "token ids are laid out in version {found}, not 1"
    found: int


@dataclass(eq=False)
class UnsupportedGenerator(CourseCheckpointError):
    """The random generator is not number 1, SplitMix64."""

    template = "the random generator is number {found}, not 1"
    found: int


@dataclass(eq=False)
class UnknownTokenizerKind(CourseCheckpointError):
    """Tokenizers are literal, 1, or byte pairs, 2."""

    template = "the tokenizer is of kind {tag}, neither 1 nor 2"
    tag: int


@dataclass(eq=False)
class UnknownRole(CourseCheckpointError):
    """Records have five roles."""

    template = "a record has role {tag}, which is none of 1 to 5"
    tag: int


@dataclass(eq=False)
class UnknownNumberKind(CourseCheckpointError):
    """Records hold bytes, 32-bit integers or doubles."""

    template = "a record holds numbers of kind {tag}, which is none of 1 to 3"
    tag: int


@dataclass(eq=False)
class NameNotUtf8(CourseCheckpointError):
    """A name is not UTF-8."""

    template = "the bytes of {what} are not UTF-8"
    what: str


@dataclass(eq=False)
class RecordLayout(CourseCheckpointError):
    """A record is not what must stand in its place."""

    template = "record {name!r}: {problem}"
    name: str
    problem: str


@dataclass(eq=False)
class RecordCount(CourseCheckpointError):
    """There are other numbers of records than tokenizer, model and optimiser need."""

    template = "{what}: expected {expected} records, found {actual}"
    what: str
    expected: int
    actual: int


@dataclass(eq=False)
class NonCanonicalCheckpoint(CourseCheckpointError):
    """The same content has other bytes when it is written."""

    template = "the checkpoint is not written as its content is: {problem}"
    problem: str


@dataclass(eq=False)
class NoLiteralTokens(CourseCheckpointError):
    """A literal tokenizer has at least one token."""

    template = "a literal tokenizer needs at least one token"


@dataclass(eq=False)
class EmptyLiteralToken(CourseCheckpointError):
    """A literal token has no bytes."""

    template = "literal token {token} has no bytes"
    token: int


@dataclass(eq=False)
class RepeatedLiteralToken(CourseCheckpointError):
    """Two literal tokens have the same bytes."""

    template = "literal token {token} has the bytes of an earlier one"
    token: int


@dataclass(eq=False)
class NotTheCourseDecoder(CourseCheckpointError):
    """The format holds one kind of model, and says nothing about what other kinds differ in."""

    template = "the checkpoint has no place for a decoder whose {field} is {value}"
    field: str
    value: str


@dataclass(eq=False)
class TokenizerVocabulary(CourseCheckpointError):
    """Tokenizer and model have different numbers of ids."""

    template = "the tokenizer has {tokenizer} ids, the decoder {decoder}"
    tokenizer: int
    decoder: int


@dataclass(eq=False)
class SelectedStep(CourseCheckpointError):
    """The optimiser is not that of the selected step."""

    template = "step {selected} is selected, but the optimiser has made {optimizer} steps"
    selected: int
    optimizer: int


@dataclass(eq=False)
class ParameterCount(CourseCheckpointError):
    """There are not as many parameters as the configuration has."""

    template = "the configuration has {expected} parameters, the checkpoint {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class ParameterName(CourseCheckpointError):
    """A parameter stands in the place of another one."""

    template = "parameter {index} is {actual!r}, not {expected!r}"
    index: int
    expected: str
    actual: str


@dataclass(eq=False)
class ParameterExtent(CourseCheckpointError):
    """A parameter has another shape than the configuration gives it."""

    template = "parameter {name!r} has shape {actual}, not {expected}"
    name: str
    expected: Shape
    actual: Shape


@dataclass(eq=False)
class ParameterNotFinite(CourseCheckpointError):
    """A parameter holds an infinity or a NaN."""

    template = "parameter {name!r}: the value at flat index {index} is {value}"
    name: str
    index: int
    value: float
