"""The reflex: changes gates for pauses, conditions and days while the agent waits, before its Python runs. An edge: ctypes.

From a frame to a gate, the agent's Python takes tens of microseconds with cold caches. So the wait itself is in C
(agents/reflex/reflex.c). Before each wait the agent stores the kernel messages that a pause or a resume of each class, a
condition of each destination, and the next day or night would need; the C code sends them at once. Then the agent's turn begins
as usual, and its rules decide (`permission.rules.Rules`): they do not repeat a change that the reflex made, and they undo one
that they do not confirm (`Rules.reconcile`).

The reflex opens only a gate that one pause (one condition, one night) alone keeps closed. The rules handle all other cases.
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
from agents.reflex.conditions import Leader, LeaderConditions
from agents.reflex.state import LIBRARY, PARTNERS, POLLIN, Batch, Descriptor, State, StepBatches, set_partners
from protocol import virtual_time
from protocol.pfc import CLASSES

log = logging.getLogger("baton.reflex")

SPIN_NS = 60_000
"""The wait spins for this time before a day or a night, also in an agent that sleeps otherwise: a timer may be this late."""
REHEARSE_POLLING_NS, REHEARSE_ASLEEP_NS, RECENT_COMMAND_NS = 100_000, 250_000, 100_000_000
"""A rehearsal sends a message without effect, so that the path to the kernel stays in the caches. The interval of rehearsals
while polling; while asleep; and how long after a command a sleeping wait rehearses: more commands are likely to follow."""
TURN_NS = 1_000_000
"""A polling wait returns after this time, so that the agent's Python stays in the caches too."""
NEAR_NS = 400_000
"""When the next step follows this soon, the wait stays for it before the agent has its turn, and preparing the messages of a
pause has to wait."""
LONGEST_LEAD_NS = 20_000
"""A step begins early by the least time that its messages take, but by no more than this."""
ALL_CLASSES = range(CLASSES)


_Plan = tuple[list[int], list[int], bytes, bytes]
"""The destinations to close, those to open, and the messages for both; referenced as long as the C structure points to it."""
_NOTHING: _Plan = ([], [], b"", b"")
_CLOSE, _OPEN = False, True


