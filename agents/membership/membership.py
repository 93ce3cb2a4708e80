"""An agent's membership in the fabric: it registers, follows its leader, and opens every gate when the leader falls silent.

Decides by the table in `lifecycle`; times are arguments. Messages go to `send`, decisions about gates to the gatekeeper and the
rules.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Container, Mapping
from contextlib import ExitStack, suppress

from agents.config import AgentConfig
from agents.kernel.netlink import NetlinkError
from agents.loop.part import Handler
from agents.loop.parts import Parts
from agents.membership.answers import LOOK_NS, MEMBER_NS, QUESTIONS, REGISTERS_NS, Answers, Need, Unanswered
from agents.membership.heartbeat_monitor import HeartbeatMonitor
from agents.membership.lifecycle import Event, Lifecycle, State
from agents.permission.gatekeeper import Gatekeeper
from agents.permission.regulated import GroupsCopy
from agents.permission.rules import Rules
from agents.queues.classifier import Address
from agents.queues.directory import DirectoryCopy
from agents.queues.host import Host
from protocol.bodies.groups import FIRST_VERSION, GroupsChange, GroupsRequest
from protocol.bodies.registration import REGISTER
from protocol.bodies.versions import SPOKEN, Versions
from protocol.messages import (
    Directory,
    DirectoryChange,
    DirectoryRequest,
    Error,
    ErrorCode,
    GateKind,
    Heartbeat,
    Leave,
    Message,
    Override,
    Ping,
    Register,
    Regulate,
    Welcome,
)
from protocol.paging import Reassembler
from protocol.units import SECOND_NS
from protocol.wire import BODY_MAX

log = logging.getLogger("baton.agent")

VERSION = "0.1.0"
REGISTER_RETRY_NS, MOST_RETRY_NS = 50_000_000, 1_600_000_000
"""How long to wait for the answer to a REGISTER: at first, and at most. The time doubles with each try, and up to half of it is
left out at random: else all hosts of a fabric would ask a leader that can't keep up at the same moments."""
ASK_NS, MOST_ASK_NS = 100_000_000, 3_200_000_000
"""How long, and up to twice as long, to wait for a change of the directory before asking for the whole; then doubled, up to the
second."""
COMPLAINT_NS = 60 * SECOND_NS
"""For how long what the coordinator says is not logged again."""
FIRST_FAIL_OPEN_NS = 10 * SECOND_NS
"""How long a leader may be silent that has not told this yet: nothing is held back for it, and it may speak seldom."""
OPENING_NS = 5_000_000
"""What waking up and opening every gate may take: begun so long before `fail_open` is over."""


