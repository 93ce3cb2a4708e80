"""The order of coflows: which priority queue each has. Pure.

Baraat's FIFO-LM (Dogar et al., SIGCOMM 2014, sections 3 and 4.1), centrally: the coflow that was opened first goes first,
alone, as long as it is light; once it is heavy, the next one shares with it. Queues are strict, and shared within:

    queue 0      coflows whose deadline is still ahead, as flows of type 1
    queue 1      the first coflow, and after each heavy one in it the next
    queue 2 ...  one light coflow each (with the heavy ones before it), by their opening
    queue 7      all the rest, and coflows that a host does not know, so that the coordinator need not send these

First in, first out is near the best for coflows of like size, since none waits half done; a heavy one at its head would keep
light ones waiting, hence the multiplexing. Baraat's switches see a task's bytes; here a coflow is heavy if it was opened
with a size of more than `heavy_bytes`, or once it has been in queue 1 for `heavy_ns`: the same limit at the rate at which one
link serves it, without a report from any host. No coflow waits for ever: n coflows before it take at most n * `heavy_ns`
to be heavy, and a coflow whose program is gone delays the others no longer than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DEADLINE_QUEUE, FIRST_QUEUE, LAST_QUEUE = 0, 1, 7
HEAVY_BYTES = 25_000_000
HEAVY_NS = 200_000_000  # HEAVY_BYTES at 1 Gb/s


@dataclass(frozen=True, slots=True)
class Coflow:
    """A coflow that was opened; instants (ns) are all by one clock. `size_bytes`: of all its flows, if known."""

    coflow: int
    opened_ns: int
    expires_ns: int
    deadline_ns: int | None = None
    size_bytes: int | None = None


class CoflowOrder:
    """Keeps the open coflows, and since when each has been served."""

    def __init__(self, heavy_bytes: int = HEAVY_BYTES, heavy_ns: int = HEAVY_NS) -> None:
        """Raises ValueError: a limit that is not above 0."""
        if heavy_bytes <= 0 or heavy_ns <= 0:
            raise ValueError(f"heavy_bytes is {heavy_bytes} and heavy_ns {heavy_ns}; both are above 0")
        self._heavy_bytes, self._heavy_ns = heavy_bytes, heavy_ns
        self._open: tuple[Coflow, ...] = ()
        self._dated: tuple[Coflow, ...] = ()
        self._served_ns: dict[int, int] = {}
        """By id: when it first came into queue 1."""

    def update(self, coflows: Iterable[Coflow]) -> None:
        """Takes the coflows that are open now; for a coflow that stays open, the time since it was first served stays."""
        self._open = tuple(sorted(coflows, key=lambda coflow: (coflow.opened_ns, coflow.coflow)))
        self._dated = tuple(coflow for coflow in self._open if coflow.deadline_ns is not None)
        known = {coflow.coflow for coflow in self._open}
        self._served_ns = {coflow: since for coflow, since in self._served_ns.items() if coflow in known}

    def queues(self, *, now_ns: int) -> dict[int, int]:
        """The queue of every coflow that is not in the last one, by id. A coflow new in queue 1 counts as served from now."""
        ahead = (coflow.coflow for coflow in self._dated if coflow.deadline_ns is not None and now_ns < coflow.deadline_ns)
        found = dict.fromkeys(ahead, DEADLINE_QUEUE)
        queue = FIRST_QUEUE
        for coflow in self._open:
            if queue == LAST_QUEUE:
                break
            if coflow.coflow in found or coflow.expires_ns <= now_ns:
                continue
            found[coflow.coflow] = queue
            if queue == FIRST_QUEUE:
                self._served_ns.setdefault(coflow.coflow, now_ns)
            if not self._heavy(coflow, now_ns):
                queue += 1
        return found

    def _heavy(self, coflow: Coflow, now_ns: int) -> bool:
        since = self._served_ns.get(coflow.coflow)
        served = since is not None and now_ns - since >= self._heavy_ns
        return served or (coflow.size_bytes or 0) > self._heavy_bytes
