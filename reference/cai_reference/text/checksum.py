"""FNV-1a, 64 bits: the checksum that ties a split manifest to the exact bytes of its corpus.

It guards against accidents, not against attackers (Fowler, Noll and Vo; draft-eastlake-fnv).

    fnv1a64(b"hello")  →  0xa430d84680aabd0b
"""

from __future__ import annotations

from typing import Final

OFFSET_BASIS: Final = 0xCBF29CE484222325
PRIME: Final = 0x100000001B3
MASK: Final = (1 << 64) - 1


def fnv1a64(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash of `data`."""
    value = OFFSET_BASIS
    for byte in data:
        value = ((value ^ byte) * PRIME) & MASK
    return value


def corpus_checksum(data: bytes) -> str:
    """Return the checksum of a corpus file as manifests spell it: `fnv1a64:` and sixteen lower-case hex digits."""
    return f"fnv1a64:{fnv1a64(data):016x}"
