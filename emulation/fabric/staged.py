"""What is begun in steps, each of which is undone at the end, or at once if a later one fails. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class Staged(ABC):
    """A context manager whose `_start` pushes what undoes each of its steps."""

    _stack: ExitStack

    @abstractmethod
    def _start(self, stack: ExitStack) -> None:
        """Begins; what was pushed is undone if this fails."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
