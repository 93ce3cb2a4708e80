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

And these keep hosts from doing harm beyond their own port:

* LLDP is read by `controller.openflow.intake.lldp`: only what we sent lately counts. It closes the port by which it came in,
  never the port that it names: one closed end is enough against a loop. Any other LLDP at an edge is told and counted;
* between ports that the fabric file gives to hosts there is no link, whatever LLDP says: they are closed;
* a port that passes on more than its budget is *muted* for MUTE_NS: its frames are forwarded, but the controller gets none;
* hosts are learned by `controller.openflow.intake.hosts`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.openflow.intake.budget import Budget
from controller.openflow.intake.hosts import Host, Hosts, PortRef, Request
from controller.openflow.intake.lldp import FRESH_NS, Doubt
from controller.openflow.view import Link, Note, Port, Switch, View
from protocol.units import MILLISECOND_NS

PROBE_NS = 300 * MILLISECOND_NS
LINK_SILENCE_NS = FRESH_NS
LINK_SILENCE_PER_PORT_NS = 20 * MILLISECOND_NS  # LLDP is sent port by port: less often in a large fabric
LLDP_MISSED = 6  # in succession: the link is silent
ABSENCE_NS = 500 * MILLISECOND_NS  # between two ticks: this process was stopped, and has not read yet what came meanwhile
LLDP_NS = 500 * MILLISECOND_NS  # between two LLDP frames by the same port
ANNOUNCED_AT_ONCE = 256
FRAMES_PER_S, FRAMES_AT_ONCE = 100, 500  # of unknown sources by one port; a new host sends many before its flow is there
LLDP_PER_S, LLDP_AT_ONCE = 20, 40  # by one port; we send 10 a second at most
MUTE_NS = 5_000 * MILLISECOND_NS
CROWDED_PER_S, CROWDED_PER_PORT, CROWDED_AT_ONCE = 300, 3, 75
"""Three quarters of what a switch's meter lets pass (codec.METERED_PER_S): beyond this rate it may have dropped frames."""
TELL_AGAIN_NS = 60_000 * MILLISECOND_NS  # after which the same is told again of the same port


_DOUBTS = {
    Doubt.FOREIGN: ("info", "receives LLDP that is not Baton's: a host's, or another vendor's; ignored"),
    Doubt.FORGED: ("warning", "receives LLDP that names a switch, not sent by us: forged, or another controller's; ignored"),
    Doubt.OLD: ("warning", "receives LLDP of ours again that is too old; ignored"),
}
COUNTED = (
    *(f"lldp_{doubt.value}" for doubt in Doubt),
    *("ports_muted", "moves_refused", "moves_not_asked", "hosts_not_learnt"),
)
"""What `Discovery.counts` counts."""


@dataclass(slots=True)
class _PortState:
    port: Port
    up_ns: int
    trunk: bool = False
    rx_packets: int = 0
    received_ns: int = 0
    announced_ns: int | None = None
    frames: Budget = field(default_factory=lambda: Budget(FRAMES_PER_S, FRAMES_AT_ONCE))
    lldp: Budget = field(default_factory=lambda: Budget(LLDP_PER_S, LLDP_AT_ONCE))
    told_ns: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _SwitchState:
    name: str
    since_ns: int
    ports: dict[int, _PortState] = field(default_factory=dict)


class _Neighbour(NamedTuple):
    source: PortRef
    last_ns: int


