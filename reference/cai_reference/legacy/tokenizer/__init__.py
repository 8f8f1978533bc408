"""The tokenizer of the CAI NEURAL API, defects included: its vocabulary, its coding, its files and how it is fitted."""

from cai_reference.legacy.tokenizer.coding import decode, encode, encode_lines
from cai_reference.legacy.tokenizer.fitting import fit
from cai_reference.legacy.tokenizer.rows import Row, Rows, format_rows, parse_rows, usable_rows
from cai_reference.legacy.tokenizer.vocabulary import Vocabulary

__all__ = [
    "Row",
    "Rows",
    "Vocabulary",
    "decode",
    "encode",
    "encode_lines",
    "fit",
    "format_rows",
    "parse_rows",
    "usable_rows",
]
