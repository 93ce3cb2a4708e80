"""The OpenFlow application, between Ryu (or os-ken) and the pure core. Run it with `ryu-manager controller/app.py`, or under
os-ken with `baton up --framework os-ken`.

It decodes each event and hands it to `Discovery`, a meter, `Roles` or `Switches`. A green thread computes the tables that
`forwarding` wants and has `Switches` install them; two others keep the time and poll counters; those of `StoreClient` and
`FabricDescription` publish. Settings come by environment; without BATON_REDIS it starts a supervisor, which starts the store
and the coordinator: see controller/openflow/environment.py.
"""

from __future__ import annotations

import functools
import gc
import logging
import os
import time
from collections import deque
from typing import Any

from controller.election.controllers import Controllers
from controller.openflow import codec, framework, tls
from controller.openflow.discovery import Discovery
from controller.openflow.environment import Environment, SupervisorFailed, ensure_supervisor
from controller.openflow.intake import frames, server
from controller.openflow.intake.complaints import Complaints, Drops
from controller.openflow.intake.hosts import PortRef
from controller.openflow.learned import FabricLearner, inherited_hosts
from controller.openflow.local_switches import LocalSwitches, wanted
from controller.openflow.metering import PortMeter, RefusalMeter
from controller.openflow.publication.description import FabricDescription
from controller.openflow.publication.store_client import StoreClient
from controller.openflow.roles import Role, Roles
from controller.openflow.switches import Switches
from controller.openflow.tables.forwarding import LEARN, Forwarding
from controller.processes.pulse import BEAT_NS, Pulse
from controller.store.store import Store
from controller.switch_queues.control_room import CONTROL_QUEUE
from protocol.timers import Mishaps
from topology.problems import FabricError

fw = framework.load()
hub = fw.hub
MAIN, DEAD = fw.handler.MAIN_DISPATCHER, fw.handler.DEAD_DISPATCHER
on = fw.handler.set_ev_cls
Event = Any  # of a framework that has no types
of = fw.ofp_event

TICK_S = 0.05
RETRY_S = 1.0
PROBE_TICKS, LOST_TICKS = 2, 20
POLL_PER_PORT_S = 0.0002
"""What a port adds to the polling period at least: the counters of thousands of ports take long to read."""
FROZEN_FLOWS = 1_000
"""After a change of so many flows, what is in memory is left out of garbage collection."""
GARBAGE = (10_000, 20, 100)
"""gc.set_threshold: garbage is looked for among so many new objects, and among all that is not frozen seldom."""
ANSWER_SHARE = 0.2
"""The share of the polling period that switches have to answer; what comes later is published a period later."""

listen_as_configured = "BATON_CONFIG" in os.environ
try:
    ensure_supervisor()
    ENVIRONMENT = Environment.read(os.environ)
    SETTINGS = ENVIRONMENT.settings
    FABRICS = FabricLearner.from_settings(SETTINGS)
except (SupervisorFailed, FabricError, ValueError, OSError) as failure:
    raise SystemExit(f"controller/app.py: {failure}") from None
framework.listen_by_default(fw, SETTINGS.address, SETTINGS.port if listen_as_configured else None)
framework.expect_answers(fw)
REFUSED: deque[tuple[str, str]] = deque(maxlen=64)
"""Kind and text of what was refused to connections, until they are published."""
INTAKE = server.Intake(lambda kind, text: REFUSED.append((kind, text)))
try:
    server.serve(fw, INTAKE, tls.demand(fw, SETTINGS.tls) if SETTINGS.tls is not None else None)
except (tls.CertificateError, server.NotProtected) as failure:
    raise SystemExit(f"controller/app.py: {failure}") from None


