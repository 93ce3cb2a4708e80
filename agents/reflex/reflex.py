"""What an agent does before its Python runs: pauses and conditions obeyed, and days begun, while it waits. An edge: ctypes.

An agent's own way from a frame to a gate is tens of microseconds of Python with cold caches. Here the wait itself is in C
(agents/reflex/reflex.c): it has been told beforehand which messages to the kernel a pause or a resume of each class would take,
a condition of each destination, and the next day or night, and sends them at once. Then the agent's turn begins as always, and
its rules decide (`conditions.Rules`): what was done already is not done again, and what they don't agree with is undone
(`Rules.settle`).

The reflex opens only what nothing but a pause (a condition, a night) keeps shut: what takes a decision is left to the rules.
"""

from __future__ import annotations

import ctypes
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence

from agents.kernel.netlink import Netlink, unacknowledged
from agents.loop.waiting import POLLED_NS, REST_NS
from agents.permission.conditions import Step
from agents.permission.gatekeeper import Gatekeeper
from agents.permission.rules import Rule, Rules
from agents.queues.host import Host
from agents.reflex.conditions import Leader, LeadersConditions
from agents.reflex.state import PARTNERS, POLLIN, Batch, Descriptor, State, StepBatches, library, set_partners
from protocol.pfc import CLASSES

log = logging.getLogger("baton.reflex")

SPIN_NS = 60_000
"""How long before a day or a night begins it is waited for awake, also by an agent that sleeps else: a timer is that late."""
REHEARSE_NS, RECALL_NS, RECENT_NS = 100_000, 250_000, 100_000_000
"""How often the way to the kernel is gone for nothing while it polls, since it would be cold when it is needed; how often while
it sleeps, for so long after a command: who has just paused a class, or a queue, is likely to do more."""
WARM_NS = 1_000_000
"""How long it polls before the agent has a turn for nothing: its Python, too."""
NEAR_NS = 400_000
"""A step that comes so soon after another is waited for before the agent has its turn, and is more urgent than to work out what
a pause would take."""
LONGEST_LEAD_NS = 20_000
"""A step is begun as much earlier as its messages take at the least, but no more than this."""
ALL_CLASSES = range(CLASSES)


_Plan = tuple[list[int], list[int], bytes, bytes]
"""Which destinations are shut and which opened, and by what; it must be kept while the C structure points to it."""
_NOTHING: _Plan = ([], [], b"", b"")
_SHUT, _OPEN = False, True


