"""The switches that are connected, with their ports as they describe them, and all their names. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from controller.openflow.intake.hosts import PortRef
from controller.openflow.view import Port
from protocol.units import MILLISECOND_NS

PROBE_NS = 300 * MILLISECOND_NS
"""How long a port is up before hosts may be there: by then LLDP has come in if there is a switch of ours."""


@dataclass(slots=True)
class PortState:
    """A port; `up_ns`: since when it is up.

    `trunk`: it has received LLDP since then. `rx_packets` and `received_ns`: its counter of received frames, and when that
    changed. `announced_ns`: when LLDP was sent by it. `sought_ns`: when a loop was sought there;
    `loop_until_ns`: until when it is closed for one. `told_ns`: when operators were told of it, by kind.
    """

    port: Port
    up_ns: int
    trunk: bool = False
    rx_packets: int = 0
    received_ns: int = 0
    announced_ns: int | None = None
    sought_ns: int | None = None
    loop_until_ns: int = 0
    told_ns: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class SwitchState:
    """A switch; `since_ns`: when it connected; `numbers`: of its ports by name."""

    name: str
    since_ns: int
    ports: dict[int, PortState] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def named(self, port: Port) -> Port:
        """The port under a name that no other has: its own, followed by "#" and its number if another has that one; its number
        if it has none. A switch cuts names to 16 bytes (OpenFlow 1.3.4, 7.2.1), which makes long ones equal."""
        self.forget_name(port.number)
        name = port.name or str(port.number)
        while name in self.numbers:
            name = f"{name}#{port.number}"
        self.numbers[name] = port.number
        return replace(port, name=name)

    def forget_name(self, number: int) -> None:
        """The name of this port is free again."""
        if (state := self.ports.get(number)) is not None:
            self.numbers.pop(state.port.name, None)


class ConnectedSwitches(dict[int, SwitchState]):
    """Switches by datapath id."""

    def add(self, dpid: int, name: str, now_ns: int) -> SwitchState:
        """Adds a switch under its bridge's name, or its datapath id if it tells none or another's."""
        taken = {state.name for state in self.values()}
        if not name or name in taken:
            name = f"{dpid:016x}"
        while name in taken:  # another's bridge has our datapath id for a name
            name += "#"
        self[dpid] = added = SwitchState(name, now_ns)
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
        """The port's name; "": it is not there."""
        state = self.state(ref)
        return state.port.name if state is not None else ""

    def port_named(self, dpid: int, name: str) -> PortRef | None:
        """A switch's port by its name, or None."""
        switch = self.get(dpid)
        number = switch.numbers.get(name) if switch else None
        return None if number is None else PortRef(dpid, number)

    def port_name(self, ref: PortRef) -> str:
        """`switch:port`, by name where known."""
        switch = self.get(ref.dpid)
        if switch is None:
            return f"{ref.dpid:016x}:{ref.number}"
        return f"{switch.name}:{self.port(ref) if ref.number in switch.ports else ref.number}"
