"""Shortest paths in C (controller/priorities/compiled/shortest.c) as a library. An edge: ctypes, the compiler at first use."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ebpf.clibrary import Library

TERMS = 10
STEPS = 8
"""Numbers of steps that are computed together (both as in shortest.c)."""

Floats = NDArray[np.float64]
POINTER, I64 = ctypes.c_void_p, ctypes.c_int64
LIBRARY = Library(
    "shortest", Path(__file__).parent, [("shortest_paths", None, (I64, I64, POINTER, POINTER, POINTER))]
)


class ShortestPaths:
    """The library.

    Raises:
        BuildError: the compiler is missing or reports an error.
        OSError: the library cannot be loaded.
    """

    def __init__(self, path: Path | None = None) -> None:
        """`path`: a build of it, for tests; it is built if need be."""
        self._paths = (LIBRARY.loaded() if path is None else LIBRARY.load(path)).shortest_paths

    def lengths(self, columns: int, source: Floats, target: Floats, first: Floats, steps: int) -> list[Floats]:
        """Lengths of the shortest paths of 1 to `steps` steps (at most `STEPS`) to each state; one step has length `first`.

        Args:
            source, target: by state, the terms of a step's length that depend on the state that it leaves and reaches.
        """
        states = len(first)
        assert source.shape == target.shape == (states, TERMS) and states % columns == 0 and 1 <= steps <= STEPS
        by_term, by_state = np.ascontiguousarray(source.T), np.ascontiguousarray(target)
        reach = np.zeros((states, STEPS))
        reach[:, 0] = first
        self._paths(states // columns, columns, by_term.ctypes.data, by_state.ctypes.data, reach.ctypes.data)
        return [np.ascontiguousarray(reach[:, step]) for step in range(steps)]


def shortest_paths() -> ShortestPaths | None:
    """The library, compiled first if necessary; None where that fails (`LIBRARY.why_missing`)."""
    return None if LIBRARY.why_missing() else ShortestPaths()
