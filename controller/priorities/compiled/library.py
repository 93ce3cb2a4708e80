"""Shortest paths in C (controller/priorities/compiled/shortest.c) as a library. An edge: ctypes, the compiler at first use."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ebpf.build import BuildError, shared_library

TERMS = 10
STEPS = 8
"""Numbers of steps that are computed together (both as in shortest.c)."""

Floats = NDArray[np.float64]


class ShortestPaths:
    """The library.

    Raises:
        BuildError: the compiler is missing or reports an error.
        OSError: the library cannot be loaded.
    """

    def __init__(self, path: Path | None = None) -> None:
        """`path`: a build of it, for tests; it is built if need be."""
        self._paths = ctypes.CDLL(str(path or shared_library("shortest", Path(__file__).parent))).shortest_paths
        self._paths.restype = None
        self._paths.argtypes = (ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

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


@cache
def library() -> ShortestPaths | None:
    """The library, compiled first if necessary; None where that fails (`why_missing`)."""
    return None if why_missing() else ShortestPaths()


@cache
def why_missing() -> str:
    """Why the library cannot be used here; empty if it can."""
    try:
        ShortestPaths()
    except (BuildError, OSError) as error:
        return str(error)
    return ""
