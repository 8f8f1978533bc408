"""The tokenizer of the CAI NEURAL API, defects included: its vocabulary, its coding, its files and how it is fitted."""

from cai_neural_api.tokenizer.coding import decode, encode, encode_lines
from cai_neural_api.tokenizer.fitting import fit
from cai_neural_api.tokenizer.vocabulary import Row, Rows, Vocabulary, format_rows, parse_rows, usable_rows

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
