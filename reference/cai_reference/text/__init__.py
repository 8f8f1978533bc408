"""Text: corpora and splits, byte-pair merges and ids, windows and mini-batches; bytes, strings and integers only."""
