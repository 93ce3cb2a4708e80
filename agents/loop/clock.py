"""The agent's estimate of the coordinator's clock, from the PING and PONG messages that the two exchange. Pure.

Source: RFC 5905 section 8 (on-wire protocol) for offset and delay; the clock filter (section 10) uses the sample
with the least delay, since queueing only ever adds delay. A sample gives the offset to within half its delay, so two samples
far apart in time bound how fast the offset changes: the better this drift is known, the longer a good sample stays good. A
sample that contradicts the estimate shows that a clock has jumped: what was known before it is worth nothing any more.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import combinations

DRIFT_PPB = 20_000
"""The worst drift assumed between two hosts' monotonic clocks, in parts per 10^9 (20 ppm)."""
WANDER_PPB = 100
"""How much the drift may have changed since the anchors were taken: a crystal's temperature changes slowly."""
ROUNDING_NS = 10
"""What whole nanoseconds, and the drift during a round trip, add to the error of a comparison."""
SAMPLES, AN_ANCHOR, ANCHORS = 64, 16, 10
"""How many samples are kept; the drift is computed from anchors: the best of each sixteen samples, the last ten of these."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One exchange: coordinator's clock minus ours, and the round trip's delay, both in ns."""

    offset_ns: int
    delay_ns: int
    taken_ns: int


class Clock:
    """Translates between this host's monotonic clock and the coordinator's (ns)."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._group: list[Sample] = []
        self._anchors: deque[Sample] = deque(maxlen=ANCHORS)
        self._best_sample = Sample(0, 0, 0)
        self._drift_ppb, self._drift_error_ppb = 0, DRIFT_PPB
        self.offset_ns = 0
        """As of the last exchange."""

    @property
    def line(self) -> tuple[int, int, int]:
        """Of the translation: offset (ns) at a local time (ns), and drift (parts per 10^9); for code that translates itself."""
        return self._best_sample.offset_ns, self._best_sample.taken_ns, self._drift_ppb

    @property
    def synchronised(self) -> bool:
        """Whether at least one exchange has been completed since the last `reset`."""
        return bool(self._samples)

    def sample(self, sent_ns: int, received_ns: int, replied_ns: int, returned_ns: int) -> None:
        """Takes one exchange: sent and returned by our clock, received and replied by the coordinator's."""
        delay = (returned_ns - sent_ns) - (replied_ns - received_ns)
        if delay < 0:
            return  # no reply overtakes its question: one of the clocks was changed
        offset = ((received_ns - sent_ns) + (replied_ns - returned_ns)) // 2
        taken = Sample(offset, delay, (sent_ns + returned_ns) // 2)
        if self._contradicts(taken):
            self.reset()  # one of the clocks has jumped, as when a virtual machine was suspended
        self._samples.append(taken)
        self._group.append(taken)
        if len(self._group) == AN_ANCHOR:
            self._anchors.append(min(self._group, key=lambda s: s.delay_ns))
            self._group.clear()
            self._learn_drift()
        self._best_sample = self._best(returned_ns)
        self.offset_ns = self.coordinator(returned_ns) - returned_ns

    def _contradicts(self, sample: Sample) -> bool:
        """Whether the estimate is farther from a new sample than the errors of both allow."""
        if not self._samples:
            return False
        apart_ns = abs(sample.taken_ns + sample.offset_ns - self.coordinator(sample.taken_ns))
        return apart_ns > sample.delay_ns // 2 + self._error_ns(self._best_sample, sample.taken_ns) + ROUNDING_NS

    def reset(self) -> None:
        """Forgets all samples: another coordinator has another clock."""
        self._samples.clear()
        self._group.clear()
        self._anchors.clear()
        self._drift_ppb, self._drift_error_ppb = 0, DRIFT_PPB

    def _learn_drift(self) -> None:
        """Computes the range of drifts that all anchors allow, no worse than `DRIFT_PPB`. If no drift fits them all, it has
        changed since the oldest anchor, which is dropped."""
        while True:
            least, most = -DRIFT_PPB, DRIFT_PPB
            for earlier, later in combinations(self._anchors, 2):
                moved = later.offset_ns - earlier.offset_ns
                error = (later.delay_ns + earlier.delay_ns) // 2 + 1
                span = max(1, later.taken_ns - earlier.taken_ns)
                least = max(least, -(-(moved - error) * 10**9 // span))
                most = min(most, (moved + error) * 10**9 // span)
            if least <= most or not self._anchors:
                self._drift_ppb = (least + most) // 2
                self._drift_error_ppb = min(DRIFT_PPB, (most - least + 1) // 2 + WANDER_PPB)
                return
            self._anchors.popleft()

    def _error_ns(self, sample: Sample, now_ns: int) -> int:
        """Half the sample's delay, plus what the offset may have changed since, beyond the known drift."""
        return sample.delay_ns // 2 + max(0, now_ns - sample.taken_ns) * self._drift_error_ppb // 10**9

    def _best(self, now_ns: int) -> Sample:
        return min(self._samples, key=lambda sample: self._error_ns(sample, now_ns))

    def uncertainty_ns(self, now_ns: int) -> int:
        """How far from the true offset ours may be, in ns; 0 before the first sample."""
        return self._error_ns(self._best_sample, now_ns) if self._samples else 0

    def local(self, coordinator_ns: int) -> int:
        """The local time at which the coordinator's clock shows `coordinator_ns`."""
        best, drift_ppb = self._best_sample, self._drift_ppb
        without_ns = coordinator_ns - best.offset_ns
        return without_ns - (without_ns - best.taken_ns) * drift_ppb // (10**9 + drift_ppb)

    def coordinator(self, local_ns: int) -> int:
        """What the coordinator's clock shows at `local_ns`."""
        best = self._best_sample
        return local_ns + best.offset_ns + (local_ns - best.taken_ns) * self._drift_ppb // 10**9
