"""One host interface under Baton's control: its queues, its classifier, and the way back. An edge: kernel state.

Making a `Host` records what is there, then changes it; `close` puts it back. Its methods are those of `rules.GateControl`.
"""

from __future__ import annotations

import errno
import logging
import socket
from contextlib import suppress
from pathlib import Path

from agents.kernel import snapshot
from agents.kernel.netlink import Netlink
from agents.queues.classifier import FlowTable
from agents.queues.leftovers import put_back_leftovers
from agents.queues.queues import WAKEUP, HostQueues
from protocol.link import ControlSocket
from protocol.messages import ETHERTYPE, Kind, Override

log = logging.getLogger("baton.host")

HEARTBEATS = ((Kind.HEARTBEAT, Override.COORDINATE),)
"""The deferred frames: a heartbeat that changes nothing can be read later, one that opens every gate cannot."""


class Host:
    """The kernel's side of an agent."""

    def __init__(
        self,
        interface: str,
        rate_bps: int,
        *,
        gate_kind: str,
        run_dir: Path,
        take_over: bool = False,
        dscp: tuple[int, ...] = (),
        priority_tag: int | None = None,
    ) -> None:
        """Takes the interface, after what an earlier agent left there was put back.

        Args:
            gate_kind: "tbf" or "plug".
            dscp: the codepoint of each priority that a tagger writes, highest first: each destination's queues are then served
                by it. Empty for no priorities; a plug has none.
            priority_tag: the 802.1p priority in the tag of control frames; None: no tag.

        Raises:
            OSError: no such interface, one without a MAC address (loopback, a tunnel), or no right to change it.
            ForeignQdisc: it has a classful root qdisc of another program's, or one with others below it.
            InterfaceInUse: another agent has it.
            BuildError, BpfError: the classifier cannot be built or loaded. Nothing is changed then.
        """
        self.link = ControlSocket(interface, deferred=HEARTBEATS, priority_tag=priority_tag)
        self._index = socket.if_nametoindex(interface)
        try:
            if not any(self.link.address):
                raise OSError(errno.EADDRNOTAVAIL, "has no MAC address; name an Ethernet interface")
            put_back_leftovers(self._index, run_dir)
        except BaseException:
            self.link.close()
            raise
        self._netlink = Netlink()
        self._state = snapshot.StateFile(run_dir, interface, self._index)
        try:
            self._found = snapshot.take(self._netlink, interface, self._index, take_over=take_over)
            self._state.write(self._found)
        except BaseException:
            self._state.release()
            raise
        try:
            if gate_kind != "tbf":
                dscp = ()
            self.flows = FlowTable(interface, dscp[0] if dscp else None)
            found = self._found.gso_segments
            self.queues = HostQueues(self._netlink, interface, rate_bps, self.flows.drop_wakeup_fd(), gate_kind, dscp, found)
            self.queues.install()
            self.wakeups = _wakeup_socket(interface)
        except BaseException:
            self._put_back()
            raise
        self.wakeup_frame = 2 * self.link.address + ETHERTYPE.to_bytes(2, "big") + bytes(46)

    def gone(self) -> bool:
        """Whether the interface was deleted, or moved to another network namespace."""
        return snapshot.is_gone(self._index)

    def close(self) -> None:
        """Puts the interface back as it was found."""
        self._put_back()
        self.wakeups.close()
        self.flows.close()
        self.queues.close()
        self._netlink.close()
        self.link.close()

    def _put_back(self) -> None:
        afresh = Netlink()  # at the other one an answer may wait unread: a start can be interrupted anywhere
        try:
            snapshot.restore(afresh, self._found, self._index)
        finally:
            afresh.close()
        self._state.remove()

    # -- rules.GateControl; a destination without a gate is open ---------------------------------------------------------

    def grant(self, destination: int, credit_bytes: int) -> int | None:
        gate = self.queues.gate_of(destination)
        return None if gate is None else gate.grant(credit_bytes, self.queues.rate_bps)

    def rate(self, destination: int, rate_bps: int) -> None:
        """Lets traffic pass at a rate; a kind of gate that cannot limit the rate is opened."""
        gate = self.queues.gate_of(destination)
        if gate is not None and not gate.rate(rate_bps):
            gate.open()

    def bucket_bytes(self, destination: int, rate_bps: int) -> int:
        gate = self.queues.gate_of(destination)
        return 0 if gate is None else gate.bucket_bytes(rate_bps)

    def open_gate(self, destination: int) -> None:
        gate = self.queues.gate_of(destination)
        if gate is not None:
            gate.open()

    def close_gate(self, destination: int) -> None:
        gate = self.queues.gate_of(destination)
        if gate is not None:
            gate.close()

    def state(self, destination: int) -> tuple[int, int]:
        return self.queues.backlog(destination)

    def urgent(self, destination: int) -> int:
        return self.queues.urgent_bytes(destination)

    def arm(self, destination: int, *, urgent: bool = False) -> None:
        """Asks for an event at the destination's next packet; without priorities no packet is urgent."""
        if not urgent or self.queues.dscp:
            self.flows.arm(destination, urgent=urgent)

    def free_senders(self, destination: int, outstanding_bytes: int) -> None:
        self.flows.free_senders(destination, outstanding_bytes)

    def wake_queues(self) -> None:
        """Sends a frame that wakes the queues on its way out, and that a filter drops there."""
        with suppress(OSError):  # the interface is down just now
            self.wakeups.send(self.wakeup_frame)


def _wakeup_socket(interface: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        made.bind((interface, 0))  # protocol 0: it receives nothing
        made.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, WAKEUP)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
