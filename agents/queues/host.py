"""One host interface under Baton's control: its queues, its classifier, and the way back. An edge: kernel state.

Making a `Host` records what is there, then changes it; `close` puts it back. The gatekeeper's `Gates` are its methods.
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from pathlib import Path

from agents.kernel import offload, snapshot
from agents.kernel.netlink import Netlink
from agents.priorities.tagger import TaggerSettings
from agents.queues.classifier import FlowTable
from agents.queues.queues import KICK, HostQueues
from protocol.link import ControlSocket
from protocol.messages import ETHERTYPE, Kind, Override

log = logging.getLogger("baton.host")

HEARTBEATS = ((Kind.HEARTBEAT, Override.COORDINATE),)
"""That all goes on can be heard of later; that every gate is to be opened cannot."""


class Host:
    """The kernel's side of an agent."""

    def __init__(
        self,
        interface: str,
        rate_bps: int,
        *,
        gate: str,
        run_dir: Path,
        take_over: bool = False,
        priorities: bool = False,
    ) -> None:
        """Takes the interface. With `priorities` a destination's queues are served by the DSCP that a tagger writes.

        Raises:
            OSError: no such interface, or no right to change it.
            ForeignQdisc: it has a classful root qdisc of somebody else's.
            BuildError, BpfError: the classifier cannot be built or loaded. Nothing is changed then.
        """
        self.link = ControlSocket(interface, patient=HEARTBEATS)
        self._netlink = Netlink()
        self._state = snapshot.StateFile(run_dir, interface)
        if (left := self._state.read()) is not None:
            log.warning("%s: an earlier agent did not end well; putting back what it found", interface)
            snapshot.restore(self._netlink, left)
        self._found = snapshot.take(self._netlink, interface, take_over=take_over)
        self._state.write(self._found)
        try:
            dscp = TaggerSettings().dscp if priorities and gate == "tbf" else ()
            self.flows = FlowTable(interface, dscp[0] if dscp else None)
            self.queues = HostQueues(self._netlink, interface, rate_bps, self.flows.swallow_fd(), gate, dscp)
            self.queues.install()
            self.kicks = _kicking(interface)
            wanted = offload.wanted_segments(rate_bps, self._found.gso_segments)
            offload.set_segments(self._netlink, socket.if_nametoindex(interface), wanted)
        except BaseException:
            self._put_back()
            raise
        self.kick_frame = 2 * self.link.address + ETHERTYPE.to_bytes(2, "big") + bytes(46)

    def close(self) -> None:
        """Puts the interface back as it was found."""
        self._put_back()
        self.kicks.close()
        self.flows.close()
        self.queues.close()
        self._netlink.close()
        self.link.close()

    def _put_back(self) -> None:
        snapshot.restore(self._netlink, self._found)
        self._state.remove()

    # -- gatekeeper.Gates -----------------------------------------------------------------------------------------------

    def grant(self, destination: int, credit_bytes: int) -> int | None:
        """See gates.Gate.grant."""
        gate = self.queues.gate_of(destination)
        return None if gate is None else gate.grant(credit_bytes, self.queues.rate_bps)

    def rate(self, destination: int, rate_bps: int) -> None:
        """See gates.Gate.rate; a gate that knows no rate is opened."""
        gate = self.queues.gate_of(destination)
        if gate is not None and not gate.rate(rate_bps):
            gate.open()

    def open(self, destination: int) -> None:
        """See gates.Gate.open."""
        gate = self.queues.gate_of(destination)
        if gate is not None:
            gate.open()

    def close_gate(self, destination: int) -> None:
        """See gates.Gate.close."""
        gate = self.queues.gate_of(destination)
        if gate is not None:
            gate.close()

    def state(self, destination: int) -> tuple[int, int]:
        """(bytes that passed the gate, bytes that wait at it)."""
        return self.queues.backlog(destination)

    def urgent(self, destination: int) -> int:
        """See queues.HostQueues.urgent_bytes."""
        return self.queues.urgent_bytes(destination)

    def arm(self, destination: int, *, urgent: bool = False) -> None:
        """See flows.FlowTable.arm; nothing is urgent without priorities."""
        if not urgent or self.queues.dscp:
            self.flows.arm(destination, urgent=urgent)

    def kick(self) -> None:
        """Sends a frame that wakes the queues on its way out, and goes no further than to them."""
        with suppress(OSError):  # the interface is down just now
            self.kicks.send(self.kick_frame)


def _kicking(interface: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        made.bind((interface, 0))  # hears nothing
        made.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, KICK)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