class Membership:
    """Where one agent stands towards its coordinator. Times are ns of this host's monotonic clock.

    Args:
        parts: told of a new leader, and when everything that was held shut opens.
        send: sends a message to the leader.
        agree: called with the version of the wire that a WELCOME has chosen.
        spoken: the versions that this agent speaks.
        chance: a random number from 0 to 1.
    """

    def __init__(
        self,
        config: AgentConfig,
        host: Host,
        keeper: Gatekeeper,
        rules: Rules,
        parts: Parts,
        send: Callable[[Message], None],
        agree: Callable[[int], None],
        spoken: Versions = SPOKEN,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._config = config
        self._host = host
        self._keeper = keeper
        self._rules = rules
        self._parts = parts
        self._send = send
        self._agree = agree
        self._spoken = spoken
        self._lifecycle = Lifecycle()
        self.heartbeats = HeartbeatMonitor()
        self.node = 0
        """Our number in the fabric; 0 before the first WELCOME."""
        self.nodes: Container[int] = frozenset()
        """The destination nodes that there are, as the directory says."""
        self.wire = 0
        """The version of the wire that the leader of this epoch chose in its last WELCOME; 0: none yet."""
        self.override = Override.COORDINATE
        self._epoch = 0
        self.fail_open_ns = FIRST_FAIL_OPEN_NS
        self._addresses: tuple[Address, ...] = config.addresses
        self._unanswered = False
        """Whether the leader has not answered yet to changed addresses."""
        self._nonce = time.time_ns()
        self._register_ns = 0
        self._retry_ns = REGISTER_RETRY_NS
        self._chance = chance
        self.answers = Answers()
        self._no_answer = Unanswered()
        self._look_ns = 0
        self._directory = DirectoryCopy()
        self._ask_ns: int | None = None
        """When to ask for the directory, since a heartbeat named another version; None: ours is that of the last heartbeat."""
        self._ask_after_ns = ASK_NS
        self._groups = GroupsCopy()
        self._ask_groups_ns: int | None = None
        """When to ask for the groups; None: ours are those of the last heartbeat, or the leader knows none."""
        self._groups_tries = 0
        self._told_groups_ns = 0
        """When we said last that we know groups, though the leader told us our destinations."""
        self._complaint: tuple[Error, int] | None = None
        """What the coordinator said last, and when we logged it; None: nothing since we became a member."""
        self._regulate: Reassembler[Regulate] = Reassembler()
        self._regulate_version = -1
        self.handlers: Mapping[type, Handler] = {
            Heartbeat: self._on_heartbeat,
            Welcome: self._on_welcome,
            Directory: self._on_directory,
            DirectoryChange: self._on_directory_change,
            Regulate: self._on_regulate,
            GroupsChange: self._on_groups,
        }
        """By type of message, of the leader's and verified."""

    @property
    def state(self) -> State:
        """The state of the agent's life."""
        return self._lifecycle.state

    @property
    def member(self) -> bool:
        """Whether the leader has welcomed us and has not fallen silent since."""
        return self._lifecycle.state is State.MEMBER

    @property
    def question_ns(self) -> int:
        """After how long without an answer this agent asks its leader for one, while it holds packets back."""
        return self.fail_open_ns // QUESTIONS

    # -- time -----------------------------------------------------------------------------------------------------------

    def next_due_ns(self, *, leader: bool = True) -> int | None:
        """When to read waiting heartbeats and call `advance` at the latest; None: nothing is due by itself.

        `leader`: false for who keeps in mind himself when the leader must be heard, or asked.
        """
        if not leader:
            return self._register_ns if self._awaits_welcome else None
        if not self._watching:
            return None
        due_ns = min(self.heartbeats.last_heartbeat_ns + self.fail_open_ns, self.heartbeats.latest_ns())
        if self.answers.due_ns is not None:
            due_ns = min(due_ns, self.answers.due_ns)
        return min(due_ns, self._register_ns) if self._awaits_welcome else due_ns

    def silent(self, now_ns: int) -> bool:
        """Whether the leader has been silent for so long that the gates must open; read waiting heartbeats before `advance`."""
        return self._watching and now_ns - self.heartbeats.last_heartbeat_ns >= self.fail_open_ns

    def advance(self, now_ns: int) -> None:
        """Opens every gate if the leader has fallen silent or does not answer, and registers again if no answer came."""
        if self.silent(now_ns):
            member = self.member
            self._lifecycle.on(Event.SILENCE)
            if member:
                self._release(now_ns)
                log.warning("nothing heard from the leader: every gate is open")
        self._tell_of_answers(now_ns)
        if now_ns >= self._look_ns:
            self._look_for_answers(now_ns)
        if now_ns >= self._register_ns:
            self._register(now_ns)

    def _tell_of_answers(self, now_ns: int) -> None:
        """Logs what a host sees whose key was revoked: the leader tells it nothing, not even that."""
        heard, answered_ns = self._watching and not self.silent(now_ns), self.heartbeats.last_answer_ns
        found = self._no_answer.look(now_ns, heard=heard, member=self.member, answered_ns=answered_ns)
        name = self._config.name
        if found is False:
            log.info("the leader answers %s again", name)
        elif found:
            log.warning(
                "the leader is heard, and has not answered %s for %d s: the key of this host was revoked, or its frames do not "
                "reach the leader; see `baton host list` at the controller, and if the key is revoked, enroll the host anew "
                "(`baton host enroll %s`)",
                name, (MEMBER_NS if self.member else REGISTERS_NS) // SECOND_NS, name,
            )  # fmt: skip

    def _look_for_answers(self, now_ns: int) -> None:
        holds = self.member and (self._keeper.holds() or self._rules.holds())
        answered_ns = self.heartbeats.last_answer_ns
        need = self.answers.look(now_ns, holds=holds, answered_ns=answered_ns, fail_open_ns=self.fail_open_ns)
        due_ns = self.answers.due_ns
        self._look_ns = now_ns + LOOK_NS if due_ns is None else due_ns
        if need is Need.ASK:
            self._send(Ping(0))
        elif need is Need.OPEN:
            self._lifecycle.on(Event.UNKNOWN)
            self._release(now_ns)
            log.warning("the leader is heard and does not answer: every gate is open; see that frames pass both ways")
            self._retry_ns = REGISTER_RETRY_NS
            self._register(now_ns)

    @property
    def _awaits_welcome(self) -> bool:
        return self.state is State.REGISTERING or (self._unanswered and self.member)

    @property
    def _watching(self) -> bool:
        return self._lifecycle.state in (State.MEMBER, State.REGISTERING)

    # -- registration ---------------------------------------------------------------------------------------------------

    def _register(self, now_ns: int) -> None:
        if not self._awaits_welcome:
            return
        self._register_ns = now_ns + int(self._retry_ns * (1 - self._chance() / 2))
        self._retry_ns = min(2 * self._retry_ns, MOST_RETRY_NS)
        self._announce()

    def try_again(self, now_ns: int) -> None:
        """Has a registration that was not answered tried again at once."""
        self._register_ns = min(self._register_ns, now_ns)

    def _announce(self) -> None:
        # The same nonce in every try: on a crowded fabric the answer to one may come after the next was sent.
        self._send(
            Register(
                self._config.name,
                self._nonce,
                self._config.rate_bps,
                self._addresses,
                GateKind[self._host.queues.gate_kind.upper()],
                VERSION,
                self._spoken,
            )
        )

    @property
    def room_for_addresses(self) -> int:
        """How many bytes of addresses our REGISTER can carry."""
        return BODY_MAX - REGISTER.size - len(self._config.name.encode()) - len(VERSION.encode())

    def set_addresses(self, addresses: tuple[Address, ...], now_ns: int) -> None:
        """Replaces the addresses that live at this host; tells the leader until it answers."""
        if addresses == self._addresses:
            return
        self._addresses = addresses
        self.announce_anew(now_ns)

    def announce_anew(self, now_ns: int) -> None:
        """Registers again, as what we said of ourselves has changed: a member stays one meanwhile."""
        self._nonce += 1  # the answer to a REGISTER with other addresses is none to this one
        if self.state in (State.MEMBER, State.FAIL_OPEN):
            self._unanswered = True
            self._register_ns = now_ns
            self._retry_ns = REGISTER_RETRY_NS
        if self.member:
            self._register(now_ns)

    def _on_welcome(self, message: Welcome, now_ns: int) -> None:
        if message.nonce != self._nonce or self.state is State.LISTENING or not self._spoken.speaks(message.version):
            return
        self.wire = message.version
        self._agree(message.version)
        self._unanswered = False
        self._retry_ns = REGISTER_RETRY_NS
        moved = message.node != self.node
        first = moved or not self.member
        self.node = message.node
        self.fail_open_ns = max(message.fail_open_ns // 2, message.fail_open_ns - OPENING_NS)
        self.heartbeats.patience(message.fail_open_ns, message.heartbeat_ns)
        self._keeper.hysteresis_ns = message.yield_hysteresis_ns
        self._host.flows.set_mice(message.mice_bytes, message.mice_rate_bps)
        self._lifecycle.on(Event.WELCOME)
        self._groups.set_node(self.node)
        if moved and self._groups.version >= 0:  # who needs permission depends on whose neighbour this host is
            self._keeper.regulate(self._groups, now_ns)
        if self.wire >= FIRST_VERSION:
            self._send(GroupsRequest(max(0, self._groups.version)))
        if first:
            self._complaint = None
            log.info("member %d of epoch %d", self.node, self._epoch)
            self._send(DirectoryRequest(0))
            self._apply_override(now_ns)

    # -- the leader -----------------------------------------------------------------------------------------------------

    def new_leader(self, epoch: int, now_ns: int) -> None:
        """Opens every gate and registers with the leader of a higher epoch."""
        log.info("leader with epoch %d heard", epoch)
        self._epoch = epoch
        self.wire = 0
        self._nonce += 1
        self._retry_ns = REGISTER_RETRY_NS
        self.heartbeats.new_leader()
        self._no_answer = Unanswered()
        self._directory.new_leader()
        self._regulate.clear()
        self._regulate_version = -1
        self._groups.new_leader()
        self._ask_groups_ns, self._groups_tries = None, 0
        before = self.state
        self._lifecycle.on(Event.NEW_LEADER)
        with ExitStack() as beginning:  # with this leader, whatever the kernel refuses
            if before is not State.REGISTERING:  # else the next try is due anyway
                beginning.callback(self._register, now_ns)
            beginning.callback(self._keeper.regulate, frozenset(), now_ns)  # it says anew which destinations need permission
            beginning.callback(self._parts.new_leader, now_ns)
            self._release(now_ns)

    def _on_heartbeat(self, message: Heartbeat, now_ns: int) -> None:
        before = self.state
        changed = self._lifecycle.on(Event.HEARTBEAT)
        if changed and self.state is State.REGISTERING:
            self._register(now_ns)
        if not self.member:
            return
        if message.override is not self.override or before is State.FAIL_OPEN:
            self.override = message.override
            self._apply_override(now_ns)
        self._look_at_groups(message.regulate_version, now_ns)
        if message.directory_version == self._directory.version:
            self._ask_ns, self._ask_after_ns = None, ASK_NS
        elif self._ask_ns is None:
            self._ask_ns = now_ns + int(ASK_NS * (1 + self._chance()))
        elif now_ns >= self._ask_ns:
            self._ask_after_ns = min(2 * self._ask_after_ns, MOST_ASK_NS)
            self._ask_ns = now_ns + int(self._ask_after_ns * (1 - self._chance() / 2))
            self._send(DirectoryRequest(max(0, self._directory.version)))

    def _look_at_groups(self, version: int, now_ns: int) -> None:
        """Asks for the groups if the leader has others, until it has answered: less and less often."""
        if version == self._groups.version or self.wire < FIRST_VERSION:
            self._ask_groups_ns, self._groups_tries = None, 0
        elif self._ask_groups_ns is None:
            self._ask_groups_ns = now_ns + int(ASK_NS * (1 + self._chance()))
        elif now_ns >= self._ask_groups_ns:
            self._groups_tries += 1
            after_ns = min(ASK_NS << min(self._groups_tries, 8), MOST_ASK_NS)
            self._ask_groups_ns = now_ns + int(after_ns * (1 - self._chance() / 2))
            self._send(GroupsRequest(max(0, self._groups.version)))

    def on_error(self, message: Error, now_ns: int) -> None:
        """Registers again if the leader does not know us (any more)."""
        said = Error(message.code, 0, message.text)
        if self._complaint is None or self._complaint[0] != said or now_ns - self._complaint[1] >= COMPLAINT_NS:
            log.warning("the coordinator says: %s (%s)", message.text, message.code.name)
            self._complaint = said, now_ns
        if message.code is ErrorCode.UNKNOWN_SENDER:
            self.unknown(now_ns)

    def unknown(self, now_ns: int) -> None:
        """Opens every gate and registers again: the leader does not know who we are (any more)."""
        if self._lifecycle.on(Event.UNKNOWN):
            self._release(now_ns)
            self._register(now_ns)

    def _apply_override(self, now_ns: int) -> None:
        if self.override is Override.FREE:
            log.info("override: every gate is open")
            self._release(now_ns)
        else:
            self._keeper.enforce(now_ns)

    def _release(self, now_ns: int) -> None:
        """Opens everything; raises what the kernel refused, once all the rest is done."""
        with ExitStack() as opening:
            opening.callback(self._parts.released, now_ns)
            opening.callback(self._rules.release)
            self._keeper.release()

    def leave(self, now_ns: int) -> None:
        """Opens every gate and takes leave of the leader: the agent stops."""
        self._lifecycle.on(Event.STOP)
        with suppress(NetlinkError):  # a gate that is gone holds no packet
            self._release(now_ns)
        if self.node:
            self._send(Leave("stopped"))

    # -- the fabric's directory, and the regulated destinations ---------------------------------------------------------

    def _on_directory(self, message: Directory, _: int) -> None:
        if self._directory.take(message):
            self._apply_directory()

    def _on_directory_change(self, message: DirectoryChange, _: int) -> None:
        if self._directory.change(message):
            self._apply_directory()

    def _apply_directory(self) -> None:
        others = {node: addresses for node, addresses in self._directory.entries.items() if node != self.node}
        self._host.flows.set_directory(others)
        self.nodes = frozenset(others)

    def _on_groups(self, message: GroupsChange, now_ns: int) -> None:
        if self._groups.take(message):
            self._keeper.regulate(self._groups, now_ns)

    def _on_regulate(self, message: Regulate, now_ns: int) -> None:
        if self._groups.version >= 0:
            if now_ns >= self._told_groups_ns + SECOND_NS:  # our request was lost
                self._told_groups_ns = now_ns
                self._send(GroupsRequest(self._groups.version))
            return
        pages = self._regulate.add(message)
        if pages is not None and message.version >= self._regulate_version:  # else an older one came late
            self._regulate_version = message.version
            self._keeper.regulate(frozenset(d for page in pages for d in page.destinations), now_ns)
