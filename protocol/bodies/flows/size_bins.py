"""Bins for counting flow sizes: four to each power of two, the same on all hosts, so that counts add up. Pure.

Bins 0 to 3 hold one size each; from 4 bytes on, each power of two is cut into four equal parts, so that a bin is at most a
quarter as wide as its sizes. All sizes of 64 bits have a bin.
"""

from __future__ import annotations

PARTS_BITS = 2
PARTS = 1 << PARTS_BITS
BINS = PARTS * (64 - PARTS_BITS + 1)
TYPES = 3
"""Flow types 1 (deadline), 2 (known size) and 3 (neither)."""


def bin_of(size_bytes: int) -> int:
    """The bin of a size from 0 to 2**64 - 1."""
    if size_bytes < PARTS:
        return size_bytes
    shift = size_bytes.bit_length() - 1 - PARTS_BITS
    return PARTS * shift + (size_bytes >> shift)


def edge(at: int) -> int:
    """The smallest size in a bin; 2**64 for the bin after the last."""
    octave, part = divmod(at, PARTS)
    return part if octave == 0 else (PARTS + part) << (octave - 1)


EDGES = tuple(edge(at) for at in range(BINS + 1))
"""Bin n holds the sizes from EDGES[n] to below EDGES[n + 1], in bytes."""
