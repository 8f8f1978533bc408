"""The Mersenne Twister as the Pascal run-time library seeds and reads it.

MT19937 (Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform pseudorandom number
generator", 1998) with the classic seeding by one 32-bit number. All randomness of the CAI NEURAL API comes from one
such generator for the whole process; only what imitates that library draws from it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint32]
Places: TypeAlias = NDArray[np.intp]

WORDS: Final = 624
MIDDLE: Final = 397
MASK_32: Final = 0xFFFFFFFF
MASK_63: Final = 0x7FFFFFFFFFFFFFFF


class MersenneTwister:
    """The generator, 624 words at a time.

    `seed` is taken modulo 2^32, as the library's global variable is.
    """

    def __init__(self, seed: int) -> None:
        state = np.empty(WORDS, np.uint32)
        word = seed & MASK_32
        for index in range(WORDS):
            state[index] = word
            word = (1812433253 * (word ^ (word >> 30)) + index + 1) & MASK_32
        self._state = state
        self._ready: list[int] = []

    def next_u32(self) -> int:
        """Return the next 32 bits."""
        if not self._ready:
            self._ready = self._twist()[::-1].tolist()
        return self._ready.pop()

    def below(self, bound: int) -> int:
        """Return `(u32 · bound) >> 32`, in one draw; the bound has 32 bits."""
        return (self.next_u32() * bound) >> 32

    def below_many(self, bound: int, count: int) -> Integers:
        """Return what `count` calls of `below` would, as an array; the generator moves on as far."""
        kept = len(self._ready) - min(count, len(self._ready))
        pieces = [np.array(self._ready[kept:][::-1], np.uint32)]
        del self._ready[kept:]
        missing = count - len(pieces[0])
        while missing > 0:
            words = self._twist()
            pieces.append(words[:missing])
            self._ready = words[missing:][::-1].tolist()
            missing -= len(pieces[-1])
        drawn = np.concatenate(pieces).astype(np.uint64)
        return ((drawn * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)

    def below_64(self, bound: int) -> int:
        """Return what a bound of 64 bits gives: two draws, low word first, without a sign, modulo the bound."""
        low = self.next_u32()
        high = self.next_u32()
        return (low | ((high << 32) & MASK_63)) % bound

    def unit(self) -> float:
        """Return `u32 / 2^32`, in [0, 1)."""
        return self.next_u32() * 2.0**-32

    def _twist(self) -> Words:
        """Return the next 624 words. The recurrence reaches back 227 words, so it runs in slices of that length."""
        state = self._state
        lag = WORDS - MIDDLE
        for first, last in ((0, lag), (lag, 2 * lag), (2 * lag, WORDS - 1)):
            self._renew(slice(first, last), state[first + 1 : last + 1], np.arange(first, last))
        self._renew(slice(WORDS - 1, WORDS), state[:1], np.arange(WORDS - 1, WORDS))
        y = state.copy()
        y ^= y >> np.uint32(11)
        y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
        y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
        y ^= y >> np.uint32(18)
        return y

    def _renew(self, part: slice, following: Words, places: Places) -> None:
        state = self._state
        y = (state[part] & np.uint32(0x80000000)) | (following & np.uint32(0x7FFFFFFF))
        mixed = (y >> np.uint32(1)) ^ np.where(y & np.uint32(1), np.uint32(0x9908B0DF), np.uint32(0))
        state[part] = state[(places + MIDDLE) % WORDS] ^ mixed
