"""The connected switches and what each holds: brings every switch to the tables that forwarding wants. An edge: OpenFlow.

After it has connected, and after a change of leader, a switch is asked what it holds, and gets what differs from the wanted
table (controller/openflow/intake/takeover.py). One that can't tell, and one whose number of flows is wrong, is *suspect*: it
gets its whole table, of a new generation. Flows of other generations and programs are *foreign* there. Foreign flows that admit
frames, learn sources or go by them go with the new table; the others, which forward, stay for FOREIGN_NS more.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Container, Iterable, Iterator, Mapping

from controller.openflow import codec
from controller.openflow.connections import Connections
from controller.openflow.framework import Framework
from controller.openflow.intake.hosts import PortRef
from controller.openflow.intake.lldp import KEY_BYTES, Lldp
from controller.openflow.intake.takeover import Takeover, source_key
from controller.openflow.port_queues import PortQueues
from controller.openflow.tables.closing import Closing
from controller.openflow.tables.flowtable import Change, Table, pieces
from controller.openflow.tables.forwarding import CLASSIFY, FLOOD_GROUP, LEARN, LLDP_FLOW, ORIGIN
from controller.openflow.tables.shortfalls import Shortfalls
from controller.openflow.tables.transition import (
    Transition,
    perhaps_open,
    transition,
    without_new_links,
    without_new_root,
)
from controller.openflow.view import Port, View
from protocol.units import MILLISECOND_NS

BARRIER_S = 0.1
"""How long a change of the tree waits for the switches that close ports."""
PIECE = 64
"""How many flows are made into messages before the other green threads have a turn."""
FOREIGN_NS = 3_000 * MILLISECOND_NS
"""How long the flows towards hosts that another controller put stay: without them the switches flood every frame until we have
learned the hosts. Its other flows would keep us from learning, and go at once."""
DEAF_NS = 3_000 * MILLISECOND_NS
"""How long a switch may not read what it is to be sent before operators are told."""


class Switches:
    """The switches by datapath id, with what was sent to each. For green threads that take turns: it has no locks."""

    def __init__(self, framework: Framework, now_ns: int) -> None:
        self._framework = framework
        self.takeover = Takeover(now_ns)
        self._lldp = Lldp(secrets.token_bytes(KEY_BYTES))
        self._generation = 0
        self.codec = self._new_codec()
        self._codecs: dict[int, codec.Codec] = {}  # of switches that were suspect
        self.connections = Connections()
        self._installed: dict[int, Table] = {}
        self.queues = PortQueues()
        self.shortfalls = Shortfalls()
        self._suspect: set[int] = set()
        self._doubted: dict[int, Table] = {}  # what suspect switches were sent before, until they have their whole table
        self._foreign_until_ns: dict[int, int] = {}
        self._closing = Closing()
        self._holding: set[int] = set()  # the switches for which links stay closed, or a root may not send back
        self.held_back = False
        """Whether the last `converge` left links closed because of a switch that has not closed its ports yet."""
        self._behind: dict[int, int] = {}  # switches that did not read when they were to be sent a change, and since when
        self._deaf: set[int] = set()
        self._fences: dict[int, tuple[int, int]] = {}  # by switch: the number of a barrier, and when it was sent
        self._all_closed = framework.hub.Event()

    def connected(self, datapath: codec.Datapath) -> bool:
        """A switch has finished its handshake; True if it seemed to be connected already: its old connection ends now."""
        dpid = datapath.id
        old = self.connections.get(dpid)
        self.connections[dpid] = datapath
        if old is None:
            return False
        self._forget_answers(dpid)
        self.suspect(dpid)  # the old connection may still bring answers
        old.close()
        return True

    def disconnected(self, datapath: codec.Datapath) -> bool:
        """A connection has ended; False if the switch has another one by now."""
        dpid = datapath.id
        if self.connections.get(dpid) is not datapath:
            return False
        del self.connections[dpid]
        self.takeover.forget(dpid)
        self._forget_answers(dpid)
        return True

    def _forget_answers(self, dpid: int) -> None:
        """What a switch told by a connection that has ended, or still owed us there."""
        self._fences.pop(dpid, None)
        self._closing.forget(dpid)
        self._behind.pop(dpid, None)
        self._doubted.pop(dpid, None)
        self.queues.forget(dpid)
        self.shortfalls.forget(dpid)

    def suspect(self, dpid: int) -> None:
        """Has the next `converge` send this switch its whole table."""
        self._suspect.add(dpid)

    def forget_tables(self, now_ns: int) -> None:
        """After a change of leader: what the switches hold is not known. They go on forwarding with it."""
        self._installed, self._foreign_until_ns, self.takeover = {}, {}, Takeover(now_ns)
        self._closing.forget_all()
        self._behind.clear()
        self._doubted.clear()
        self.held_back, self._holding = False, set()

    def new_generation(self) -> None:
        """Counts all flows put so far as foreign, as after a start of the controller."""
        self.codec = self._new_codec()
        self._codecs.clear()

    def take_over(self, dpid: int) -> None:
        """Has a switch join the network (`joining`) when it has told what it holds."""
        if dpid in self._suspect:
            self.takeover.unread(dpid)
        else:
            self.takeover.connected(dpid)

    def joining(self, now_ns: int) -> list[int]:
        """Asks the switches that are to be asked now; returns those that join the network now."""
        for dpid in self.takeover.to_ask():
            if (datapath := self.connections.get(dpid)) is not None:
                *first, last = codec.table_requests(datapath)
                requests = [*first, codec.ask_queues(datapath), last]
                self.connections.send(dpid, requests)
                self.takeover.asked(dpid, [request.xid for request in (*first, last)], now_ns)
        return self.takeover.joining(now_ns)

    def told(self, message: codec.Message) -> bool:
        """Takes an answer to what `joining` asked; False if it is another's."""
        dpid = message.datapath.id
        if not self.takeover.answers(dpid, message.xid):
            return False
        if (reading := self.takeover.reading(dpid)) is not None:
            codec.tell(reading, message)
        return True

    def expired(self, at: PortRef, mac: str) -> None:
        """A switch has removed the entry of a host that was idle."""
        key = source_key(at.number, mac)
        self.takeover.expired(at.dpid, key)
        if (held := self._installed.get(at.dpid)) is not None and key in held.flows:  # `forwarding` may keep this table
            self._installed[at.dpid] = held.without(key)

    def describe(self, dpid: int) -> tuple[str, Iterator[Port]]:
        """The switch's name and its ports, for discovery; has the switch send us the LLDP frames that it receives, through a
        meter if it has any."""
        datapath, held = self.connections[dpid], self.takeover.held.get(dpid)
        if held is None:
            self.suspect(dpid)
        messages = codec.meter(datapath)
        if held is None or held.flows.get(LLDP_FLOW.key) != LLDP_FLOW:
            messages += self.codec.change(datapath, Change({}, (), (LLDP_FLOW,)))
        self.connections.send_or_end(dpid, messages)
        return codec.bridge_name(datapath), codec.ports(datapath)

    def send_lldp(self, ports: Iterable[PortRef], now_ns: int, seeking: Container[PortRef] = ()) -> None:
        """Sends LLDP out by these ports now, in one write for each switch, and what seeks loops by those that are `seeking`. A
        switch that does not read gets none: it must not delay the others."""
        by_switch: dict[int, set[int]] = {}
        for dpid, number in ports:
            by_switch.setdefault(dpid, set()).add(number)
        for dpid, numbers in by_switch.items():
            datapath = self.connections.get(dpid)
            if datapath is not None and codec.has_room(datapath):
                sent = [self.codec.lldp(datapath, number, now_ns) for number in sorted(numbers)]
                sought = sorted(number for number in numbers if PortRef(dpid, number) in seeking)
                sent += [self.codec.lldp(datapath, number, now_ns, seeks_loop=True) for number in sought]
                self.connections.send(dpid, sent)
                self._framework.hub.sleep(0)  # hundreds of switches take long

    def fence(self, dpids: Iterable[int], now_ns: int) -> None:
        """Sends each of these switches a barrier, unless it owes us one; `barrier_passed` hears of the answer."""
        for dpid in dpids:
            datapath = self.connections.get(dpid)
            if datapath is not None and dpid not in self._fences:
                barrier = codec.barrier(datapath)
                if self.connections.send(dpid, [barrier]):
                    self._fences[dpid] = barrier.xid, now_ns

    def poll(self) -> None:
        """Asks every switch for its counters, and for its queues if it has any. One that does not read gets no question: it
        must not delay the others."""
        for dpid, datapath in list(self.connections.items()):
            if not codec.has_room(datapath):
                continue
            queues = [codec.ask_queues(datapath)] if self.queues.asks(dpid) else []
            self.shortfalls.asked(dpid)
            self.connections.send(dpid, [*codec.polls(datapath), *queues])
            self._framework.hub.sleep(0)  # hundreds of switches take long

    def flows_counted(self, dpid: int, count: int, now_ns: int) -> bool:
        """How many flows a switch says that it holds. True if that is wrong (`Shortfalls.counted`): it is suspect now."""
        others = dpid in self._foreign_until_ns
        wrong = self.shortfalls.counted(dpid, count, now_ns, self._installed.get(dpid), others=others)
        if wrong:
            self.suspect(dpid)
        return wrong

    def barrier_passed(self, dpid: int, xid: int) -> int | None:
        """A switch has carried out all that was sent before this barrier; when it was sent, if it was a fence."""
        if dpid in self._fences and self._fences[dpid][0] == xid:
            return self._fences.pop(dpid)[1]
        self._closing.passed(dpid, xid)
        if not self._closing.awaits_answer:
            self._all_closed.set()
        return None

    def converge(self, wanted: dict[int, Table], view: View, now_ns: int) -> int:
        """Sends every switch what changes between the table that it holds and the wanted one, in the order of `transition`.
        Returns how many flows that are, and how many were taken over. While a switch has not closed what leaves the tree, no
        link joins it that might make a loop with that (`held_back`): the caller calls again when the switch has answered. One
        that does not read keeps what it holds: the caller calls again when it is `due`. A switch to which its table could not
        be sent is suspect; the error is raised when the others have theirs."""
        told = self.takeover.held.keys() & wanted.keys()
        taken = self.takeover.take(wanted, now_ns)
        self._suspect = (self._suspect - taken.keys()) | (told - taken.keys())
        self._installed.update(taken)
        wanted = self.takeover.keeping(wanted, now_ns)
        for dpid in self._suspect:
            if (before := self._installed.pop(dpid, None)) is not None:
                self._doubted[dpid] = before
            self._codecs[dpid] = self._new_codec()
            self.shortfalls.gets_all(dpid)
        self._suspect.clear()
        self._closing.linked(view.links)
        step = transition(self._installed, wanted, view)
        closing = step.close.values()
        self._close(step, now_ns)
        for dpid in (wanted.keys() & self.connections.keys()) - self._installed.keys():
            self._closing.cannot_tell(dpid, perhaps_open(dpid, wanted[dpid], view), now_ns)
        safe = self._safe(wanted, view)
        self.held_back = safe is not wanted
        if self.held_back:
            wanted = safe
            step = transition(self._installed, wanted, view)
        for dpid in [dpid for dpid in self._installed if dpid not in wanted]:
            del self._installed[dpid]
        failed: Exception | None = None
        for dpid, table in wanted.items():
            is_new, change = dpid not in self._installed, step.open.get(dpid)
            if not self.connections.has_room(dpid) and (is_new or change or dpid in step.close):
                self._behind.setdefault(dpid, now_ns)
                continue
            self._behind.pop(dpid, None)
            self._installed[dpid] = table
            self._doubted.pop(dpid, None)
            try:
                if change:
                    self._open(dpid, change, now_ns, is_new=is_new)
            except Exception as error:  # whatever it is, it concerns this switch alone
                self.suspect(dpid)
                failed = error
        if failed is not None:
            raise failed
        changed = sum(len(change.put) + len(change.remove) for change in (*closing, *step.open.values()))
        return changed + sum(len(table.flows) for table in taken.values())

    def _open(self, dpid: int, change: Change, now_ns: int, *, is_new: bool) -> None:
        """Sends a switch a change in one write; made in pieces, between which the other green threads have their turns.
        `is_new`: what the switch holds was not known."""
        datapath = self.connections.get(dpid)
        if datapath is None:
            return
        buffers = []
        for piece in pieces(change, PIECE):
            buffers.append(codec.batch(datapath, self._codec(dpid).change(datapath, piece)))
            self._framework.hub.sleep(0)
        if is_new:
            for number in (CLASSIFY, LEARN, ORIGIN):
                buffers.append(codec.batch(datapath, self._codec(dpid).remove_foreign(datapath, number)))
            self._foreign_until_ns[dpid] = now_ns + FOREIGN_NS
            barrier = codec.barrier(datapath)
            buffers.append(codec.batch(datapath, [barrier]))
        if self.connections.get(dpid) != datapath:  # it has connected again, and is suspect
            return
        if not codec.has_room(datapath):  # it has ceased to read meanwhile
            self.suspect(dpid)
            self._behind[dpid] = now_ns
            return
        self.shortfalls.changed(dpid)
        if is_new:
            self._closing.told(dpid, barrier.xid, frozenset(), now_ns, whole=True)
        datapath.send(b"".join(buffers))

    @property
    def awaiting(self) -> bool:
        """Whether `remove_foreign` or `joining` has anything to do sooner or later, or time alone changes tables."""
        waits = self._foreign_until_ns or self.held_back or self._behind or self.takeover.is_reading
        return bool(waits) or self.takeover.next_ns() is not None

    def due(self) -> bool:
        """Whether `converge` has a change for a switch that did not read, and does again."""
        return any(self.connections.has_room(dpid) for dpid in self._behind)

    def late(self, now_ns: int) -> list[int]:
        """Ends the connections of the switches for which the others wait, and that have not closed their ports in time. Returns
        them. When such a switch has left, its neighbours close its links; by its next connection it tells what it holds."""
        late = []
        for dpid in sorted(self._holding & self.connections.keys()):
            datapath = self.connections[dpid]
            if self._closing.is_late(dpid, now_ns, silent=codec.is_silent(datapath)):
                datapath.close()
                late.append(dpid)
        self._holding.difference_update(late)
        return late

    def deaf(self, now_ns: int) -> list[int]:
        """The switches that have not read for DEAF_NS, and so have not got a change; each once, as long as that lasts."""
        deaf = {dpid for dpid, since_ns in self._behind.items() if now_ns - since_ns >= DEAF_NS}
        new, self._deaf = sorted(deaf - self._deaf), deaf
        return new

    def remove_foreign(self, now_ns: int) -> None:
        """Removes the foreign flows that have stayed for FOREIGN_NS."""
        for dpid in [dpid for dpid, until_ns in self._foreign_until_ns.items() if now_ns >= until_ns]:
            datapath = self.connections.get(dpid)
            if datapath is None or self.connections.send(dpid, self._codec(dpid).remove_foreign(datapath)):
                del self._foreign_until_ns[dpid]

    def _close(self, step: Transition, now_ns: int) -> None:
        """Waits until every switch has closed its ports, or BARRIER_S: a switch that hangs must not delay the others."""
        for dpid in step.close.keys() | (self._closing.untold & self._installed.keys()):
            change, leaving = step.close.get(dpid), step.leaving.get(dpid, frozenset())
            if not self.connections.has_room(dpid):
                self._closing.cannot_tell(dpid, leaving, now_ns)
                continue
            if change is not None:
                self.shortfalls.changed(dpid)
                self._installed[dpid] = step.closed[dpid]
            if (datapath := self.connections.get(dpid)) is not None:
                barrier = codec.barrier(datapath)
                messages = [] if change is None else self._codec(dpid).change(datapath, change)
                buffer = codec.batch(datapath, [*messages, barrier])  # which numbers the barrier
                self._closing.told(dpid, barrier.xid, leaving, now_ns)
                datapath.send(buffer)
        self._all_closed.clear()
        if step.close and self._closing.awaits_answer:
            self._all_closed.wait(timeout=BARRIER_S)

    def _safe(self, wanted: dict[int, Table], view: View) -> dict[int, Table]:
        """The wanted tables without what might make a loop with ports that switches have not closed yet (`_holding`)."""

        def in_tree(ref: PortRef) -> bool:
            return ref.dpid in wanted and ref.number in wanted[ref.dpid].groups[FLOOD_GROUP]

        known = self._installed.keys() & self.connections.keys() & wanted.keys()
        links, root = self._closing.unclosed(in_tree, known.__contains__)
        before, safe, self._holding = self._doubted | self._installed, wanted, set()
        if links and _differ(less := without_new_links(before, safe, view), safe):
            safe, self._holding = less, links
        if root and _differ(less := without_new_root(before, safe), safe):
            safe, self._holding = less, self._holding | root
        return safe

    def _codec(self, dpid: int) -> codec.Codec:
        return self._codecs.get(dpid, self.codec)

    def _new_codec(self) -> codec.Codec:
        self._generation = max(self._generation + 1, time.time_ns() // MILLISECOND_NS)
        return codec.Codec(self._framework, self._generation, self._lldp)


def _differ(one: Mapping[int, Table], other: Mapping[int, Table]) -> bool:
    """Whether these tables of the same switches are not the very same."""
    return any(one[dpid] is not table for dpid, table in other.items())
