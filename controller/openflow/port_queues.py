"""Which ports of which switches have the queue of control frames, as the switches tell. Pure."""

from __future__ import annotations

from controller.openflow.view import View


class PortQueues:
    """By datapath id, the ports with the queue."""

    def __init__(self) -> None:
        self._queued: dict[int, frozenset[int]] = {}
        self._without: set[int] = set()

    def forget(self, dpid: int) -> None:
        """A switch's connection has ended."""
        self._queued.pop(dpid, None)
        self._without.discard(dpid)

    def told(self, dpid: int, ports: frozenset[int]) -> bool:
        """Which ports of a switch have the queue; True if that has changed."""
        changed = self._queued.get(dpid, frozenset()) != ports
        self._queued[dpid] = ports
        return changed

    def has_none(self, dpid: int) -> None:
        """The switch does not know the question for its queues: it is not asked again."""
        self._without.add(dpid)

    def asks(self, dpid: int) -> bool:
        """Whether the switch is to be asked for its queues."""
        return dpid not in self._without

    def everywhere(self, view: View) -> frozenset[int]:
        """The switches whose ports all have the queue."""
        return frozenset(
            dpid
            for dpid, switch in view.switches.items()
            if (ports := self._queued.get(dpid)) and all(port.number in ports for port in switch.ports.values() if port.up)
        )
