"""Sets and masks as bits in words of 64, which kernels read."""

from __future__ import annotations

import numpy as np

from framework.arrays import Array, WordArray
from framework.jit import njit


def words_for(n: int) -> int:
    """Return how many 64-bit words hold ``n`` bits."""
    return (n + 63) // 64


def pack(bits: Array) -> WordArray:
    """Pack bits (..., n) into words, bit ``i % 64`` of word ``i // 64`` for entry ``i``."""
    octets = np.packbits(bits, axis=-1, bitorder="little")
    padded = np.zeros((*octets.shape[:-1], 8 * words_for(bits.shape[-1])), dtype=np.uint8)
    padded[..., : octets.shape[-1]] = octets
    return padded.view("<u8").astype(np.uint64)


def unpack(bits: WordArray, n: int) -> Array:
    """Return the first ``n`` bits of words (..., words) as 0 and 1, shape (..., n)."""
    plain = np.ascontiguousarray(bits).astype("<u8").view(np.uint8)
    return np.unpackbits(plain, axis=-1, bitorder="little")[..., :n]


@njit
def popcount(v: np.uint64) -> int:
    """Count the bits of a word; the compiler turns this idiom into the machine's instruction."""
    v = v - ((v >> np.uint64(1)) & np.uint64(0x5555555555555555))
    v = (v & np.uint64(0x3333333333333333)) + ((v >> np.uint64(2)) & np.uint64(0x3333333333333333))
    v = (v + (v >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((v * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[return-value]
