"""The agent's estimate of the coordinator's clock, from the ping and pong it exchanges with it. Pure.

Source: RFC 5905 section 8 (on-wire protocol) for offset and delay; of the last samples the one with the least delay is
believed (RFC 5905 section 10, clock filter), since queueing only ever adds delay.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

DRIFT_PPB = 20_000
"""Worst drift between two hosts' monotonic clocks that is allowed for, in parts per 10^9 (20 ppm)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One exchange: coordinator's clock minus ours, and the round trip's delay, both in ns."""

    offset_ns: int
    delay_ns: int
    taken_ns: int


class Clock:
    """Translates between this host's monotonic clock and the coordinator's (ns)."""

    def __init__(self, window: int = 16) -> None:
        self._samples: deque[Sample] = deque(maxlen=window)
        self.offset_ns = 0

    @property
    def synchronised(self) -> bool:
        """Whether at least one exchange has been completed since the last `reset`."""
        return bool(self._samples)

    def sample(self, sent_ns: int, received_ns: int, replied_ns: int, returned_ns: int) -> None:
        """Takes one exchange: sent and returned by our clock, received and replied by the coordinator's."""
        delay = (returned_ns - sent_ns) - (replied_ns - received_ns)
        if delay < 0:
            return  # a reply that overtook its question was not measured by the clocks we think
        offset = ((received_ns - sent_ns) + (replied_ns - returned_ns)) // 2
        self._samples.append(Sample(offset, delay, returned_ns))
        self.offset_ns = self._best(returned_ns).offset_ns

    def reset(self) -> None:
        """Forgets all samples: another coordinator has another clock."""
        self._samples.clear()

    def _best(self, now_ns: int) -> Sample:
        return min(self._samples, key=lambda s: s.delay_ns // 2 + (now_ns - s.taken_ns) * DRIFT_PPB // 10**9)

    def uncertainty_ns(self, now_ns: int) -> int:
        """Half the believed sample's delay, plus what the clocks may have drifted since it was taken."""
        if not self._samples:
            return 0
        best = self._best(now_ns)
        return best.delay_ns // 2 + max(0, now_ns - best.taken_ns) * DRIFT_PPB // 10**9

    def local(self, coordinator_ns: int) -> int:
        """The local time at which the coordinator's clock shows `coordinator_ns`."""
        return coordinator_ns - self.offset_ns

    def coordinator(self, local_ns: int) -> int:
        """What the coordinator's clock shows at `local_ns`."""
        return local_ns + self.offset_ns