class Reflex:
    """Of one agent."""

    def __init__(self, host: Host, rules: Rules, keeper: Gatekeeper, leader: Leader) -> None:
        """Raises BuildError, OSError: it cannot be had here; an agent does without, more slowly."""
        self._library = library()
        self._host, self._rules, self._keeper = host, rules, keeper
        self._netlink = Netlink()
        self._state = State(
            pauses=-1, control=-1, netlink=self._netlink.fileno(), link=host.kicks.fileno(),
            kick=(ctypes.c_uint8 * 60)(*host.kick_frame), spin_ns=SPIN_NS,
            polled_ns=POLLED_NS, rest_ns=REST_NS, warm_ns=WARM_NS, near_ns=NEAR_NS,
            longest_lead_ns=LONGEST_LEAD_NS, rehearse_ns=REHEARSE_NS, recall_ns=RECALL_NS,
            recent_ns=RECENT_NS,
        )  # fmt: skip
        self._known: tuple[object, ...] = ()
        self._anew = False
        self._rehearsal = b""
        self._messages: dict[int, tuple[bytes, bytes]] = {}
        """What shuts and what opens each destination."""
        self._steps: Sequence[Step] = ()
        self._stepping: list[_Plan] = []
        self._pausing = [_NOTHING] * CLASSES
        self._descriptors: dict[tuple[int, ...], ctypes.Array[Descriptor]] = {}
        self.conditions = LeadersConditions(self._state, leader, rules, self._texts, self._may_open)
        self.steps: Callable[[], Sequence[Step]] = tuple
        """What is to happen next, up to `STEPS` of them."""

    def close(self) -> None:
        """Closes what it opened."""
        self._netlink.close()

    # -- what it is told ------------------------------------------------------------------------------------------------

    def obey(self, descriptor: int) -> None:
        """Takes pause frames from this socket, from now on; -1: no more."""
        self._state.pauses = descriptor

    def tell(self, paused: Iterable[int], muted: Iterable[int], partners: Iterable[bytes]) -> None:
        """Which classes are paused, whose pauses have no effect, and whose frames count (anybody's, if nobody is named)."""
        those = list(partners)
        too_many = len(those) > PARTNERS  # then the rules alone obey
        self._state.paused, self._state.muted = _mask(paused), _mask(ALL_CLASSES if too_many else muted)
        set_partners(self._state, those[:PARTNERS])

    def plan(self) -> bool:
        """Looks what comes next; whether there is anything to do here, or a plain wait does."""
        self._steps = self.steps()
        return self._state.pauses >= 0 or bool(self._steps) or self.conditions.wanted()

    def _prepare(self) -> None:
        """Works out what the next step would take, and each pause, resume and condition of what something changed."""
        state, keeper, changed = self._state, self._keeper, self._rules.changed
        known = (self._host.queues.version, keeper.obeying, keeper.regulated)
        if anew := known != self._known:
            self._known = known
            self._messages.clear()
            changed.update(ALL_CLASSES)
            self._rehearsal = self._refused()
            state.rehearsal = _batch(self._rehearsal)
        self._stepping.clear()
        state.steps = len(self._steps)
        for at, step in enumerate(self._steps):
            shut = [one for one in step.shut if self._rules.unshut(one, Rule.WEEK)]
            opened = [one for one in step.open if self._may_open(one, Rule.WEEK)]
            plan = shut, opened, self._texts(shut, _SHUT), self._texts(opened, _OPEN)
            self._stepping.append(plan)
            state.step[at] = StepBatches(step.at_ns, *map(_batch, plan[2:]))
        conditions, anew = self.conditions.wanted(), anew or self._anew
        if changed or anew:
            # Right before a step there is no time for this: what comes is then left to the rules.
            self._anew = anew
            state.armed = not self._steps or self._steps[0].at_ns - time.monotonic_ns() > NEAR_NS
            if state.armed and state.pauses >= 0:
                self._prepare_classes({queue if queue < CLASSES else self._rules.class_of(queue) for queue in changed})
        if not conditions:
            self.conditions.leave()
        elif state.armed:
            self.conditions.prepare(changed, self._host.queues.destinations, anew=anew)
        if state.armed:
            self._anew = False
            changed.clear()

    def _refused(self) -> bytes:
        """A message about any gate."""
        gate = next(map(self._host.queues.gate_of, self._host.queues.destinations()), None)
        return b"" if gate is None else gate.refused_message

    def _prepare_classes(self, classes: Iterable[int]) -> None:
        state = self._state
        for priority in classes:
            shut = [one for one in self._rules.members(priority) if self._rules.unshut(one, Rule.PAUSE)]
            opened = [one for one in shut if self._may_open(one, Rule.PAUSE)]
            self._pausing[priority] = shut, opened, self._texts(shut, _SHUT), self._texts(opened, _OPEN)
            state.shut[priority], state.open[priority] = map(_batch, self._pausing[priority][2:])

    def _may_open(self, destination: int, rule: Rule) -> bool:
        """Whether it is to be wide open as soon as this one rule says no more."""
        return self._rules.only(destination, rule) and not (self._keeper.obeying and destination in self._keeper.regulated)

    def _texts(self, destinations: Iterable[int], which: bool) -> bytes:
        known = self._messages
        return b"".join([(known.get(one) or self._text(one))[which] for one in destinations])

    def _text(self, destination: int) -> tuple[bytes, bytes]:
        gate = self._host.queues.gate_of(destination)
        found = (b"", b"") if gate is None else (unacknowledged(gate.shut_message), unacknowledged(gate.open_message))
        self._messages[destination] = found
        return found

    # -- waiting --------------------------------------------------------------------------------------------------------

    def wait(self, descriptors: Sequence[int], due_ns: int, *, poll: bool) -> list[int]:
        """Waits as `Waiting.until` does, and obeys meanwhile; of what it did the rules are told. Polling, it stays a while.

        Raises OSError: a descriptor is not open.
        """
        self._prepare()
        state = self._state
        watched = self._watched(descriptors)
        ready = self._library.reflex_wait(ctypes.byref(state), watched, len(watched), due_ns, poll)
        if ready < 0:
            raise OSError(-ready, os.strerror(-ready))
        if state.was_shut or state.was_opened or state.stepped or state.ruled:
            self._tell_rules()
        found = [one.fd for one in watched[:-1] if one.revents] if ready else []
        return [*found, state.pauses] if state.frames else found

    def _watched(self, descriptors: Sequence[int]) -> ctypes.Array[Descriptor]:
        wanted = tuple(descriptors)
        found = self._descriptors.get(wanted)
        if found is None:
            others = [descriptor for descriptor in wanted if descriptor != self._state.pauses]
            found = (Descriptor * (len(others) + 1))(*(Descriptor(one, POLLIN, 0) for one in others))
            self._descriptors[wanted] = found
        return found

    def _tell_rules(self) -> None:
        state = self._state
        shut, opened = self.conditions.did()
        for priority in ALL_CLASSES if state.was_shut or state.was_opened else ():
            if (state.was_shut | state.was_opened) >> priority & 1:
                shut += self._pausing[priority][0]
            if state.was_opened >> priority & 1:
                opened += self._pausing[priority][1]
        for made in self._stepping[: state.stepped]:
            shut += made[0]
            opened += made[1]
        self._rules.did(shut, opened, state.acted_ns if state.stepped else 0, trusted=not state.refused)
        if state.refused:  # the rules' own try will say what
            self._known = ()
            log.warning("a gate was not changed: %s", os.strerror(state.refused))

    def frames(self) -> list[bytes]:
        """The pause frames that came while it waited (the first `FRAME_BYTES` of each), in their order; once."""
        state = self._state
        count, state.frames = state.frames, 0
        return [bytes(state.frame[at])[: state.length[at]] for at in range(count)]


def _batch(messages: bytes) -> Batch:
    return Batch(messages, len(messages))


def _mask(classes: Iterable[int]) -> int:
    return sum(1 << priority for priority in classes)
