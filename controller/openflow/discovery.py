"""Discovers the network: switches, ports, links by LLDP, and hosts by their frames.

Pure: events and the time (`now_ns`, monotonic integer nanoseconds) go in, a frozen `View` comes out. These rules keep a fabric
with loops safe while it is only half known:

* a port is an *edge* (hosts may be there) only after it has been up for PROBE_NS and no LLDP of ours has come in by it: the
  listening state of IEEE 802.1D, made short by probing at once;
* a port that has received LLDP is a *trunk* until it goes down: when its neighbour falls silent or disconnects from the
  controller, the port is closed, not opened to hosts;
* a link (`controller.openflow.intake.neighbours`) ends at once with its port or its switch; otherwise when neither LLDP nor any
  other frame arrives (a congested link loses LLDP, too), though we sent LLDP again and again for half of that time, and this
  process was running to receive it;
* a switch takes part once its ports have been probed; until then it keeps the flow table it came with.

And these keep hosts from doing harm beyond their own port:

* LLDP is read by `controller.openflow.intake.lldp`: only what we sent lately counts. It closes the port by which it came in,
  never the port that it names: one closed end is enough against a loop. Any other LLDP at an edge is told and counted;
* a port that is open to hosts and receives what another such port has sent, by an address that bridges forward, is closed as
  long as it does, if it is the higher of the two: a host, or another's switch, bridges them, and broadcasts would go round. It
  stays open where nothing else joins the two switches: neither links, nor other such bridges;
* between ports that the fabric file gives to hosts there is no link, whatever LLDP says: they are closed;
* a port that passes on more than its budget is *muted* for a while (`controller.openflow.intake.frame_budgets`);
* hosts are learned by `controller.openflow.intake.hosts`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable

from controller.openflow.intake.bridges import Bridges
from controller.openflow.intake.frame_budgets import MUTE_NS, FrameBudgets
from controller.openflow.intake.hosts import Host, Hosts, PortRef, Request
from controller.openflow.intake.lldp import FRESH_NS, Doubt
from controller.openflow.intake.neighbours import Neighbours
from controller.openflow.intake.ports import PROBE_NS, ConnectedSwitches, PortState
from controller.openflow.view import Note, Port, Switch, View
from protocol.units import MILLISECOND_NS

LINK_SILENCE_NS = FRESH_NS
LINK_SILENCE_PER_PORT_NS = 20 * MILLISECOND_NS  # LLDP is sent port by port: less often in a large fabric
LLDP_MISSED = 6  # in succession: the link is silent
ABSENCE_NS = 500 * MILLISECOND_NS  # between two ticks: this process was stopped, and has not read yet what came meanwhile
LLDP_NS = 500 * MILLISECOND_NS  # between two LLDP frames by the same port
ANNOUNCED_AT_ONCE = 256
HOSTS_LONG_NS = 60_000 * MILLISECOND_NS  # a port that was open to hosts for so long is not expected to be a switch's
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


class Discovery:
    """Collects events; `revision` grows whenever `view()` would differ, `counts` with what is refused."""

    def __init__(self, host_ports: Container[tuple[str, str]] = (), hosts_per_port: int = 128, lldp_ns: int = LLDP_NS) -> None:
        """`host_ports`: names of switches and ports that the fabric file gives to hosts. `lldp_ns`: how often each port sends
        LLDP."""
        self.revision = 0
        self.counts = Counter(dict.fromkeys(COUNTED, 0))
        self._host_ports = host_ports
        self._lldp_ns = lldp_ns
        self._switches = ConnectedSwitches()
        self._neighbours = Neighbours()
        self._budgets = FrameBudgets()
        self._hosts = Hosts(self.counts, self._told_of_hosts, self._host_moved, hosts_per_port)
        self._notes: list[Note] = []
        self._bridges = Bridges(self._switches, self._neighbours)
        self._settling: deque[int] = deque()  # when each port or switch that came up will have been probed, in order
        self._tick_ns: int | None = None
        self._read_ns: dict[int, int] = {}  # until when all is read that a switch has sent, where hosts are in question
        self._now_ns = 0
        self._present_ns = 0  # since when we have received without an interruption

    # -- switches and ports ----------------------------------------------------------------------------------

    def switch_up(self, dpid: int, name: str, ports: Iterable[Port], now_ns: int) -> None:
        """A switch has connected, and these are all its ports. If it was connected already, its new connection came before the
        end of the old one was seen: its ports are probed anew, since nobody told what became of them meanwhile."""
        self.switch_down(dpid)
        known = self._switches.add(dpid, name, now_ns)
        self._note("switch_up", "info", f"switch {known.name} connected", switch=known.name)
        for port in ports:
            self.port_changed(dpid, port, now_ns)
        self._settle(now_ns)

    def switch_down(self, dpid: int) -> None:
        """A switch has left: its links and hosts are gone; its neighbours' ports stay closed."""
        state = self._switches.get(dpid)
        if state is None:
            return
        for number in state.ports:
            self._port_down(PortRef(dpid, number))
            self._budgets.forget_port(PortRef(dpid, number))
        del self._switches[dpid]
        self._read_ns.pop(dpid, None)
        self._budgets.forget_switch(dpid)
        self._note("switch_down", "warning", f"switch {state.name} left", switch=state.name)
        self.revision += 1

    def port_changed(self, dpid: int, port: Port, now_ns: int) -> None:
        """A port was added or changed (carrier, administrative state, speed)."""
        switch = self._switches.get(dpid)
        if switch is None:
            return
        ref, port = PortRef(dpid, port.number), switch.named(port)
        state = switch.ports.get(port.number)
        if state is not None and state.port == port:
            return
        was_up = state is not None and state.port.up
        if state is None:
            switch.ports[port.number] = state = PortState(port, now_ns)
        state.port = port
        if port.up and not was_up:
            state.up_ns, state.trunk, state.announced_ns = now_ns, False, None
            self._settle(now_ns)
        elif was_up and not port.up:
            state.trunk = False
            self._port_down(ref)
        self.revision += 1

    def port_removed(self, ref: PortRef) -> None:
        """A port was deleted."""
        switch = self._switches.get(ref.dpid)
        if switch is not None and ref.number in switch.ports:
            self._port_down(ref)
            self._budgets.forget_port(ref)
            switch.forget_name(ref.number)
            del switch.ports[ref.number]
            self.revision += 1

    # -- links -----------------------------------------------------------------------------------------------

    def lldp_heard(self, source: PortRef, at: PortRef, now_ns: int) -> None:
        """LLDP that we sent from `source` came in by `at`."""
        sender, hearer = self._switches.state(source), self._switches.state(at)
        if sender is None or hearer is None or not (sender.port.up and hearer.port.up):
            return
        if source == at:
            self._tell(at, "lldp_reflected", "warning", "hears its own LLDP: a host or a loop sends it back; ignored", now_ns)
            return
        if not hearer.trunk:
            if now_ns - hearer.up_ns >= HOSTS_LONG_NS and any(host.at == at for host in self._hosts.by_mac.values()):
                text = "had hosts, and receives a switch's LLDP: a switch is there now, or hosts pass LLDP to each other"
                self._tell(at, "link_at_hosts", "warning", text, now_ns)
            hearer.trunk = True
            self._hosts.gone(at)
            self.revision += 1
        for ref in (at, source):
            if (self.switch_name(ref.dpid), self._switches.port(ref)) in self._host_ports:
                text = "is a host's in the fabric file, but a switch's LLDP passes there: closed; mend the file or the cable"
                self._tell(ref, "lldp_at_host", "warning", text, now_ns)
                return
        if self._neighbours.hear(source, at, now_ns, self._silence_ns):
            self.revision += 1
            if self._neighbours.linked(source, at):
                self._note_link("link_up", "info", source, at)

    def loop_heard(self, source: PortRef, at: PortRef, now_ns: int) -> None:
        """What we sent from `source` to seek loops came in by `at`: a bridge of somebody's joins the two."""
        if self._bridges.heard(source, at, now_ns, self._silence_ns()):
            self._hosts.gone(at)
            self.revision += 1
            other = self._switches.port_name(source)
            text = f"is joined with {other} by a bridge that is none of ours: closed meanwhile"
            self._tell(at, "loop", "warning", text, now_ns)

    def seeking_loops(self, ports: Iterable[PortRef], now_ns: int) -> set[PortRef]:
        """Those of the ports by which LLDP is sent now by which a loop is to be sought, too."""
        return self._bridges.seeking(ports, now_ns)

    def lldp_doubted(self, at: PortRef, why: Doubt, now_ns: int) -> None:
        """LLDP that is not ours, or is old, came in by a port. It changes nothing; at a port open to hosts it is told."""
        state = self._switches.state(at)
        if state is None or not self._is_edge(state, now_ns):
            return
        kind = f"lldp_{why.value}"
        self.counts[kind] += 1
        self._tell(at, kind, *_DOUBTS[why], now_ns)

    def admits(self, at: PortRef, lldp: bool, now_ns: int) -> bool:
        """Whether a frame that a switch passes on is read. A port beyond its budget is muted, but for a link's."""
        switch, state = self._switches.get(at.dpid), self._switches.state(at)
        if switch is None:  # its frames count once its ports are known
            return False
        if not self._budgets.switch_has_room(at.dpid, len(switch.ports), now_ns):
            self._hosts.crowded(at.dpid, now_ns)
        if state is None or self._budgets.is_muted(at, lldp):
            return False
        if self._budgets.port_has_room(at, lldp, now_ns):
            return True
        if self._hosts.loud(at, now_ns):  # it is we who have its frames copied, to ask who is there
            self.revision += 1
            return False
        if not state.trunk:
            self._budgets.mute(at, lldp, now_ns)
            self.counts["ports_muted"] += 1
            text = f"floods the controller: not listened to for {MUTE_NS // 10**9} s"
            self._tell(at, "port_muted", "warning", text, now_ns)
            self.revision += 1
        return False

    def frames_received(self, at: PortRef, rx_packets: int, now_ns: int) -> None:
        """The switch's counter of frames received by a port: growth is a sign of life of the link."""
        state = self._switches.state(at)
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
        for heard in self._neighbours.drop_silent(now_ns - self._silence_ns(), self._alive_ns):
            self._note_link("link_silent", "warning", heard.source, heard.at)
            self.revision += 1
        self.revision += self._budgets.unmute_due(now_ns)
        self.revision += self._bridges.tick(now_ns)
        self._now_ns = now_ns
        self.revision += self._hosts.tick(now_ns, self._present_ns, self._read_ns)

    def announcing(self, now_ns: int) -> list[PortRef]:
        """The ports by which LLDP is to be sent again; at most ANNOUNCED_AT_ONCE, those first that have waited longest."""
        due = [
            (state.announced_ns or 0, ref)
            for ref, state in self._switches.ports()
            if state.port.up and (state.announced_ns is None or now_ns - state.announced_ns >= self._lldp_ns)
        ]
        refs = [ref for _, ref in sorted(due)[:ANNOUNCED_AT_ONCE]]
        for ref in refs:
            self._switches[ref.dpid].ports[ref.number].announced_ns = now_ns
        return refs

    def calm(self) -> bool:
        """Whether time alone changes nothing until LLDP is due: every port was probed, no link could fall silent, for there
        is none, no host is in question, and no port is muted."""
        budgets = self._budgets
        return not (
            self._settling or self._neighbours or self._hosts.in_question or budgets.muted or budgets.deaf or self._bridges
        )

    def probing(self, now_ns: int) -> list[PortRef]:
        """The ports by which to send LLDP now: ports that have come up without a known neighbour, and silent links."""
        unheard = self._neighbours.unheard(now_ns - self._silence_ns() // 2)

        def is_due(ref: PortRef, state: PortState) -> bool:
            return ref in unheard or (not state.trunk and now_ns - state.up_ns < PROBE_NS)

        return [ref for ref, state in self._switches.ports() if state.port.up and is_due(ref, state)]

    # -- hosts -----------------------------------------------------------------------------------------------

    def frame_seen(
        self, at: PortRef, mac: str, now_ns: int, address: str | None = None, control: bool = False, *, claims: bool = True
    ) -> None:
        """A frame with this source MAC entered at `at`; `address`: its source by ARP or IPv4. Only a frame that `claims` it
        takes it from another host."""
        state = self._switches.state(at)
        if state is None or not self._is_edge(state, now_ns) or int(mac[:2], 16) & 1:
            return
        self._now_ns = now_ns
        is_new = mac not in self._hosts.by_mac
        if self._hosts.seen(at, mac, now_ns, address, control, claims=claims):
            self.revision += 1
        if is_new and mac in self._hosts.by_mac:
            self._note("host_learned", "info", f"host {mac} at {self._switches.port_name(at)}", mac=mac)

    def host_inherited(self, at: PortRef, mac: str, address: str | None, now_ns: int) -> None:
        """An earlier application knew this host at this port."""
        state = self._switches.state(at)
        if state is not None and self._is_edge(state, now_ns):
            self.revision += self._hosts.inherited(at, mac, address)

    def take_over(self, hosts: Iterable[Host], now_ns: int) -> None:
        """The hosts that the switches know since an earlier application."""
        for host in hosts:
            state = self._switches.state(host.at)
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
        links = sorted(link for link in self._neighbours.links() if {link.a.dpid, link.b.dpid} <= switches.keys())
        edges = frozenset(ref for ref, state in self._switches.ports() if ref.dpid in switches and self._is_edge(state, now_ns))
        hosts = {mac: host for mac, host in self._hosts.by_mac.items() if host.at in edges}
        muted, deaf = (
            frozenset(ref for ref in table if ref.dpid in switches) for table in (self._budgets.muted, self._budgets.deaf)
        )
        return View(switches, tuple(links), edges, hosts, muted, deaf)

    def settling(self, now_ns: int) -> bool:
        """Whether a switch is connected that does not take part yet."""
        return any(now_ns - switch.since_ns < PROBE_NS for switch in self._switches.values())

    def drain_notes(self) -> list[Note]:
        """What happened since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def switch_name(self, dpid: int) -> str:
        """The bridge's name, or the datapath id of an unknown switch."""
        return self._switches.name(dpid)

    def port_named(self, dpid: int, name: str) -> PortRef | None:
        """A switch's port by its name, or None."""
        return self._switches.port_named(dpid, name)

    # -- inside ----------------------------------------------------------------------------------------------

    def _settle(self, now_ns: int) -> None:
        self._settling.append(now_ns + PROBE_NS)
        self.revision += 1

    def _silence_ns(self) -> int:
        ports = self._switches.port_count()
        return max(LINK_SILENCE_NS, LINK_SILENCE_PER_PORT_NS * ports, LLDP_MISSED * self._lldp_ns)

    @staticmethod
    def _is_edge(state: PortState, now_ns: int) -> bool:
        return state.port.up and not state.trunk and now_ns - state.up_ns >= PROBE_NS and now_ns >= state.loop_until_ns

    def _alive_ns(self, ref: PortRef) -> int:
        """When a port received something that was counted, or we began to listen, if that is later."""
        state = self._switches.state(ref)
        return max(state.received_ns if state else 0, self._present_ns)

    def _port_down(self, ref: PortRef) -> None:
        for heard in self._neighbours.drop(ref):
            if heard.linked:
                self._note_link("link_down", "warning", heard.source, heard.at)
            self.revision += 1
        self._bridges.port_down(ref)
        self._hosts.gone(ref)
        self._budgets.port_down(ref)

    def _host_moved(self, host: Host, to: PortRef) -> None:
        text = f"host {host.mac} moved from {self._switches.port_name(host.at)} to {self._switches.port_name(to)}"
        self._note("host_moved", "info", text, mac=host.mac)

    def _told_of_hosts(self, kind: str, severity: str, at: PortRef, text: str) -> None:
        self._tell(at, kind, severity, text, self._now_ns)

    def _tell(self, at: PortRef, kind: str, severity: str, text: str, now_ns: int) -> None:
        """Notes what a port did, once in TELL_AGAIN_NS for each kind: a host must not fill the operator's log."""
        state = self._switches.state(at)
        if state is None or (kind in state.told_ns and now_ns - state.told_ns[kind] < TELL_AGAIN_NS):
            return
        state.told_ns[kind] = now_ns
        self._note(kind, severity, f"port {self._switches.port_name(at)} {text}", port=self._switches.port_name(at))

    def _note(self, kind: str, severity: str, text: str, **fields: str) -> None:
        self._notes.append(Note(kind, severity, text, fields))

    def _note_link(self, kind: str, severity: str, one: PortRef, other: PortRef) -> None:
        a, b = sorted((self._switches.port_name(one), self._switches.port_name(other)))
        words = {"link_up": "is up", "link_down": "is down", "link_silent": "is silent: closed"}[kind]
        self._note(kind, severity, f"link {a} - {b} {words}", a=a, b=b)
