"""The 32-bit flow mark, by which an application announces a flow's size and deadline in its socket's mark (Karuna, SIGCOMM
2016, section 4). Pure.

    bit 31          20 19                    0
        | deadline, ms | flow size, KB        |
        |   12 bits    |   20 bits            |

A KB is 1024 bytes, because the kernel's end shifts (`size = (mark & 0xfffff) << 10`, as in the published module). Both fields
are rounded up to whole units, so that no given size or deadline becomes 0, which means "not known".

| mark                 | type | the flow has                                                |
|----------------------|------|-------------------------------------------------------------|
| deadline 1 to 4094   | 1    | a deadline (its size may be 0)                              |
| deadline 0, size > 0 | 2    | a known size and no deadline                                |
| 0                    | 3    | neither                                                     |
| deadline 4095        | 4    | a place in a coflow, whose id is in the low 20 bits instead |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

KB_BYTES = 1024
SIZE_BITS, DEADLINE_BITS = 20, 12
SIZE_MAX_BYTES = ((1 << SIZE_BITS) - 1) * KB_BYTES
COFLOW_FIELD = (1 << DEADLINE_BITS) - 1
"""The deadline field of a coflow's mark."""
DEADLINE_MAX_MS = COFLOW_FIELD - 1
COFLOW_MAX = (1 << SIZE_BITS) - 1


@dataclass(frozen=True, slots=True)
class FlowMark:
    """A flow's size in bytes and its deadline in ms after its start; None is "not known".

    Raises:
        ValueError: a number is not whole, not above 0, or more than the mark holds; names it and its range.
    """

    size_bytes: int | None = None
    deadline_ms: int | None = None

    def __post_init__(self) -> None:
        _check("size_bytes", self.size_bytes, SIZE_MAX_BYTES, "leave the size of a larger flow out")
        _check("deadline_ms", self.deadline_ms, DEADLINE_MAX_MS, "leave a later deadline out")

    @property
    def flow_type(self) -> int:
        """1 with a deadline, 2 with a size only, 3 with neither."""
        if self.deadline_ms is not None:
            return 1
        return 3 if self.size_bytes is None else 2

    def encode(self) -> int:
        """The mark, 0 to 2**32 - 1."""
        size_kb = -(-(self.size_bytes or 0) // KB_BYTES)
        return (self.deadline_ms or 0) << SIZE_BITS | size_kb

    @classmethod
    def decode(cls, mark: int) -> Self:
        """The size and deadline in a mark; the size is the largest that the mark stands for.

        Raises:
            ValueError: not 32 bits, or the mark of a coflow.
        """
        deadline_ms, size_kb = _fields(mark)
        if deadline_ms == COFLOW_FIELD:
            raise ValueError(f"mark {mark:#x} is of coflow {size_kb}; decode it as a CoflowMark")
        return cls(size_kb * KB_BYTES or None, deadline_ms or None)


@dataclass(frozen=True, slots=True)
class CoflowMark:
    """A flow's place in a coflow, by the id that the controller gave it.

    Raises:
        ValueError: the id is not a whole number from 1 to `COFLOW_MAX`.
    """

    coflow: int

    def __post_init__(self) -> None:
        _check("coflow", self.coflow, COFLOW_MAX, "give an id that `baton coflow open` printed")

    def encode(self) -> int:
        """The mark, 2**32 - 2**20 + 1 or more."""
        return COFLOW_FIELD << SIZE_BITS | self.coflow

    @classmethod
    def decode(cls, mark: int) -> Self | None:
        """The coflow of a mark; None if the mark is that of a single flow.

        Raises:
            ValueError: not 32 bits, or a coflow without an id.
        """
        field, coflow = _fields(mark)
        return cls(coflow) if field == COFLOW_FIELD else None


def _fields(mark: int) -> tuple[int, int]:
    if not 0 <= mark < 1 << (SIZE_BITS + DEADLINE_BITS):
        raise ValueError(f"mark {mark} is not 32 bits; give 0 to {(1 << 32) - 1}")
    return mark >> SIZE_BITS, mark & ((1 << SIZE_BITS) - 1)


def _check(name: str, value: int | None, most: int, remedy: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, not {value!r}; round it up")
    if value <= 0:
        raise ValueError(f"{name} must be above 0, not {value}; leave it out if it is not known")
    if value > most:
        raise ValueError(f"{name} is {value}, but a mark holds at most {most}; {remedy}")
