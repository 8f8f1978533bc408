"""The root of every error that the reference raises.

Each room keeps its own branch beside the code that raises it::

    CaiReferenceError
    ├── ArithmeticFault          cai_reference.arithmetic.errors
    ├── SplitMixError            cai_reference.splitmix
    ├── TextError                cai_reference.text.errors
    │   ├── CorpusError          corpus, manifest, partition
    │   ├── BpeTrainingError     learning merges
    │   ├── BpeTokenizerError    coding with merges
    │   ├── WindowError          training examples
    │   └── BatchError           epochs and mini-batches
    ├── AutogradError            cai_reference.autograd.errors
    ├── LayerError               cai_reference.layers.errors
    ├── ModelError               cai_reference.models.errors
    │   ├── NeuralNgramError     the neural n-gram
    │   └── DecoderError         decoders and drafts
    ├── TrainingError            cai_reference.training.errors
    ├── DecodingError            cai_reference.decoding.errors
    │   ├── SessionError         streaming sessions
    │   ├── ArmError             generation
    │   └── SamplingError        cai_reference.decoding.sampling.errors
    ├── CheckpointError          cai_reference.checkpoints.errors
    ├── NetError                 cai_reference.nets.errors
    │   ├── NetFormatError       files
    │   ├── GraphShapeError      widths of layers
    │   ├── GraphError           running a net
    │   ├── NetSessionError      streaming a net
    │   └── ConversionError      to decoders and back
    └── LegacyError              cai_reference.legacy.errors
        ├── LegacyTokenizerError vocabularies, rows, coding
        ├── LegacySamplingError  samplers
        ├── LegacyTrainingError  fitting
        └── LegacyGenerationError generation

An error carries the offending values as fields and a message made from them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Final

LONGEST_SHOWN: Final = 4000
"""So many characters of a text are shown in a message: a field may hold what stood in a file, whatever its length."""


def shown(value: object) -> object:
    """Return a field as messages show it: a long text is cut, everything else is left as it is."""
    if isinstance(value, str) and len(value) > LONGEST_SHOWN:
        return f"{value[: LONGEST_SHOWN - 1]}…"
    return value


@dataclass(eq=False)
class CaiReferenceError(Exception):
    """Base of the tree: a message template filled from the dataclass fields of the subclass.

    A leaf class states its fields and a `template`; `str(error)` is the filled template. Errors survive pickling, so
    they can cross a process border.
    """

    template: ClassVar[str] = ""

    def __str__(self) -> str:
        return self.template.format(**{field.name: shown(getattr(self, field.name)) for field in fields(self)})

    def __reduce__(self) -> tuple[type[CaiReferenceError], tuple[object, ...]]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))
