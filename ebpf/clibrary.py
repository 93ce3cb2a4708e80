"""A library in C, compiled and loaded at its first use. An edge: ctypes, the compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ebpf.build import BuildError, shared_library

Function = tuple[str, Any, tuple[Any, ...]]
"""Its name, the type of its result, and those of its arguments."""


class Library:
    """The library that `folder`/NAME.c becomes."""

    def __init__(
        self, name: str, folder: Path, functions: Iterable[Function], check: Callable[[ctypes.CDLL], None] | None = None
    ) -> None:
        """`check`: raises OSError where a library that was loaded can't be used."""
        self.source = folder / f"{name}.c"
        self._functions = tuple(functions)
        self._check = check
        self._loaded: ctypes.CDLL | None = None
        self._missing: str | None = None

    def loaded(self) -> ctypes.CDLL:
        """The library, compiled first if necessary.

        Raises:
            BuildError: the compiler is missing or reports an error.
            OSError: the library cannot be loaded.
        """
        if self._loaded is None:
            self._loaded = self.load(shared_library(self.source.stem, self.source.parent))
        return self._loaded

    def load(self, path: Path) -> ctypes.CDLL:
        """Loads a build of the library. Raises OSError."""
        made = ctypes.CDLL(str(path))
        for name, result, arguments in self._functions:
            function = getattr(made, name)
            function.restype, function.argtypes = result, arguments
        if self._check is not None:
            self._check(made)
        return made

    def why_missing(self) -> str:
        """Why the library cannot be used here; empty if it can. It is tried once."""
        if self._missing is None:
            try:
                self.loaded()
                self._missing = ""
            except (BuildError, OSError) as error:
                self._missing = str(error)
        return self._missing