class Baton(fw.base):  # type: ignore[name-defined,misc]  # the base is known only when a framework runs
    """One instance a process. Its green threads take turns, so the core needs no locks."""

    OFP_VERSIONS = (0x04,)  # OpenFlow 1.3

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.getLogger("baton.openflow")
        self.switches = Switches(fw, time.monotonic_ns())
        self.local = LocalSwitches(ENVIRONMENT.control_first) if SETTINGS.control_first else None
        self.fabrics = FABRICS
        self.forwarding = Forwarding()
        self.discovery = self._new_discovery()
        self.ports = PortMeter()
        self.refusals = RefusalMeter()
        self.complaints = Complaints()
        self.drops = Drops()
        self.mishaps = Mishaps(self.logger.error, lambda: None)
        self._wake = hub.Event()
        store, name = Store(ENVIRONMENT.store) if ENVIRONMENT.store else None, ENVIRONMENT.controller
        self.roles = Roles(name if store else None, standby=ENVIRONMENT.standby)
        self.controllers = Controllers(store, name) if store and name else None
        self.store = StoreClient(
            hub, store, self.controllers, ENVIRONMENT.attachment, asks_address=ENVIRONMENT.asks_address,
            poll_ns=SETTINGS.poll_ns, refused=REFUSED, on_leader=self._follow_leader, on_change=self._wake.set,
        )  # fmt: skip
        self.publisher = self.store.publisher
        self.description = FabricDescription(hub, self.fabrics, self.publisher, lambda: self.roles.acts)
        self._inherited: dict[str, Any] | None = None  # the fabric of the application before us, until its hosts are taken over
        self._stirred = hub.Event()
        self._revision = 0

    def start(self) -> None:
        """The framework calls it when it has made all its applications."""
        super().start()
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        self.store.look()
        for loop in (self._converge, self._keep_time, self._poll, self._beat):
            self.threads.append(hub.spawn(loop))
        for publication in (self.description.run, self.store.run, self.store.listen):
            self.threads.append(hub.spawn(publication, lambda: self.is_active))

    # -- events from switches --------------------------------------------------------------------------------

    @on(of.EventOFPStateChange, [MAIN, DEAD])  # type: ignore[untyped-decorator]  # the framework has no types
    def switch_changed(self, event: Event) -> None:
        """A switch has finished its handshake, or its connection has ended."""
        datapath = event.datapath
        if event.state == MAIN:
            dpid, ends = datapath.id, f"{self.switches.connections.in_words(datapath.id)} and {codec.connection(datapath)}"
            if self.switches.connections.has_rival(datapath):
                text = f"{ends} both have datapath id {dpid:016x}: the second is turned away; give it an id of its own"
                self._warn(dpid, "datapath_id_twice", text)
                datapath.close()
                return
            if self.switches.connected(datapath):
                self.roles.forget(dpid)
                text = f"switch {dpid:016x} was connected already ({ends}): it did not end its connection, or two have this id"
                self._warn(dpid, "connected_anew", text)
            self._take_up(datapath.id)
        elif self.switches.disconnected(datapath):
            for part in (self.ports, self.refusals, self.complaints, self.drops, self.roles):
                part.forget(datapath.id)
            self.discovery.switch_down(datapath.id)
        else:
            return
        self._wake.set()
        self._stirred.set()

    def get_handlers(self, event: Event, state: str | None = None) -> Any:  # noqa: ANN401 -- the framework's
        """The framework asks it for each event: nothing takes what still comes by a connection that was replaced."""
        message = getattr(event, "msg", None)
        if message is not None and not self.switches.connections.serves(message.datapath):
            return []
        return super().get_handlers(event, state)

    @on(of.EventOFPPortStatus, MAIN)  # type: ignore[untyped-decorator]  # as above
    def port_changed(self, event: Event) -> None:
        """A port was added, deleted or changed."""
        message = event.msg
        datapath, described = message.datapath, message.desc
        if described.port_no > codec.EVERY_PORT_MAX:
            return
        if message.reason == datapath.ofproto.OFPPR_DELETE:
            at = PortRef(datapath.id, described.port_no)
            self.discovery.port_removed(at)
            self.ports.forget_port(at)
        else:
            port = codec.port(datapath, described)
            self.discovery.port_changed(datapath.id, port, time.monotonic_ns())
        self._wake_if_changed()

    @on(of.EventOFPPacketIn, MAIN)  # type: ignore[untyped-decorator]  # as above
    def frame_in(self, event: Event) -> None:
        """A switch passes on LLDP, or a frame whose source it does not know."""
        frames.take(self.discovery, self.switches.codec, event.msg.datapath.id, event.msg, time.monotonic_ns())
        self._wake_if_changed()

    @on(of.EventOFPFlowRemoved, MAIN)  # type: ignore[untyped-decorator]  # as above
    def flow_removed(self, event: Event) -> None:
        """A switch has removed the entry of a source that was idle for the ageing time."""
        message = event.msg
        if message.reason == message.datapath.ofproto.OFPRR_IDLE_TIMEOUT and message.table_id == LEARN:
            number, mac = message.match.get("in_port"), message.match.get("eth_src")
            if number is None or not isinstance(mac, str):  # of another program, or masked: none of a host
                return
            at = PortRef(message.datapath.id, number)
            self.switches.expired(at, mac)
            self.discovery.host_idle(at, mac)
            self._wake_if_changed()

    @on(of.EventOFPPortStatsReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def ports_counted(self, event: Event) -> None:
        """A switch answers with the counters of all its ports."""
        dpid, now_ns = event.msg.datapath.id, time.monotonic_ns()
        described = event.msg.datapath.ports
        readings = [reading for reading in codec.counters(event.msg) if reading.number in described]
        self.ports.read(dpid, readings)
        for reading in readings:
            self.discovery.frames_received(PortRef(dpid, reading.number), reading.rx_packets, now_ns)

    @on(of.EventOFPFlowStatsReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def refusals_counted(self, event: Event) -> None:
        """A switch answers with its entries, or with the counters of the rules that drop forged or misplaced frames."""
        if self.switches.told(event.msg):
            return
        dpid = event.msg.datapath.id
        counts = self.refusals.read(dpid, codec.refusals(event.msg), more=codec.has_more(event.msg))
        for cause, grown in counts.items():
            what = codec.WORTH_AN_EVENT.get(cause)
            if what is not None and (count := self.drops.dropped(dpid, cause, grown, time.monotonic_ns())):
                text = f"switch {self.discovery.switch_name(dpid)} dropped {count} {what}"
                self.publisher.event(cause.name.lower(), "warning", text, {"count": str(count)})

    @on(of.EventOFPGroupDescStatsReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def groups_told(self, event: Event) -> None:
        """A switch answers with its groups."""
        self.switches.told(event.msg)

    @on(of.EventOFPAggregateStatsReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def flows_counted(self, event: Event) -> None:
        """A switch answers with the number of its flows."""
        dpid = event.msg.datapath.id
        if self.switches.told(event.msg):
            self._join()
            return
        lacks = self.switches.shortfalls.lacks(dpid)
        if self.switches.flows_counted(dpid, event.msg.body.flow_count, time.monotonic_ns()):
            name = self.discovery.switch_name(dpid)
            why = "it had refused some" if lacks else "another has changed them"
            text = f"switch {name} has other flows than it should, {why}: put again"
            self.publisher.event("flows_restored", "warning", text, {"switch": name})
            self._wake.set()

    @on(of.EventOFPQueueGetConfigReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def queues_told(self, event: Event) -> None:
        """A switch answers with the queues of its ports."""
        if self.switches.queues.told(event.msg.datapath.id, codec.ports_with_queue(event.msg, CONTROL_QUEUE)):
            self._wake.set()

    @on(of.EventOFPBarrierReply, MAIN)  # type: ignore[untyped-decorator]  # as above
    def barrier_passed(self, event: Event) -> None:
        """A switch has carried out all messages before a barrier."""
        dpid = event.msg.datapath.id
        if (sent_ns := self.switches.barrier_passed(dpid, event.msg.xid)) is not None:
            self.discovery.read_until(dpid, sent_ns)
        elif self.switches.held_back:
            self._wake.set()

    @on(of.EventOFPErrorMsg, MAIN)  # type: ignore[untyped-decorator]  # as above
    def refused(self, event: Event) -> None:
        """A switch has refused a message."""
        if self.switches.told(event.msg):
            return
        if codec.is_stale(event.msg):
            self.roles.refused(event.msg.datapath.id)
            return
        if codec.refuses_queues(event.msg):
            self.switches.queues.has_none(event.msg.datapath.id)
            return
        if refusal := codec.refuses_meter(event.msg):
            if refusal is codec.Refusal.NO_METERS:
                self.logger.info("switch %s has no meters", self.discovery.switch_name(event.msg.datapath.id))
            return
        dpid = event.msg.datapath.id
        of_group = codec.refuses_group(event.msg)
        if of_group or codec.refuses_table(event.msg):
            self.switches.shortfalls.refused(dpid, time.monotonic_ns(), of_group=of_group)
        if said := codec.error(event.msg):
            name = self.discovery.switch_name(dpid)
            self._warn(dpid, "openflow_error", f"switch {name} refused: {said}", switch=name)

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
        """Installs new tables whenever the network has changed."""
        while self.is_active:
            self._wake.wait()
            self._wake.clear()
            with self.mishaps.surviving("installing tables", time.monotonic_ns()):
                try:
                    self._converge_once()
                except FabricError as error:  # the switches keep their tables until they tell something else
                    self.description.impossible(error)
                continue
            hub.sleep(RETRY_S)  # whatever went wrong, the switches must be served again
            self._wake.set()

    def _converge_once(self) -> None:
        discovery, self._revision = self.discovery, self.discovery.revision
        now_ns = time.monotonic_ns()
        view = self.discovery.view(now_ns)
        if self.switches.takeover.waits(view, now_ns, informed=self.store.informed):
            return
        if taken := self.switches.takeover.hosts(view):
            self.discovery.take_over(taken, now_ns)
            view = self.discovery.view(now_ns)
        if self._inherited is not None and not self.discovery.settling(now_ns):
            for host in inherited_hosts(self._inherited, view):
                self.discovery.host_inherited(host.at, host.mac, host.address, now_ns)
            self._inherited, view = None, self.discovery.view(now_ns)
        rest = functools.partial(hub.sleep, 0)
        rest()
        active = self.fabrics.active(view)
        queued = self.switches.queues.everywhere(view) if SETTINGS.control_first else frozenset()
        rest()
        wanted_tables = self.forwarding.tables(view, active, self.store.attachment, self.store.standbys, queued, rest)
        if self.discovery is not discovery:  # another leads by now
            return
        if self.switches.converge(wanted_tables, view, now_ns) >= FROZEN_FLOWS:
            # The collector would look through all tables again and again, 100 ms at a time. Nothing in them refers back.
            gc.collect(1)
            gc.freeze()
        self.discovery.applied(now_ns)
        if self.local is not None and self.roles.acts:
            coordinators = self.store.attachment, self.store.standbys
            self.local.tell(wanted(view, active, *coordinators, self.switches.connections.here(view)))
        if self.roles.acts and not self.discovery.settling(now_ns):  # half a fabric makes the coordinator forget the other half
            attachment = self.store.attachment
            self.description.describe(view, "" if attachment is None else attachment.fault(view))
        self._stirred.set()

    def _beat(self) -> None:
        """Tells the supervisor that green threads take turns."""
        pulse = Pulse()
        while self.is_active:
            pulse.beat(time.monotonic_ns())
            hub.sleep(BEAT_NS / 1e9)

    def _keep_time(self) -> None:
        """Tells the core the time, and probes ports that have come up, as long as time alone can change anything."""
        ticks = 0
        while self.is_active:
            hub.sleep(TICK_S)
            with self.mishaps.surviving("the clock's turn", time.monotonic_ns()):
                if self.local is None and self.discovery.calm() and not self.switches.awaiting:
                    self._stirred.clear()
                    self._stirred.wait(timeout=SETTINGS.lldp_ns / 1e9)
                    ticks = -1
                ticks += 1
                self._tick(ticks, time.monotonic_ns())

    def _tick(self, ticks: int, now_ns: int) -> None:
        self._join()
        due_ns = self.switches.takeover.next_ns()
        if (due_ns is not None and now_ns >= due_ns) or self.switches.due():
            self._wake.set()
        for dpid in self.switches.late(now_ns):
            name = self.discovery.switch_name(dpid)
            text = f"switch {name} has not said that it closed its ports, and others wait for that: its connection is ended"
            self._warn(dpid, "switch_late", text, switch=name)
        for dpid in self.switches.deaf(now_ns):
            name = self.discovery.switch_name(dpid)
            text = f"switch {name} does not read what it is sent: it keeps its table meanwhile, and the others go on"
            self._warn(dpid, "switch_deaf", text, switch=name)
        self.discovery.tick(now_ns)
        self._learn_strangers(now_ns)
        if self.local is not None and self.local.lost and ticks % LOST_TICKS == 0:
            self._wake.set()
        self.switches.remove_foreign(now_ns)
        if ticks % PROBE_TICKS == 0:
            due = [*self.discovery.probing(now_ns), *self.discovery.announcing(now_ns)]
            self.switches.send_lldp(due, now_ns, self.discovery.seeking_loops(due, now_ns))
        self.switches.connections.ask(self.discovery.requests(now_ns))
        self.switches.fence(self.discovery.in_question(), now_ns)
        for note in self.discovery.drain_notes():
            self.logger.info("%s", note.text)
            self.publisher.event(note.kind, note.severity, note.text, note.fields)
        self._wake_if_changed()

    def _learn_strangers(self, now_ns: int) -> None:
        """Learns the hosts that this machine's switches could not tell us about."""
        if self.local is None:
            return
        for dpid, port, address in self.local.strangers():
            if (at := self.discovery.port_named(int(dpid, 16), port)) is not None:
                self.discovery.frame_seen(at, address, now_ns, control=True)

    def _poll(self) -> None:
        """Asks for counters, and publishes them once the switches have had time to answer."""
        while self.is_active:
            every_s = max(SETTINGS.poll_ns / 1e9, POLL_PER_PORT_S * self.switches.connections.ports)
            hub.sleep(every_s * (1 - ANSWER_SHARE))
            if not self.roles.acts:
                continue
            with self.mishaps.surviving("reading counters", time.monotonic_ns()):
                self.switches.poll()
                hub.sleep(every_s * ANSWER_SHARE)
                view = self.discovery.view(time.monotonic_ns())
                refused = {**self.refusals.named(), **INTAKE.counts(), **self.discovery.counts}
                self.publisher.ports(framework.aside(self.fabrics.port_parts, view, self.ports.loads(), refused))

    # -- roles -----------------------------------------------------------------------------------------------

    def _follow_leader(self) -> None:
        """Commands the switches while our coordinator leads."""
        if self.controllers is None:
            return
        leader, acted = self.controllers.leader(), self.roles.acts
        if leader is not None and self.roles.leader(*leader):
            self.logger.info("%s leads in epoch %d", *leader)
            if self.roles.acts and not acted:
                self.switches.new_generation()
                self._inherited = self.controllers.fabric()
            if acted and not self.roles.acts:
                self.store.disown_documents()
            if self.roles.acts != acted:
                self.discovery, self._revision = self._new_discovery(), -1
                self.switches.forget_tables(time.monotonic_ns())
            for dpid in list(self.switches.connections):
                with self.mishaps.surviving("claiming a role", time.monotonic_ns()):  # the others must have theirs
                    self._take_up(dpid, known=acted)
            self._wake.set()
            self._stirred.set()

    def _new_discovery(self) -> Discovery:
        return Discovery(self.fabrics.host_ports, SETTINGS.hosts_per_port, SETTINGS.lldp_ns)

    def _take_up(self, dpid: int, known: bool = False) -> None:
        """Claims our role at a switch and, if we command it, adds it to the network. `known`: it has been added already."""
        if (claim := self.roles.due(dpid)) is not None:
            self.switches.connections.claim_role(dpid, claim)
        if self.roles.acts and not known:
            self.switches.take_over(dpid)
            self._join()

    def _join(self) -> None:
        """Adds to the network the switches that have told what they hold, and has others tell it."""
        now_ns = time.monotonic_ns()
        for dpid in self.switches.joining(now_ns):
            if dpid not in self.switches.takeover.held:
                self.logger.warning("switch %016x has not told what it holds: it gets its whole table", dpid)
            name, ports = self.switches.describe(dpid)
            self.discovery.switch_up(dpid, name, ports, now_ns)
        self._wake_if_changed()

    def _warn(self, dpid: int, kind: str, text: str, **fields: str) -> None:
        """Tells operators what is wrong with a switch; the same once a minute."""
        if told := self.complaints.heard(dpid, text, time.monotonic_ns()):
            self.logger.error("%s", told)
            self.publisher.event(kind, "error", told, fields)

    def _wake_if_changed(self) -> None:
        if self.discovery.revision != self._revision:
            self._wake.set()
            self._stirred.set()
