"""A context manager that starts in steps: each step is undone at the end, or at once if a later step fails. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class Resource(ABC):
    """Something that runs inside a `with` block. `_start` makes it, and pushes onto the stack what undoes each step."""

    _stack: ExitStack

    @abstractmethod
    def _start(self, stack: ExitStack) -> None:
        """Starts the resource. If it raises, everything pushed so far is undone."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
