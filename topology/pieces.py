"""Long work a piece at a time: generators that yield where their caller may do other work, and return what they made. Pure.

A fabric of thousands of hosts takes a tenth of a second to be read. Whoever has nothing else to do has it `finished`; the
coordinator's loop makes a piece now and then (controller/scheduling/policy_control.py), as an agent's does of a look at its
queues (agents/queues/queues.py).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

PIECE = 32
"""So many nodes or links are a piece, of 100 to 300 us."""
T = TypeVar("T")
Pieces = Generator[None, None, T]


def finished(work: Pieces[T]) -> T:
    """Does all of some work, and returns what it made."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            made: T = end.value
            return made