class Discovery:
    """Collects events; `revision` grows whenever `view()` would differ, `counts` with what is refused."""

    def __init__(self, host_ports: Container[tuple[str, str]] = (), hosts_per_port: int = 128, lldp_ns: int = LLDP_NS) -> None:
        """`host_ports`: names of switches and ports that the fabric file gives to hosts. `lldp_ns`: how often each port sends
        LLDP."""
        self.revision = 0
        self.counts = Counter(dict.fromkeys(COUNTED, 0))
        self._host_ports = host_ports
        self._lldp_ns = lldp_ns
        self._switches: dict[int, _SwitchState] = {}
        self._heard: dict[PortRef, _Neighbour] = {}  # by the port that received
        self._hosts = Hosts(self.counts, self._told_of_hosts, self._host_moved, hosts_per_port)
        self._notes: list[Note] = []
        self._settling: deque[int] = deque()  # when each port or switch that came up will have been probed, in order
        self._tick_ns: int | None = None
        self._muted: dict[PortRef, int] = {}  # until when
        self._passing: dict[int, Budget] = {}  # by switch: frames that it may pass on before it is crowded
        self._read_ns: dict[int, int] = {}  # until when all is read that a switch has sent, where hosts are in question
        self._now_ns = 0
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
            self._port_gone(PortRef(dpid, number))
        del self._switches[dpid]
        self._read_ns.pop(dpid, None)
        self._passing.pop(dpid, None)
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
            state.up_ns, state.trunk, state.announced_ns = now_ns, False, None
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
        """LLDP that we sent from `source` came in by `at`.

        A port has one neighbour: while its LLDP comes, that of another port on the same segment is ignored.
        """
        sender, hearer = self._state(source), self._state(at)
        if sender is None or hearer is None or not (sender.port.up and hearer.port.up):
            return
        if source == at:
            self._tell(at, "lldp_reflected", "warning", "hears its own LLDP: a host or a loop sends it back; ignored", now_ns)
            return
        if not hearer.trunk:
            hearer.trunk = True
            self._hosts.gone(at)
            self.revision += 1
        for ref in (at, source):
            if (self.switch_name(ref.dpid), self._port(ref)) in self._host_ports:
                text = "is a host's in the fabric file, but a switch's LLDP passes there: closed; mend the file or the cable"
                self._tell(ref, "lldp_at_host", "warning", text, now_ns)
                return
        before = self._heard.get(at)
        if before is not None and before.source != source and now_ns - before.last_ns < self._silence_ns():
            return
        self._heard[at] = _Neighbour(source, now_ns)
        if before is None or before.source != source:
            self.revision += 1
            if self._is_link(source, at):
                self._note_link("link_up", "info", source, at)

    def lldp_doubted(self, at: PortRef, why: Doubt, now_ns: int) -> None:
        """LLDP that is not ours, or is old, came in by a port. It changes nothing; at a port open to hosts it is told."""
        state = self._state(at)
        if state is None or not self._is_edge(state, now_ns):
            return
        kind = f"lldp_{why.value}"
        self.counts[kind] += 1
        self._tell(at, kind, *_DOUBTS[why], now_ns)

    def admits(self, at: PortRef, lldp: bool, now_ns: int) -> bool:
        """Whether a frame that a switch passes on is read. A port beyond its budget is muted, but for a link's."""
        if not self._room_for(at.dpid).take(now_ns):
            self._hosts.crowded(at.dpid, now_ns)
        state = self._state(at)
        if state is None or at in self._muted:
            return False
        if (state.lldp if lldp else state.frames).take(now_ns):
            return True
        if self._hosts.loud(at, now_ns):  # it is we who have its frames copied, to ask who is there
            self.revision += 1
            return False
        if not state.trunk:
            self._muted[at] = now_ns + MUTE_NS
            self.counts["ports_muted"] += 1
            text = f"floods the controller: not listened to for {MUTE_NS // 10**9} s"
            self._tell(at, "port_muted", "warning", text, now_ns)
            self.revision += 1
        return False

    def _room_for(self, dpid: int) -> Budget:
        """The frames that a switch can pass on before its meter may drop some."""
        if dpid not in self._passing:
            ports = len(self._switches[dpid].ports) if dpid in self._switches else 0
            self._passing[dpid] = Budget(CROWDED_PER_S + CROWDED_PER_PORT * ports, CROWDED_AT_ONCE)
        return self._passing[dpid]

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
        for at in [at for at, until_ns in self._muted.items() if now_ns >= until_ns]:
            del self._muted[at]
            self.revision += 1
        self._now_ns = now_ns
        self.revision += self._hosts.tick(now_ns, self._present_ns, self._read_ns)

    def announcing(self, now_ns: int) -> list[PortRef]:
        """The ports by which LLDP is to be sent again; at most ANNOUNCED_AT_ONCE, those first that have waited longest."""
        due = [
            (state.announced_ns or 0, ref)
            for ref, state in self._ports()
            if state.port.up and (state.announced_ns is None or now_ns - state.announced_ns >= self._lldp_ns)
        ]
        refs = [ref for _, ref in sorted(due)[:ANNOUNCED_AT_ONCE]]
        for ref in refs:
            self._switches[ref.dpid].ports[ref.number].announced_ns = now_ns
        return refs

    def calm(self) -> bool:
        """Whether time alone changes nothing until LLDP is due: every port was probed, no link could fall silent, for there
        is none, no host is in question, and no port is muted."""
        return not (self._settling or self._heard or self._hosts.in_question or self._muted)

    def probing(self, now_ns: int) -> list[PortRef]:
        """The ports by which to send LLDP now: ports that have come up without a known neighbour, and silent links."""
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
        self._now_ns = now_ns
        is_new = mac not in self._hosts.by_mac
        if self._hosts.seen(at, mac, now_ns, address, control):
            self.revision += 1
        if is_new and mac in self._hosts.by_mac:
            self._note("host_learned", "info", f"host {mac} at {self.port_name(at)}", mac=mac)

    def host_inherited(self, at: PortRef, mac: str, address: str | None, now_ns: int) -> None:
        """An earlier application knew this host at this port."""
        state = self._state(at)
        if state is not None and self._is_edge(state, now_ns):
            self.revision += self._hosts.inherited(at, mac, address)

    def take_over(self, hosts: Iterable[Host], now_ns: int) -> None:
        """The hosts that the switches know since an earlier application."""
        for host in hosts:
            state = self._state(host.at)
            if state is not None and self._is_edge(state, now_ns):
                self.revision += self._hosts.taken_over(host, now_ns)

    def host_idle(self, at: PortRef, mac: str) -> None:
        """Forgets a host that has sent nothing for the ageing time, if it has not moved meanwhile."""
        self.revision += self._hosts.idle(at, mac)

    def requests(self, now_ns: int) -> list[Request]:
        """The ARP requests to send now: to hosts whose address was seen elsewhere."""
        return list(self._hosts.requests(now_ns))

    def in_question(self) -> set[int]:
        """The switches whose hosts are in question. `read_until` says how far these have been heard."""
        return self._hosts.asked_at()

    def read_until(self, dpid: int, sent_ns: int) -> None:
        """A switch's answer to a message of `sent_ns` has come: all that it sent before that has been read."""
        self._read_ns[dpid] = sent_ns

    def applied(self, seen_ns: int) -> None:
        """The switches were sent the tables for the view of `seen_ns`."""
        self._hosts.applied(seen_ns)

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
        hosts = {mac: host for mac, host in self._hosts.by_mac.items() if host.at in edges}
        return View(switches, tuple(links), edges, hosts, frozenset(ref for ref in self._muted if ref.dpid in switches))

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
        return max(LINK_SILENCE_NS, LINK_SILENCE_PER_PORT_NS * ports, LLDP_MISSED * self._lldp_ns)

    @staticmethod
    def _is_edge(state: _PortState, now_ns: int) -> bool:
        return state.port.up and not state.trunk and now_ns - state.up_ns >= PROBE_NS

    def _is_link(self, one: PortRef, other: PortRef) -> bool:
        there, back = self._heard.get(other), self._heard.get(one)
        return there is not None and back is not None and there.source == one and back.source == other

    def _port_gone(self, ref: PortRef) -> None:
        self._forget_links(ref)
        self._hosts.gone(ref)
        self._muted.pop(ref, None)

    def _forget_links(self, ref: PortRef) -> None:
        for at, heard in list(self._heard.items()):
            if ref in (at, heard.source):
                if self._is_link(heard.source, at):
                    self._note_link("link_down", "warning", heard.source, at)
                del self._heard[at]
                self.revision += 1

    def _port(self, ref: PortRef) -> str:
        state = self._state(ref)
        return state.port.name if state is not None else ""

    def _host_moved(self, host: Host, to: PortRef) -> None:
        text = f"host {host.mac} moved from {self.port_name(host.at)} to {self.port_name(to)}"
        self._note("host_moved", "info", text, mac=host.mac)

    def _told_of_hosts(self, kind: str, severity: str, at: PortRef, text: str) -> None:
        self._tell(at, kind, severity, text, self._now_ns)

    def _tell(self, at: PortRef, kind: str, severity: str, text: str, now_ns: int) -> None:
        """Notes what a port did, once in TELL_AGAIN_NS for each kind: a host must not fill the operator's log."""
        state = self._state(at)
        if state is None or (kind in state.told_ns and now_ns - state.told_ns[kind] < TELL_AGAIN_NS):
            return
        state.told_ns[kind] = now_ns
        self._note(kind, severity, f"port {self.port_name(at)} {text}", port=self.port_name(at))

    def _note(self, kind: str, severity: str, text: str, **fields: str) -> None:
        self._notes.append(Note(kind, severity, text, fields))

    def _note_link(self, kind: str, severity: str, one: PortRef, other: PortRef) -> None:
        a, b = sorted((self.port_name(one), self.port_name(other)))
        words = {"link_up": "is up", "link_down": "is down", "link_silent": "is silent: closed"}[kind]
        self._note(kind, severity, f"link {a} - {b} {words}", a=a, b=b)
