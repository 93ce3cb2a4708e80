"""The OpenFlow application: a thin shim between Ryu (or os-ken) and the pure core. Run it with
`ryu-manager controller/app.py`, or under os-ken with `baton up --framework os-ken`.

It decodes an event, tells `Discovery` or a meter, and one green thread makes the switches agree with what
`forwarding` wants. Settings come by environment:

* BATON_REDIS: URL of the store, e.g. unix:///run/baton/redis.sock.
* BATON_CONTROL_PORT: where the coordinator is plugged in, SWITCH:PORT, e.g. s1:s1-eth6. BATON_CONTROL_MAC:
  its address; without it, the one that the coordinator publishes with its status.
* BATON_CONTROLLER: the name of this controller among those that share the store; it commands switches while it leads, and, if
  BATON_STANDBY is not set, while nobody does.
* BATON_CONFIG: a file with `OpenFlowSettings` as JSON, as `baton up` writes it.

Without BATON_REDIS it starts what it needs beside it: see `controller/openflow/environment.py`.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections import deque
from typing import Any

from controller.election.controllers import Controllers
from controller.openflow import codec, framework, tls
from controller.openflow.discovery import Discovery, PortRef
from controller.openflow.environment import SiblingsFailed, attachment_from, ensure_siblings, settings_from
from controller.openflow.flowtable import Change, Table
from controller.openflow.forwarding import CLASSIFY, LEARN, LLDP_FLOW, ControlAttachment, tables, transition
from controller.openflow.learned import Fabrics, inherited_hosts
from controller.openflow.metering import PortMeter, RefusalMeter
from controller.openflow.publisher import Publisher
from controller.openflow.roles import Role, Roles
from controller.store.store import Store
from protocol.units import MILLISECOND_NS
from topology.problems import FabricError

fw = framework.load()
hub = fw.hub
MAIN, DEAD = fw.handler.MAIN_DISPATCHER, fw.handler.DEAD_DISPATCHER
on = fw.handler.set_ev_cls
Event = Any  # of a framework that has no types
of = fw.ofp_event

TICK_S = 0.05
PROBE_TICKS = 2
LOOK_TICKS = 20
BARRIER_S = 0.1
FOREIGN_NS = 3_000 * MILLISECOND_NS
"""How long the places of hosts that a controller before us put stay: without them everything is flooded until we have learned
ours. Its other flows, which would keep us from learning, go at once."""

_REQUIRED_APP = [f"{fw.root}.topology.switches"]
"""What the framework loads with this module: its discovery, which sends LLDP by every port."""


listen_as_configured = "BATON_CONFIG" in os.environ
try:
    ensure_siblings()
    SETTINGS = settings_from(os.environ)
    ATTACHMENT = attachment_from(os.environ)
    FABRICS = Fabrics.from_settings(SETTINGS)
except (SiblingsFailed, FabricError, ValueError, OSError) as failure:
    raise SystemExit(f"controller/app.py: {failure}") from None
if listen_as_configured:
    framework.listen_by_default(fw, SETTINGS.address, SETTINGS.port)
REFUSED: deque[str] = deque(maxlen=64)
"""What is to be told of switches that were not let in."""
if SETTINGS.tls is not None:
    try:
        tls.demand(fw, SETTINGS.tls, REFUSED.append)
    except tls.CertificateError as failure:
        raise SystemExit(f"controller/app.py: {failure}") from None


class Baton(fw.base):  # type: ignore[name-defined,misc]  # the base is known only when a framework runs
    """One instance in a process. Its green threads take turns, so the core needs no locks."""

    OFP_VERSIONS = (0x04,)  # OpenFlow 1.3

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.getLogger("baton.openflow")
        self.attachment = ATTACHMENT
        self.codec = codec.Codec(fw, generation=time.time_ns() // MILLISECOND_NS)
        self.discovery = Discovery()
        self.fabrics = FABRICS
        self.ports = PortMeter()
        self.refusals = RefusalMeter()
        url, name = os.environ.get("BATON_REDIS"), os.environ.get("BATON_CONTROLLER")
        store = Store(url) if url else None
        self.publisher = Publisher(store)
        self.roles = Roles(name if store else None, standby=bool(os.environ.get("BATON_STANDBY")))
        self.controllers = Controllers(store, name) if store and name else None
        self.standbys: tuple[ControlAttachment, ...] = ()
        self._datapaths: dict[int, Any] = {}
        self._installed: dict[int, Table] = {}
        self._suspect: set[int] = set()  # switches that may not hold what we think they do
        self._miscounted: set[int] = set()
        self._inherited: dict[str, Any] | None = None  # the fabric of the application before us, until it has been taken over
        self._foreign: dict[int, int] = {}  # when the rest of another's flows is to go (ns)
        self._barriers: set[tuple[int, int]] = set()
        self._barriers_done = hub.Event()
        self._wake = hub.Event()
        self._revision = 0

    def start(self) -> None:
        """Called by the framework when all its applications are made."""
        super().start()
        if self.controllers is not None:
            self._follow_leader(self.controllers, 1)
        for loop in (self._converge, self._keep_time, self._poll, self._publish):
            self.threads.append(hub.spawn(loop))

    # -- events from switches --------------------------------------------------------------------------------

    @on(of.EventOFPStateChange, [MAIN, DEAD])  # type: ignore[untyped-decorator]  # the framework has no types
    def switch_changed(self, event: Event) -> None:
        """A switch has finished its handshake, or its connection has ended."""
        datapath = event.datapath
        dpid = datapath.id
        if event.state == MAIN:
            self._datapaths[dpid] = datapath
            self._take_up(dpid)
        elif self._datapaths.get(dpid) is datapath:
            del self._datapaths[dpid]
            self.ports.forget(dpid)
            self.refusals.forget(dpid)
            self.roles.forget(dpid)
            self.discovery.switch_down(dpid)
        else:
            return
        self._suspect.add(dpid)
        self._wake.set()

    @on(of.EventOFPPortStatus, MAIN)  # type: ignore[untyped-decorator]  # as above
    def port_changed(self, event: Event) -> None:
        """A port came, went or changed."""
        message = event.msg
        datapath, described = message.datapath, message.desc
        if described.port_no > codec.EVERY_PORT_MAX:
            return
        if message.reason == datapath.ofproto.OFPPR_DELETE:
            self.discovery.port_removed(PortRef(datapath.id, described.port_no))
        else:
            port = codec.port(datapath, described)
            self.discovery.port_changed(datapath.id, port, time.monotonic_ns())
        self._wake_if_changed()

    @on(of.EventOFPPacketIn, MAIN)  # type: ignore[untyped-decorator]  # as above
    def frame_in(self, event: Event) -> None:
        """LLDP, or a frame whose source is to be learned."""
        dpid, now_ns = event.msg.datapath.id, time.monotonic_ns()
        match self.codec.frame(event.msg):
            case codec.Heard() as heard:
                source = PortRef(heard.source_dpid, heard.source_number)
                self.discovery.lldp_heard(source, PortRef(dpid, heard.number), now_ns)
            case codec.Seen() as seen:
                at = PortRef(dpid, seen.number)
                self.discovery.frame_seen(at, seen.mac, now_ns, seen.address, seen.control)
        self._wake_if_changed()

    @on(of.EventOFPFlowRemoved, MAIN)  # type: ignore[untyped-decorator]  # as above
    def flow_removed(self, event: Event) -> None:
        """A source has been idle for its ageing time."""
        message = event.msg
        if message.reason == message.datapath.ofproto.OFPRR_IDLE_TIMEOUT and message.table_id == LEARN:
            at = PortRef(message.datapath.id, message.match["in_port"])
            self.discovery.host_idle(at, message.match["eth_src"])
            self._wake_if_changed()

    @on(of.EventOFPPortStatsReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def ports_counted(self, event: Event) -> None:
        """Counters of all ports of a switch."""
        dpid, now_ns = event.msg.datapath.id, time.monotonic_ns()
        readings = list(codec.counters(event.msg))
        self.ports.read(dpid, readings)
        for reading in readings:
            self.discovery.frames_received(PortRef(dpid, reading.number), reading.rx_packets, now_ns)

    @on(of.EventOFPFlowStatsReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def refusals_counted(self, event: Event) -> None:
        """Counters of the rules that refuse."""
        dpid = event.msg.datapath.id
        for cause, count in self.refusals.read(dpid, codec.refusals(event.msg)).items():
            if cause in codec.WORTH_AN_EVENT:
                name = cause.name.lower()
                text = f"switch {self.discovery.switch_name(dpid)} dropped {count} frames: {name}"
                self.publisher.event(name, "warning", text, {"count": str(count)})

    @on(of.EventOFPAggregateStatsReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def flows_counted(self, event: Event) -> None:
        """How many flows a switch holds: when it is wrong twice, somebody else has changed them, and all
        are put again.
        """
        dpid = event.msg.datapath.id
        table = self._installed.get(dpid)
        if table is None or dpid in self._foreign or len(table.flows) == event.msg.body.flow_count:
            self._miscounted.discard(dpid)
        elif dpid not in self._miscounted:
            self._miscounted.add(dpid)
        else:
            self._miscounted.discard(dpid)
            name = self.discovery.switch_name(dpid)
            text = f"the flows of switch {name} were changed by another: put again"
            self.publisher.event("flows_restored", "warning", text, {"switch": name})
            self._suspect.add(dpid)
            self._wake.set()

    @on(of.EventOFPBarrierReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def barrier_passed(self, event: Event) -> None:
        """A switch has carried out all that was sent before."""
        self._barriers.discard((event.msg.datapath.id, event.msg.xid))
        if not self._barriers:
            self._barriers_done.set()

    @on(of.EventOFPErrorMsg, MAIN)  # type: ignore[untyped-decorator]  # as above
    def refused(self, event: Event) -> None:
        """A switch could not do what it was told."""
        if codec.is_stale(event.msg):
            self.roles.refused(event.msg.datapath.id)
            return
        if text := codec.error(event.msg):
            name = self.discovery.switch_name(event.msg.datapath.id)
            self.logger.error("switch %s refused: %s", name, text)
            self.publisher.event(
                "openflow_error", "error", f"switch {name} refused: {text}", {"switch": name}
            )

    @on(of.EventOFPRoleReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def role_confirmed(self, event: Event) -> None:
        """A switch has accepted a role."""
        dpid, claim = event.msg.datapath.id, codec.confirmed_role(event.msg)
        self.roles.replied(dpid, claim)
        if claim.role is Role.MASTER:
            name = codec.bridge_name(event.msg.datapath)
            self.publisher.event("role", "info", f"switch {name} obeys us in epoch {claim.generation}", {"switch": name})

    # -- green threads ---------------------------------------------------------------------------------------

    def _converge(self) -> None:
        """Makes the switches hold what the network as it stands asks for, again and again."""
        while self.is_active:
            self._wake.wait()
            self._wake.clear()
            try:
                self._converge_once()
            except Exception:  # whatever it was, the switches must be served again
                self.logger.exception("forwarding could not be computed")
                hub.sleep(1)
                self._wake.set()

    def _converge_once(self) -> None:
        self._revision = self.discovery.revision
        now_ns = time.monotonic_ns()
        view = self.discovery.view(now_ns)
        if self._inherited is not None and not self.discovery.settling(now_ns):
            for host in inherited_hosts(self._inherited, view):
                self.discovery.frame_seen(host.at, host.mac, now_ns, host.address, control=True)
            self._inherited, view = None, self.discovery.view(now_ns)
        for dpid in self._suspect:
            self._installed.pop(dpid, None)
        self._suspect.clear()
        learned = self.fabrics.learn(view)
        wanted = tables(view, learned.active, self.attachment, self.standbys)
        step = transition(self._installed, wanted, view)
        if step.close:
            for dpid, change in step.close.items():
                self._send(dpid, self._changes(dpid, change), barrier=True)
            self._wait_for_barriers()
        for dpid, change in step.open.items():
            messages = self._changes(dpid, change)
            if dpid not in self._installed and dpid in self._datapaths:
                for number in (CLASSIFY, LEARN):
                    messages += self.codec.remove_foreign(self._datapaths[dpid], number)
                self._foreign[dpid] = now_ns + FOREIGN_NS
            self._send(dpid, messages)
        self._installed = wanted
        for note in self.discovery.drain_notes():
            self.logger.info("%s", note.text)
            self.publisher.event(note.kind, note.severity, note.text, note.fields)
        if self.roles.acts and not self.discovery.settling(now_ns):  # half a fabric makes the coordinator forget the other half
            self.publisher.fabric(learned.document)

    def _keep_time(self) -> None:
        """Lets the core know the time, and probes ports that have come up."""
        ticks = 0
        while self.is_active:
            hub.sleep(TICK_S)
            ticks += 1
            now_ns = time.monotonic_ns()
            self.discovery.tick(now_ns)
            for dpid in [dpid for dpid, due_ns in self._foreign.items() if now_ns >= due_ns]:
                del self._foreign[dpid]
                if dpid in self._datapaths:
                    self._send(dpid, self.codec.remove_foreign(self._datapaths[dpid]))
            if ticks % PROBE_TICKS == 0:
                for at in self.discovery.probing(now_ns):
                    if at.dpid in self._datapaths:
                        self._send(at.dpid, self.codec.lldp(self._datapaths[at.dpid], at.number))
            self._wake_if_changed()

    def _poll(self) -> None:
        """Reads counters, and publishes what the last reading gave."""
        while self.is_active:
            hub.sleep(SETTINGS.poll_ns / 1e9)
            if not self.roles.acts:
                continue
            view = self.discovery.view(time.monotonic_ns())
            self.publisher.ports(self.fabrics.ports_document(view, self.ports.loads(), self.refusals.totals))
            for dpid, datapath in list(self._datapaths.items()):
                self._send(dpid, codec.polls(datapath))

    def _publish(self) -> None:
        """The only green thread that waits for the store; hears there where the coordinator is, if nobody
        has said.
        """
        ticks = 0
        while self.is_active:
            hub.sleep(TICK_S)
            ticks += 1
            if self.controllers is not None:
                self._follow_leader(self.controllers, ticks)
            while REFUSED:
                self.publisher.event("switch_refused", "warning", REFUSED.popleft(), {})
            self.publisher.flush()
            if self.attachment is not None and not os.environ.get("BATON_CONTROL_MAC"):
                mac = self.publisher.coordinator_mac(time.monotonic_ns())
                if mac is not None and mac != self.attachment.mac:
                    self.attachment = dataclasses.replace(self.attachment, mac=mac)
                    self.logger.info("the coordinator's address is %s", mac)
                    self._wake.set()

    # -- roles -----------------------------------------------------------------------------------------------

    def _follow_leader(self, controllers: Controllers, ticks: int) -> None:
        """Commands the switches while our coordinator leads, and lets other controllers' frames pass."""
        leader, acted = controllers.leader(), self.roles.acts
        if leader is not None and self.roles.leader(*leader):
            self.logger.info("%s leads in epoch %d", *leader)
            if self.roles.acts and not acted:
                # As after a start of its own: nothing is known of the switches, which go on forwarding as they did.
                self.codec = codec.Codec(fw, generation=time.time_ns() // MILLISECOND_NS)
                self._inherited = controllers.fabric()
            if self.roles.acts != acted:
                self.discovery, self._installed, self._foreign = Discovery(), {}, {}
                self._revision = -1
            for dpid in self._datapaths:
                self._take_up(dpid, known=acted)
            self._wake.set()
        if ticks % LOOK_TICKS == 1:
            others = controllers.others(time.monotonic_ns())
            standbys = tuple(ControlAttachment.parse(*place) for _, place in sorted(others.items()))
            if standbys != self.standbys:
                self.standbys = standbys
                self._wake.set()

    def _take_up(self, dpid: int, known: bool = False) -> None:
        """Claims our role at a switch and, if we are to command it, takes it into the network."""
        datapath = self._datapaths[dpid]
        if (claim := self.roles.due(dpid)) is not None:
            self._send(dpid, [codec.claim_role(datapath, claim)])
        if self.roles.acts and not known:
            self._suspect.add(dpid)
            self._send(dpid, self.codec.change(datapath, Change({}, (), (LLDP_FLOW,))))
            name, ports = codec.bridge_name(datapath), codec.ports(datapath)
            self.discovery.switch_up(dpid, name, ports, time.monotonic_ns())

    # -- inside ----------------------------------------------------------------------------------------------

    def _wake_if_changed(self) -> None:
        if self.discovery.revision != self._revision:
            self._wake.set()

    def _changes(self, dpid: int, change: Change) -> list[Any]:
        datapath = self._datapaths.get(dpid)
        return self.codec.change(datapath, change) if datapath is not None else []

    def _send(self, dpid: int, messages: list[Any], barrier: bool = False) -> None:
        datapath = self._datapaths.get(dpid)
        if datapath is None or not messages:
            return
        if barrier:
            messages = [*messages, codec.barrier(datapath)]
        buffer = codec.batch(datapath, messages)
        if barrier:
            self._barriers.add((dpid, messages[-1].xid))
        datapath.send(buffer)

    def _wait_for_barriers(self) -> None:
        """Until every switch has answered, or BARRIER_S: one that is stuck must not hold the others up."""
        self._barriers_done.clear()
        if self._barriers:
            self._barriers_done.wait(timeout=BARRIER_S)
        self._barriers.clear()
