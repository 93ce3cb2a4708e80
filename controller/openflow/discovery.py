"""Discovers the network: switches, ports, links by LLDP, and hosts by their frames.

Pure: events and the time (`now_ns`, monotonic integer nanoseconds) go in, a frozen `View` comes out. These rules keep a fabric
with loops safe while it is only half known:

* a port is an *edge* (hosts may be there) only after it has been up for PROBE_NS and no LLDP of ours has come in by it: the
  listening state of IEEE 802.1D, made short by probing at once;
* a port that has received LLDP is a *trunk* until it goes down: when its neighbour falls silent or disconnects from the
  controller, the port is closed, not opened to hosts;
* a link counts when each end has received LLDP of the other. It ends at once with its port or its switch; otherwise when
  neither LLDP nor any other frame arrives (a congested link loses LLDP, too), though we sent LLDP again and again for half of
  that time, and this process was running to receive it;
* a switch takes part once its ports have been probed; until then it keeps the flow table it came with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from protocol.units import MILLISECOND_NS

PROBE_NS = 300 * MILLISECOND_NS
LINK_SILENCE_NS = 3_000 * MILLISECOND_NS
LINK_SILENCE_PER_PORT_NS = 20 * MILLISECOND_NS  # LLDP is sent port by port: less often in a large fabric
ABSENCE_NS = 500 * MILLISECOND_NS  # between two ticks: this process was stopped, and has not read yet what came meanwhile
MOVE_HOLD_NS = 1_000 * MILLISECOND_NS  # a MAC that is seen at two ports moves at most once in this time
MAX_HOSTS_PER_PORT = 1024
MAX_ADDRESSES_PER_HOST = 64


class PortRef(NamedTuple):
    """A port of the fabric: datapath id and OpenFlow port number."""

    dpid: int
    number: int


@dataclass(frozen=True, slots=True)
class Port:
    """A switch port as the switch describes it; `rate_bps` is 0 if the switch does not say."""

    number: int
    name: str
    up: bool
    rate_bps: int = 0
    mac: str = ""


@dataclass(frozen=True, slots=True)
class Switch:
    """A connected switch: bridge name and ports by number."""

    dpid: int
    name: str
    ports: Mapping[int, Port]


class Link(NamedTuple):
    """An inter-switch link on which LLDP passed both ways; `a` is the lower end."""

    a: PortRef
    b: PortRef


@dataclass(frozen=True, slots=True)
class Host:
    """A MAC address learned at an edge port, with the IP addresses that it used (oldest first).

    `speaks_control`: it has sent a frame of the control EtherType, so it is an agent's own address, not a VM's.
    """

    mac: str
    at: PortRef
    addresses: tuple[str, ...] = ()
    speaks_control: bool = False
    moved_ns: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """The network as forwarding may use it: only switches that take part, links between them, edges open to hosts."""

    switches: Mapping[int, Switch]
    links: tuple[Link, ...]
    edges: frozenset[PortRef]
    hosts: Mapping[str, Host]

    def is_up(self, ref: PortRef) -> bool:
        """Whether this port exists and its link is up."""
        switch = self.switches.get(ref.dpid)
        port = switch.ports.get(ref.number) if switch else None
        return port is not None and port.up


class Note(NamedTuple):
    """An event for operators: kind, severity ("info" or "warning"), text, fields."""

    kind: str
    severity: str
    text: str
    fields: dict[str, str]


@dataclass(slots=True)
class _PortState:
    port: Port
    up_ns: int
    trunk: bool = False
    rx_packets: int = 0
    received_ns: int = 0


@dataclass(slots=True)
class _SwitchState:
    name: str
    since_ns: int
    ports: dict[int, _PortState] = field(default_factory=dict)


class _Neighbour(NamedTuple):
    source: PortRef
    last_ns: int


class Discovery:
    """Collects events; `revision` grows whenever `view()` would differ."""

    def __init__(self) -> None:
        self.revision = 0
        self._switches: dict[int, _SwitchState] = {}
        self._heard: dict[PortRef, _Neighbour] = {}  # by the port that received
        self._hosts: dict[str, Host] = {}
        self._notes: list[Note] = []
        self._settling: deque[int] = deque()  # when each port or switch that came up will have been probed, in order
        self._tick_ns: int | None = None
        self._present_ns = 0  # since when we have received without an interruption

    # -- switches and ports ----------------------------------------------------------------------------------

    def switch_up(self, dpid: int, name: str, ports: Iterable[Port], now_ns: int) -> None:
        """A switch has connected, or connected again, and these are all its ports."""
        known = self._switches.get(dpid)
        if known is None:
            taken = {state.name for state in self._switches.values()}
            unique = name if name and name not in taken else f"{dpid:016x}"
            self._switches[dpid] = known = _SwitchState(unique, now_ns)
            self._note("switch_up", "info", f"switch {unique} connected", switch=unique)
        present = {port.number: port for port in ports}
        for number in [number for number in known.ports if number not in present]:
            self.port_removed(PortRef(dpid, number))
        for port in present.values():
            self.port_changed(dpid, port, now_ns)
        self._settle(now_ns)

    def switch_down(self, dpid: int) -> None:
        """A switch has left: its links and hosts are gone; its neighbours' ports stay closed."""
        state = self._switches.get(dpid)
        if state is None:
            return
        for number in state.ports:
            self._forget_links(PortRef(dpid, number))
        del self._switches[dpid]
        self._forget_hosts(host for host in self._hosts.values() if host.at.dpid == dpid)
        self._note("switch_down", "warning", f"switch {state.name} left", switch=state.name)
        self.revision += 1

    def port_changed(self, dpid: int, port: Port, now_ns: int) -> None:
        """A port was added or changed (carrier, administrative state, speed)."""
        switch = self._switches.get(dpid)
        if switch is None:
            return
        ref = PortRef(dpid, port.number)
        state = switch.ports.get(port.number)
        if state is not None and state.port == port:
            return
        was_up = state is not None and state.port.up
        if state is None:
            switch.ports[port.number] = state = _PortState(port, now_ns)
        state.port = port
        if port.up and not was_up:
            state.up_ns, state.trunk = now_ns, False
            self._settle(now_ns)
        elif was_up and not port.up:
            state.trunk = False
            self._port_gone(ref)
        self.revision += 1

    def port_removed(self, ref: PortRef) -> None:
        """A port was deleted."""
        switch = self._switches.get(ref.dpid)
        if switch is not None and ref.number in switch.ports:
            self._port_gone(ref)
            del switch.ports[ref.number]
            self.revision += 1

    # -- links -----------------------------------------------------------------------------------------------

    def lldp_heard(self, source: PortRef, at: PortRef, now_ns: int) -> None:
        """LLDP that was sent from `source` came in by `at`.

        A port has one neighbour: while its LLDP comes, that of another port on the same segment is ignored.
        """
        sender, hearer = self._state(source), self._state(at)
        if sender is None or hearer is None or not (sender.port.up and hearer.port.up):
            return
        for ref, state in ((source, sender), (at, hearer)):
            if not state.trunk:
                state.trunk = True
                self._forget_hosts(host for host in self._hosts.values() if host.at == ref)
                self.revision += 1
        before = self._heard.get(at)
        if before is not None and before.source != source and now_ns - before.last_ns < self._silence_ns():
            return
        self._heard[at] = _Neighbour(source, now_ns)
        if before is None or before.source != source:
            self.revision += 1
            if self._is_link(source, at):
                self._note_link("link_up", "info", source, at)

    def frames_received(self, at: PortRef, rx_packets: int, now_ns: int) -> None:
        """The switch's counter of frames received by a port: growth is a sign of life of the link."""
        state = self._state(at)
        if state is not None and rx_packets != state.rx_packets:
            state.rx_packets, state.received_ns = rx_packets, now_ns

    def tick(self, now_ns: int) -> None:
        """Lets the ports and switches in whose probing is over, and ends the links that have fallen silent."""
        while self._settling and now_ns >= self._settling[0]:
            self._settling.popleft()
            self.revision += 1
        if self._tick_ns is None or now_ns - self._tick_ns > ABSENCE_NS:
            self._present_ns = now_ns
        self._tick_ns = now_ns
        silence_ns = self._silence_ns()
        for at, heard in list(self._heard.items()):
            state = self._state(at)
            received_ns = state.received_ns if state else 0
            if now_ns - max(heard.last_ns, received_ns, self._present_ns) >= silence_ns:
                self._note_link("link_silent", "warning", heard.source, at)
                del self._heard[at]
                self.revision += 1

    def probing(self, now_ns: int) -> list[PortRef]:
        """The ports by which to send LLDP now: ports that have come up without a known neighbour, and silent links.

        The framework sends LLDP from time to time; but when all ports are overdue, as after a second without a processor, it
        sleeps until something else happens (`lldp_loop` of Ryu 4.34 and os-ken 4).
        """
        silence_ns = self._silence_ns()
        unheard = {heard.source for heard in self._heard.values() if now_ns - heard.last_ns >= silence_ns // 2}

        def is_due(ref: PortRef, state: _PortState) -> bool:
            return ref in unheard or (not state.trunk and now_ns - state.up_ns < PROBE_NS)

        return [ref for ref, state in self._ports() if state.port.up and is_due(ref, state)]

    # -- hosts -----------------------------------------------------------------------------------------------

    def frame_seen(self, at: PortRef, mac: str, now_ns: int, address: str | None = None, control: bool = False) -> None:
        """A frame with this source MAC entered at `at`; `address`: its source by ARP or IPv4."""
        state = self._state(at)
        if state is None or not self._is_edge(state, now_ns) or int(mac[:2], 16) & 1:
            return
        host = self._hosts.get(mac)
        if host is None:
            if sum(1 for other in self._hosts.values() if other.at == at) >= MAX_HOSTS_PER_PORT:
                return
            host = Host(mac, at, moved_ns=now_ns)
            self._note("host_learned", "info", f"host {mac} at {self.port_name(at)}", mac=mac)
        elif host.at != at:
            if now_ns - host.moved_ns < MOVE_HOLD_NS:
                return
            text = f"host {mac} moved from {self.port_name(host.at)} to {self.port_name(at)}"
            self._note("host_moved", "info", text, mac=mac)
            host = replace(host, at=at, moved_ns=now_ns)
        if (
            address is not None
            and address != "0.0.0.0"
            and address not in host.addresses
            and len(host.addresses) < MAX_ADDRESSES_PER_HOST
        ):
            self._take_address(address)
            host = replace(host, addresses=(*host.addresses, address))
        if control and not host.speaks_control:
            host = replace(host, speaks_control=True)
        if self._hosts.get(mac) != host:
            self._hosts[mac] = host
            self.revision += 1

    def host_idle(self, at: PortRef, mac: str) -> None:
        """Forgets a host that has sent nothing for the ageing time, if it has not moved meanwhile."""
        host = self._hosts.get(mac)
        if host is not None and host.at == at:
            self._forget_hosts([host])

    # -- out -------------------------------------------------------------------------------------------------

    def view(self, now_ns: int) -> View:
        """The network as it is known now."""
        switches = {
            dpid: Switch(dpid, state.name, {number: port.port for number, port in state.ports.items()})
            for dpid, state in self._switches.items()
            if now_ns - state.since_ns >= PROBE_NS
        }
        links = sorted(
            Link(heard.source, at)
            for at, heard in self._heard.items()
            if heard.source < at
            and heard.source.dpid != at.dpid
            and {heard.source.dpid, at.dpid} <= switches.keys()
            and self._is_link(heard.source, at)
        )
        edges = frozenset(ref for ref, state in self._ports() if ref.dpid in switches and self._is_edge(state, now_ns))
        hosts = {mac: host for mac, host in self._hosts.items() if host.at in edges}
        return View(switches, tuple(links), edges, hosts)

    def settling(self, now_ns: int) -> bool:
        """Whether a switch is connected that does not take part yet."""
        return any(now_ns - switch.since_ns < PROBE_NS for switch in self._switches.values())

    def drain_notes(self) -> list[Note]:
        """What happened since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def switch_name(self, dpid: int) -> str:
        """The bridge's name, or the datapath id of an unknown switch."""
        switch = self._switches.get(dpid)
        return switch.name if switch else f"{dpid:016x}"

    def port_named(self, dpid: int, name: str) -> PortRef | None:
        """A switch's port by its name, or None."""
        switch = self._switches.get(dpid)
        numbers = [number for number, state in switch.ports.items() if state.port.name == name] if switch else []
        return PortRef(dpid, numbers[0]) if numbers else None

    def port_name(self, ref: PortRef) -> str:
        """`switch:port`, by name where known."""
        switch = self._switches.get(ref.dpid)
        if switch is None:
            return f"{ref.dpid:016x}:{ref.number}"
        state = switch.ports.get(ref.number)
        return f"{switch.name}:{state.port.name if state else ref.number}"

    # -- inside ----------------------------------------------------------------------------------------------

    def _state(self, ref: PortRef) -> _PortState | None:
        switch = self._switches.get(ref.dpid)
        return switch.ports.get(ref.number) if switch else None

    def _ports(self) -> Iterator[tuple[PortRef, _PortState]]:
        for dpid, switch in self._switches.items():
            for number, state in switch.ports.items():
                yield PortRef(dpid, number), state

    def _settle(self, now_ns: int) -> None:
        self._settling.append(now_ns + PROBE_NS)
        self.revision += 1

    def _silence_ns(self) -> int:
        ports = sum(len(switch.ports) for switch in self._switches.values())
        return max(LINK_SILENCE_NS, LINK_SILENCE_PER_PORT_NS * ports)

    @staticmethod
    def _is_edge(state: _PortState, now_ns: int) -> bool:
        return state.port.up and not state.trunk and now_ns - state.up_ns >= PROBE_NS

    def _is_link(self, one: PortRef, other: PortRef) -> bool:
        there, back = self._heard.get(other), self._heard.get(one)
        return there is not None and back is not None and there.source == one and back.source == other

    def _port_gone(self, ref: PortRef) -> None:
        self._forget_links(ref)
        self._forget_hosts(host for host in self._hosts.values() if host.at == ref)

    def _forget_links(self, ref: PortRef) -> None:
        for at, heard in list(self._heard.items()):
            if ref in (at, heard.source):
                if self._is_link(heard.source, at):
                    self._note_link("link_down", "warning", heard.source, at)
                del self._heard[at]
                self.revision += 1

    def _forget_hosts(self, hosts: Iterable[Host]) -> None:
        for host in list(hosts):
            del self._hosts[host.mac]
            self.revision += 1

    def _take_address(self, address: str) -> None:
        """Takes an address from the host that had it: it belongs to the host that used it last."""
        for mac, host in self._hosts.items():
            if address in host.addresses:
                kept = tuple(other for other in host.addresses if other != address)
                self._hosts[mac] = replace(host, addresses=kept)

    def _note(self, kind: str, severity: str, text: str, **fields: str) -> None:
        self._notes.append(Note(kind, severity, text, fields))

    def _note_link(self, kind: str, severity: str, one: PortRef, other: PortRef) -> None:
        a, b = sorted((self.port_name(one), self.port_name(other)))
        words = {"link_up": "is up", "link_down": "is down", "link_silent": "is silent: closed"}[kind]
        self._note(kind, severity, f"link {a} - {b} {words}", a=a, b=b)
