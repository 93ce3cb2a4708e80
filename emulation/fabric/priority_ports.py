"""Switch ports with eight priorities, ECN and a shared buffer in an emulated fabric. An edge: see
`controller.switch_queues.port`.

What real ports have, `QueuedPort`, behind the interface of the port with one queue, so that whoever counts, samples or
verifies need not know which he has.
"""

from __future__ import annotations

from pyroute2 import IPRoute

from controller.switch_queues.model import PortQueues, QueueCounters, SwitchQueues
from controller.switch_queues.port import CONTROL_FIFO, DATA, NETWORK_FIFO, QueuedPort
from emulation.fabric.ports import PortCounters, SwitchPort
from emulation.fabric.qdisc_stats import QdiscReader, QdiscStats


class PriorityPort(SwitchPort):
    """One port's egress; its classifier hides drops from a userspace datapath as `emulation.fabric.unheard` does."""

    data_queue = DATA

    def __init__(self, netlink: IPRoute, name: str, rate_bps: int, queues: SwitchQueues) -> None:
        """Raises OSError, BuildError: no such interface, or the classifier can't be built or loaded."""
        super().__init__(netlink, name, rate_bps, queues.buffer_packets)
        self._queued = QueuedPort(netlink, name, PortQueues(rate_bps, queues))

    def shape(self) -> None:
        """Makes the queues. Raises PortTaken: there are others."""
        self._queued.apply()

    def counters(self, reader: QdiscReader) -> PortCounters:
        """The port's counters now; `control` has the network band (ARP, ICMP, LLDP) in it, too."""
        data = _with(reader.read(self.index, DATA), self._queued.drops(data=True))
        bands = (reader.read(self.index, handle) for handle in (CONTROL_FIFO, NETWORK_FIFO))
        above = QdiscStats(*map(sum, zip(*bands, strict=True)))
        return PortCounters(data, _with(above, self._queued.drops(data=False)))

    def queue_counters(self) -> tuple[QueueCounters, ...]:
        """Of the data queues, the first served first."""
        return self._queued.counters()

    def drifts(self) -> list[str]:
        """What is no longer as `shape` set it, one line each; empty if all is."""
        return self._queued.drifts()

    def verify(self) -> list[str]:
        """Shapes the port anew if it has drifted; gives the drifts found."""
        return self._queued.verify()

    def close(self) -> None:
        """Frees the classifier; the interface goes with its fabric."""
        self._queued.close()


def make_port(
    netlink: IPRoute, name: str, rate_bps: int, buffer_packets: int, queues: SwitchQueues | None, *, hide_drops: bool
) -> SwitchPort:
    """A port with one data queue of `buffer_packets`, or with `queues`."""
    if queues is None:
        return SwitchPort(netlink, name, rate_bps, buffer_packets, hide_drops=hide_drops)
    return PriorityPort(netlink, name, rate_bps, queues)


def _with(stats: QdiscStats, drops: int) -> QdiscStats:
    return stats._replace(drops=stats.drops + drops)
