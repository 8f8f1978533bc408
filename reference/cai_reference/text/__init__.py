"""Text: corpora and splits, byte-pair merges and ids, windows and mini-batches.

Everything here works on bytes, strings and integers; numbers with a fraction start in the next room.
"""

from cai_reference.text.batches import Batch, EncodedDocument, Epoch, Slot, sequential_plan, shuffled_plan
from cai_reference.text.bpe import Merge, train
from cai_reference.text.checksum import corpus_checksum, fnv1a64
from cai_reference.text.corpus import Corpus, Document, parse_corpus
from cai_reference.text.partition import Manifest, Partition, parse_manifest, partition
from cai_reference.text.tokenizer import BOS, EOS, BpeTokenizer
from cai_reference.text.windows import Window, Windowing

__all__ = [
    "BOS",
    "EOS",
    "Batch",
    "BpeTokenizer",
    "Corpus",
    "Document",
    "EncodedDocument",
    "Epoch",
    "Manifest",
    "Merge",
    "Partition",
    "Slot",
    "Window",
    "Windowing",
    "corpus_checksum",
    "fnv1a64",
    "parse_corpus",
    "parse_manifest",
    "partition",
    "sequential_plan",
    "shuffled_plan",
    "train",
]
