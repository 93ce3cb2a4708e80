"""The switches that are connected, with their ports as they describe them, and all their names. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.openflow.intake.hosts import PortRef
from controller.openflow.view import Port


@dataclass(slots=True)
class PortState:
    """A port; `up_ns`: since when it is up.

    `trunk`: it has received LLDP since then. `rx_packets` and `received_ns`: its counter of received frames, and when that
    changed. `announced_ns`: when LLDP was sent by it. `told_ns`: when operators were told of it, by kind.
    """

    port: Port
    up_ns: int
    trunk: bool = False
    rx_packets: int = 0
    received_ns: int = 0
    announced_ns: int | None = None
    told_ns: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class SwitchState:
    """A switch; `since_ns`: when it connected."""

    name: str
    since_ns: int
    ports: dict[int, PortState] = field(default_factory=dict)


class ConnectedSwitches(dict[int, SwitchState]):
    """Switches by datapath id."""

    def add(self, dpid: int, name: str, now_ns: int) -> SwitchState:
        """Adds a switch under its bridge's name, or its datapath id if it tells none or another's."""
        taken = {state.name for state in self.values()}
        self[dpid] = added = SwitchState(name if name and name not in taken else f"{dpid:016x}", now_ns)
        return added

    def state(self, ref: PortRef) -> PortState | None:
        """What is known of a port; None: it is not there."""
        switch = self.get(ref.dpid)
        return switch.ports.get(ref.number) if switch else None

    def ports(self) -> Iterator[tuple[PortRef, PortState]]:
        """All ports."""
        for dpid, switch in self.items():
            for number, state in switch.ports.items():
                yield PortRef(dpid, number), state

    def port_count(self) -> int:
        """How many ports there are."""
        return sum(len(switch.ports) for switch in self.values())

    # -- names -----------------------------------------------------------------------------------------------

    def name(self, dpid: int) -> str:
        """The bridge's name, or the datapath id of an unknown switch."""
        switch = self.get(dpid)
        return switch.name if switch else f"{dpid:016x}"

    def port(self, ref: PortRef) -> str:
        """The port's own name; "": it is not there."""
        state = self.state(ref)
        return state.port.name if state is not None else ""

    def port_named(self, dpid: int, name: str) -> PortRef | None:
        """A switch's port by its name, or None."""
        switch = self.get(dpid)
        numbers = [number for number, state in switch.ports.items() if state.port.name == name] if switch else []
        return PortRef(dpid, numbers[0]) if numbers else None

    def port_name(self, ref: PortRef) -> str:
        """`switch:port`, by name where known."""
        switch = self.get(ref.dpid)
        if switch is None:
            return f"{ref.dpid:016x}:{ref.number}"
        return f"{switch.name}:{self.port(ref) if ref.number in switch.ports else ref.number}"
