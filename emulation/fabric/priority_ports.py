"""Ports of switches and hosts with eight priorities in an emulated fabric, and the choice of a port's kind. An edge: see
`controller.switch_queues.port`.

Gives `QueuedPort`, which is for real ports, the interface of a port with one queue, so that code that counts, samples or
verifies treats both alike.
"""

from __future__ import annotations

from pyroute2 import IPRoute

from agents.kernel.netlink import Netlink
from agents.kernel.snapshot import CLASSIFIER_PREFERENCE
from controller.switch_queues.model import QUEUES, PortQueues, QueueCounters, SwitchQueues
from controller.switch_queues.port import CONTROL_FIFO, DATA, NETWORK_FIFO, QueuedPort
from emulation.fabric.exact_ports import ExactHostPort, ExactPort
from emulation.fabric.host_port import LIMIT_PACKETS, HostPort
from emulation.fabric.ports import PortCounters, SwitchPort
from emulation.fabric.qdisc_stats import QdiscReader, QdiscStats
from emulation.netns import network_of

HOST_QUEUES = SwitchQueues(buffer_packets=LIMIT_PACKETS, share=None, reserved=(0,) * QUEUES, marking_threshold_bytes=None)
"""A host drops and marks nothing: its sockets wait."""
AFTER_TAGGER = CLASSIFIER_PREFERENCE + 1
"""The preference of a program at a host's egress that reads the DSCP which the tagger has written."""


class PriorityPort(SwitchPort):
    """One port's egress; its classifier hides drops from a userspace datapath as `emulation.fabric.hidden_drops` does."""

    data_queue = DATA

    def __init__(self, netlink: IPRoute, name: str, rate_bps: int, queues: SwitchQueues) -> None:
        """Raises OSError, BuildError: there is no such interface, or the classifier cannot be built or loaded."""
        super().__init__(netlink, name, rate_bps, queues.buffer_packets)
        self._queued = QueuedPort(netlink, name, PortQueues(rate_bps, queues))

    def shape(self) -> None:
        """Makes the queues. Raises PortTaken: the port has queues of another program."""
        self._queued.apply()

    def counters(self, reader: QdiscReader) -> PortCounters:
        """The port's counters now; `control` includes the network band (ARP, ICMP, LLDP)."""
        data = _with(reader.read(self.index, DATA), self._queued.drops(data=True))
        bands = (reader.read(self.index, handle) for handle in (CONTROL_FIFO, NETWORK_FIFO))
        above = QdiscStats(*map(sum, zip(*bands, strict=True)))
        return PortCounters(data, _with(above, self._queued.drops(data=False)))

    def queue_counters(self) -> tuple[QueueCounters, ...]:
        """The counters of the data queues, the highest priority first."""
        return self._queued.counters()

    def drifts(self) -> list[str]:
        """What is no longer as `shape` set it, one line each."""
        return self._queued.drifts()

    def verify(self) -> list[str]:
        """Shapes the port again if it has drifted; the drifts found."""
        return self._queued.verify()

    def close(self) -> None:
        """Frees the classifier; the interface goes with its fabric."""
        self._queued.close()


def make_port(
    netlink: IPRoute,
    name: str,
    rate_bps: int,
    buffer_packets: int,
    queues: SwitchQueues | None,
    *,
    hide_drops: bool,
    exact: bool = False,
) -> SwitchPort:
    """A port with one data queue of `buffer_packets`, or with `queues`.

    Args:
        exact: whether packets leave at computed times. A port with `queues` keeps HTB: when its packet of low priority leaves
            depends on packets that come later.
    """
    if queues is not None:
        return PriorityPort(netlink, name, rate_bps, queues)
    if exact:
        return ExactPort(netlink, name, rate_bps, buffer_packets)
    return SwitchPort(netlink, name, rate_bps, buffer_packets, hide_drops=hide_drops)


class PriorityHostPort(HostPort):
    """One host's interface that sends at the link's rate by strict priorities of the DSCP, as a NIC with eight queues."""

    def __init__(self, netlink: IPRoute, name: str, rate_bps: int, pid: int) -> None:
        """`pid`: a process in the host's namespaces. Raises OSError, BuildError: the classifier cannot be built or loaded."""
        super().__init__(netlink, name, rate_bps)
        self._pid = pid
        with network_of(pid):
            self._queued = QueuedPort(netlink, name, PortQueues(rate_bps, HOST_QUEUES), preference=AFTER_TAGGER)

    def shape(self) -> None:
        """Makes the queues. Raises PortTaken: the interface has queues of another program."""
        with network_of(self._pid):
            self._queued.apply()

    def close(self) -> None:
        """Frees the classifier; the interface goes with its fabric."""
        self._queued.close()

    def drifts(self) -> list[str]:
        """What is no longer as `shape` set it, one line each."""
        return self._queued.drifts()

    def verify(self) -> list[str]:
        """Shapes the interface again if it has drifted; the drifts found."""
        with network_of(self._pid):
            return self._queued.verify()


def make_host_port(
    netlink: IPRoute, name: str, rate_bps: int, pid: int, *, priorities: bool = False, exact: bool = False
) -> HostPort:
    """A host's interface with one queue, or with eight priorities; `netlink` and `pid` are in the host's namespaces.

    Args:
        exact: whether packets leave at computed times; with `priorities` they don't, see `make_port`.
    """
    if priorities:
        return PriorityHostPort(netlink, name, rate_bps, pid)
    if not exact:
        return HostPort(netlink, name, rate_bps)

    def connect() -> Netlink:
        with network_of(pid):
            return Netlink()

    return ExactHostPort(netlink, name, rate_bps, connect)


def _with(stats: QdiscStats, drops: int) -> QdiscStats:
    return stats._replace(drops=stats.drops + drops)
