"""Decoding: sessions that remember, generation, speculation, and from logits to tokens."""
