"""Flow sizes counted in bins that grow with the size: four to an octave, the same everywhere, so that counts add up. Pure.

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
    """The least size in a bin; of the one after the last, 2**64."""
    octave, part = divmod(at, PARTS)
    return part if octave == 0 else (PARTS + part) << (octave - 1)


EDGES = tuple(edge(at) for at in range(BINS + 1))
"""Bin n has the sizes from EDGES[n] to below EDGES[n + 1], bytes."""