class Reflex:
    """The reflex of one agent."""

    def __init__(
        self,
        host: Host,
        rules: Rules,
        keeper: Gatekeeper,
        leader: Leader,
        *,
        steps: Callable[[], Sequence[Step]] = tuple,
        has_conditions: Callable[[], bool] = lambda: False,
    ) -> None:
        """Compiles and loads the C library if necessary.

        Args:
            steps: the next steps of the week, at most `STEPS`.
            has_conditions: whether the leader has sent conditions; only then the reflex listens for them.

        Raises:
            BuildError, OSError: the library cannot be built or loaded here. An agent works without a reflex, more slowly.
        """
        self._library = LIBRARY.loaded()
        self._host, self._rules, self._keeper = host, rules, keeper
        self._netlink = Netlink()
        self._state = State(
            pause_fd=-1, control_fd=-1, netlink_fd=self._netlink.fileno(), link_fd=host.wakeups.fileno(),
            wakeup=(ctypes.c_uint8 * 60)(*host.wakeup_frame), spin_ns=0 if virtual_time.inside() else SPIN_NS,
            poll_ns=POLLED_NS, rest_ns=REST_NS, turn_ns=TURN_NS, near_ns=NEAR_NS,
            longest_lead_ns=LONGEST_LEAD_NS, rehearse_polling_ns=REHEARSE_POLLING_NS, rehearse_asleep_ns=REHEARSE_ASLEEP_NS,
            recent_command_ns=RECENT_COMMAND_NS,
        )  # fmt: skip
        self._known: tuple[object, ...] = ()
        self._rebuilt = False
        self._rehearsal = b""
        self._messages: dict[int, tuple[bytes, bytes]] = {}
        """The messages that close and that open each destination's gate."""
        self._steps: Sequence[Step] = ()
        self._step_plans: list[_Plan] = []
        self._pause_plans = [_NOTHING] * CLASSES
        self._descriptors: dict[tuple[int, ...], ctypes.Array[Descriptor]] = {}
        self.conditions = LeaderConditions(self._state, leader, rules, self._messages_for, self._may_open, has_conditions)
        self.steps = steps

    def close(self) -> None:
        """Closes the netlink socket."""
        self._netlink.close()

    # -- settings ------------------------------------------------------------------------------------------------------

    def listen(self, descriptor: int) -> None:
        """Handles the pause frames of this socket from now on; -1 for none."""
        self._state.pause_fd = descriptor

    def set_pauses(self, paused: Iterable[int], ignored: Iterable[int], partners: Iterable[bytes]) -> None:
        """Sets the paused classes, those whose pauses have no effect, and the senders whose frames count (none: all)."""
        senders = list(partners)
        too_many = len(senders) > PARTNERS  # then the rules alone handle pauses
        self._state.paused, self._state.ignored = _mask(paused), _mask(ALL_CLASSES if too_many else ignored)
        set_partners(self._state, senders[:PARTNERS])

    def busy(self) -> bool:
        """Whether pauses, steps or conditions may need a gate changed at once. Changes nothing."""
        return self._needed(self.steps())

    def plan(self) -> bool:
        """Takes the steps for the next wait; returns whether that wait needs the reflex, or a plain one is enough."""
        self._steps = self.steps()
        return self._needed(self._steps)

    def _needed(self, steps: Sequence[Step]) -> bool:
        return self._state.pause_fd >= 0 or bool(steps) or self.conditions.enabled()

    def _prepare(self) -> None:
        """Prepares the messages of the next steps, and of each pause, resume and condition whose destinations changed."""
        state, keeper, changed = self._state, self._keeper, self._rules.changed
        known = (self._host.queues.version, keeper.enforcing, keeper.regulated)
        if rebuilt := known != self._known:
            self._known = known
            self._messages.clear()
            changed.update(ALL_CLASSES)
            self._rehearsal = self._rehearsal_message()
            state.rehearsal = _batch(self._rehearsal)
        self._step_plans.clear()
        state.step_count = len(self._steps)
        for at, step in enumerate(self._steps):
            closed = [one for one in step.closing if self._rules.unblocked_by_others(one, Rule.WEEK)]
            opened = [one for one in step.opening if self._may_open(one, Rule.WEEK)]
            plan = closed, opened, self._messages_for(closed, _CLOSE), self._messages_for(opened, _OPEN)
            self._step_plans.append(plan)
            state.step[at] = StepBatches(step.at_ns, *map(_batch, plan[2:]))
        conditions, rebuilt = self.conditions.enabled(), rebuilt or self._rebuilt
        if changed or rebuilt:
            # Right before a step there is no time for this: the rules then handle pauses and conditions.
            self._rebuilt = rebuilt
            state.armed = not self._steps or self._steps[0].at_ns - time.monotonic_ns() > NEAR_NS
            if state.armed and state.pause_fd >= 0:
                self._prepare_classes({queue if queue < CLASSES else self._rules.class_of(queue) for queue in changed})
        if not conditions:
            self.conditions.disable()
        elif state.armed:
            self.conditions.prepare(changed, self._host.queues.destinations, rebuilt=rebuilt)
        if state.armed:
            self._rebuilt = False
            changed.clear()

    def _rehearsal_message(self) -> bytes:
        """A message about any gate that the kernel refuses at the end of its path; empty if there is no gate."""
        gate = next(map(self._host.queues.gate_of, self._host.queues.destinations()), None)
        return b"" if gate is None else gate.refused_message

    def _prepare_classes(self, classes: Iterable[int]) -> None:
        state = self._state
        for priority in classes:
            closed = [one for one in self._rules.destinations_of(priority) if self._rules.unblocked_by_others(one, Rule.PAUSE)]
            opened = [one for one in closed if self._may_open(one, Rule.PAUSE)]
            self._pause_plans[priority] = closed, opened, self._messages_for(closed, _CLOSE), self._messages_for(opened, _OPEN)
            state.close[priority], state.open[priority] = map(_batch, self._pause_plans[priority][2:])

    def _may_open(self, destination: int, rule: Rule) -> bool:
        """Whether a destination's gate opens fully once this one rule ends."""
        needs_permission = self._keeper.enforcing and destination in self._keeper.regulated
        return self._rules.sole_rule(destination, rule) and not needs_permission

    def _messages_for(self, destinations: Iterable[int], which: bool) -> bytes:
        known = self._messages
        return b"".join([(known.get(one) or self._gate_messages(one))[which] for one in destinations])

    def _gate_messages(self, destination: int) -> tuple[bytes, bytes]:
        gate = self._host.queues.gate_of(destination)
        found = (b"", b"") if gate is None else (unacknowledged(gate.shut_message), unacknowledged(gate.open_message))
        self._messages[destination] = found
        return found

    # -- waiting -------------------------------------------------------------------------------------------------------

    def wait(self, descriptors: Sequence[int], due_ns: int, *, poll: bool) -> list[int]:
        """Waits as `Waiting.until` does, changes gates meanwhile, and reports that to the rules. Polling, it stays a while.

        Raises:
            OSError: a descriptor is not open.
        """
        self._prepare()
        state = self._state
        watched = self._watched(descriptors)
        ready = self._library.reflex_wait(ctypes.byref(state), watched, len(watched), due_ns, poll)
        if ready < 0:
            raise OSError(-ready, os.strerror(-ready))
        if state.was_closed or state.was_opened or state.steps_done or state.queues_changed:
            self._report_to_rules()
        found = [one.fd for one in watched[:-1] if one.revents] if ready else []
        return [*found, state.pause_fd] if state.frame_count else found

    def _watched(self, descriptors: Sequence[int]) -> ctypes.Array[Descriptor]:
        wanted = tuple(descriptors)
        found = self._descriptors.get(wanted)
        if found is None:
            others = [descriptor for descriptor in wanted if descriptor != self._state.pause_fd]
            found = (Descriptor * (len(others) + 1))(*(Descriptor(one, POLLIN, 0) for one in others))
            self._descriptors[wanted] = found
        return found

    def _report_to_rules(self) -> None:
        state = self._state
        closed, opened = self.conditions.applied()
        for priority in ALL_CLASSES if state.was_closed or state.was_opened else ():
            if (state.was_closed | state.was_opened) >> priority & 1:
                closed += self._pause_plans[priority][0]
            if state.was_opened >> priority & 1:
                opened += self._pause_plans[priority][1]
        for made in self._step_plans[: state.steps_done]:
            closed += made[0]
            opened += made[1]
        at_ns = state.step_done_ns if state.steps_done else 0
        self._rules.reflex_applied(closed, opened, at_ns, trusted=not state.refused_errno)
        if state.refused_errno:  # the rules try again and raise the error
            self._known = ()
            log.warning("the kernel refused to change a gate: %s", os.strerror(state.refused_errno))

    def take_frames(self) -> list[bytes]:
        """Removes and returns the pause frames that arrived during waits, in order; the first `FRAME_BYTES` of each."""
        state = self._state
        count, state.frame_count = state.frame_count, 0
        return [bytes(state.frame[at])[: state.length[at]] for at in range(count)]


def _batch(messages: bytes) -> Batch:
    return Batch(messages, len(messages))


def _mask(classes: Iterable[int]) -> int:
    return sum(1 << priority for priority in classes)
