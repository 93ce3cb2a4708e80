"""What is looked at during a siege: the processes' memory and descriptors, and the page as an operator loads it. An edge."""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.dashboard.hostile import PATIENCE_S, Operator
from bench.siege.verdicts import Sample

PERIOD_S = 1.0
PAGE = 4096
TICKS = os.sysconf("SC_CLK_TCK")


def sample(pid: int) -> Sample | None:
    """A process now; None: it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        if not pages:
            return None  # it has ended, and nobody has asked how
        ticks = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))  # utime, stime: proc(5)
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return Sample(time.monotonic(), round(pages * PAGE / 1e6, 3), descriptors, ticks / TICKS)
    except (OSError, IndexError):
        return None


class Watch:
    """Looks once a second, in a thread."""

    def __init__(self, pids: Mapping[str, int], operator: Operator) -> None:
        """`operator` has logged in."""
        self.samples: dict[str, list[Sample]] = defaultdict(list)
        self.page_ms: list[float] = []
        self.ended: set[str] = set()
        self._pids = pids
        self._operator = operator
        self._stop = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        """While the block runs."""
        threads = [threading.Thread(target=self._often, args=(look,), daemon=True) for look in (self._processes, self._page)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _often(self, look: Callable[[], None]) -> None:
        while not self._stop.is_set():
            began_s = time.monotonic()
            look()
            self._stop.wait(max(0.05, PERIOD_S - (time.monotonic() - began_s)))

    def _processes(self) -> None:
        for name, pid in self._pids.items():
            found = sample(pid)
            if found is None:
                self.ended.add(name)
            else:
                self.samples[name].append(found)

    def _page(self) -> None:
        began_s = time.monotonic()
        try:
            self._operator.load()
            self.page_ms.append(round(1e3 * (time.monotonic() - began_s), 1))
        except (OSError, http.client.HTTPException, ValueError):
            self.page_ms.append(PATIENCE_S * 1e3)
