"""Days within weeks at one host: receives WEEK, and opens each flow on its days by the agent's own clock. Pure.

A part of the agent. Source: "Fine-Grained End-Host Traffic Control", chapters 2 and 5, and REACToR: a week has a set of flows,
mapped to the eight classes at its start, and days on which some of them are open.

**No flow is sent under another's class.** If classes are remapped while packets wait in them, those packets leave under the
next owner of their class: the flaw of the thesis's design by PFC. Here packets wait behind the gate of their own flow, and the
class is only the flow's label for a week. The part first blocks all flows of the old week and of the new one, then changes
classes, then begins the first day. It blocks the flows that are new a little earlier: a token bucket lets one packet of each go
as its gate closes, and these packets take time on the link. By PFC the part blocks the flows from the last night on, too, so
that a pause frame that arrives a little early or late opens no queue; so the night must be longer than the clock's uncertainty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agents.loop.part import Part, Surroundings
from agents.permission.conditions import Step
from agents.permission.counters import keep_sample
from agents.permission.rules import Rule
from protocol.bodies.host_control import Transport, Week, WeekKey
from protocol.messages import Cause
from protocol.pfc import CLASSES
from protocol.units import FRAME_BYTES

MAX_AHEAD_NS = 60_000_000_000
"""The agent refuses a week that begins later than this from now."""
MAX_WAITING = 16
"""The agent stores at most this many weeks that have not begun."""


@dataclass(slots=True)
class WeekCounters:
    """Counts since the start."""

    weeks: int = 0
    days: int = 0
    missed_days: int = 0
    """Days that were over before the agent could begin them: it never opens a flow on another's day."""
    lateness_ns: list[int] = field(default_factory=list)
    """The newest samples of (gates changed - day's start by this host's clock)."""


class Queues(Protocol):
    """The host's queues, as weeks need them."""

    def __call__(self, week: Week, now_ns: int) -> tuple[int, ...]:
        """Creates the missing gates of a week's flows (without a gate nothing blocks a flow); their destinations, by bit."""

    def keep(self, weeks: Iterable[Week]) -> None:
        """Has the DSCPs of these weeks, and no others, be queued apart."""


class WeekSchedule(Part):
    """Executes weeks.

    Args:
        agent: the agent that this is a part of.
        clock: this host's clock, read after gates were changed.
        link_bps: the rate of the host's link.
        queues: the host's. None: the flows are destinations, and only weeks by destination are possible.
    """

    def __init__(
        self,
        agent: Surroundings,
        clock: Callable[[], int],
        link_bps: int,
        queues: Queues | None = None,
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._packet_ns = FRAME_BYTES * 8 * 10**9 // link_bps
        self._queues = queues
        self.week: Week | None = None
        """The current week; None when no flow is scheduled."""
        self.counters = WeekCounters()
        self._waiting: dict[int, Week] = {}
        self._last = -1
        """The number of the newest week that began."""
        self._flows: tuple[int, ...] = ()
        """The destinations of the current week's flows, by bit."""
        self._destinations: dict[int, tuple[int, ...]] = {}
        """The destinations of the waiting weeks' flows, by week and bit."""
        self._prepared: set[int] = set()
        """The waiting weeks that are about to begin: their flows are already blocked."""
        self._blocked: frozenset[int] = frozenset()
        """All destinations that are blocked outside their days."""
        self._prepare_times_ns: dict[int, int] = {}
        self._flows_by_day: dict[tuple[int, int], frozenset[int]] = {}
        """Cached results of `_prepare_at_ns` and `_flows_on`, which every step reads."""
        self._open: frozenset[int] = frozenset()
        self._day = 0
        """The next day to open."""
        self._night_pending = False
        """Whether the night of the day before `_day` is still to come."""
        self._due_ns: int | None = None
        self.handlers = {Week: self._on_week}

    # -- messages of the leader ----------------------------------------------------------------------------------------

    def _on_week(self, message: Week, now_ns: int) -> None:
        if not self._agent.enforcing or message.week <= self._last:
            return  # a repeated message
        cause = self._reject_reason(message, now_ns)
        if cause is not None:
            self._agent.refuse(cause)
            return
        if not message.flows:  # the end of the schedule
            self._waiting.clear()
            self._prepared.clear()
        destinations = message.flows if self._queues is None else self._queues(message, now_ns)  # the kernel may refuse one
        self._prepared.discard(message.week)  # the flows may differ from those of an earlier message
        self._waiting[message.week], self._destinations[message.week] = message, destinations
        self._keep_queues()
        self._drop_cached()
        self._plan()
        self.advance(now_ns)

    def _reject_reason(self, message: Week, now_ns: int) -> Cause | None:
        clock = self._agent.clock
        if not clock.synchronised or clock.local(message.start_ns) > now_ns + MAX_AHEAD_NS:
            return Cause.CLOCK
        if not message.flows:
            return None
        if clock.local(message.end_ns) <= now_ns:
            return Cause.CLOCK
        if message.transport is Transport.PFC and message.night_ns < clock.uncertainty_ns(now_ns):
            return Cause.CLOCK
        if message.key is WeekKey.DESTINATION:
            if any(flow not in self._agent.nodes for flow in message.flows):
                return Cause.SCHEDULE
        elif self._queues is None:
            return Cause.SCHEDULE
        others = [week for week in (self.week, *self._waiting.values()) if week is not None and week.week != message.week]
        if any(message.start_ns < week.end_ns and week.start_ns < message.end_ns for week in others):
            return Cause.SCHEDULE
        return Cause.SCHEDULE if message.week not in self._waiting and len(self._waiting) >= MAX_WAITING else None

    # -- executing -----------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> int | None:
        """When the next week, day or night begins, or the lease ends."""
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        """Begins the nights, weeks and days whose time has come, in order."""
        while self._due_ns is not None and now_ns >= self._due_ns:
            self._step(now_ns)
            self._plan()

    def next_steps(self) -> Sequence[Step]:
        """The next steps that only close and open gates: a day, or a night and the day after it."""
        week = self.week
        if week is not None and self._night_pending and self._is_due(self._day_ns(week) - week.night_ns):
            night = Step(self._due_ns or 0, self._open, frozenset())
            if week.transport is Transport.PFC or (day := self._day_after(frozenset())) is None:
                return (night,)  # by PFC it is the last night, which does more than close gates
            return night, day
        day = self._day_after(self._open)
        return () if day is None or day.at_ns != self._due_ns else (day,)

    def _day_after(self, before: frozenset[int]) -> Step | None:
        """The step that begins the next day, of this or of the following week; `before`: the flows that are open until then."""
        week, clock = self.week, self._agent.clock
        if week is not None and self._day < len(week.days):
            at_ns, opening = self._day_ns(week), self._flows_on(week, self._day)
        else:
            week = min(self._waiting.values(), key=self._prepare_at_ns, default=None)
            # Not while some flow is still to be blocked, nor while a class is paused: it may be the next class of such a flow.
            if week is None or not week.days or self._prepare_at_ns(week) < week.start_ns:
                return None
            if self._agent.rules.has_rule(Rule.PAUSE):
                return None
            at_ns, opening = week.start_ns, self._flows_on(week, 0)
        return Step(clock.local(at_ns), before - opening, opening - before)

    def _day_ns(self, week: Week) -> int:
        """When the next day begins, by the leader's clock."""
        return week.start_ns + self._day * week.day_ns

    def _is_due(self, at_ns: int) -> bool:
        return self._agent.clock.local(at_ns) == self._due_ns

    def _drop_cached(self) -> None:
        """Drops cached results after a change of weeks or blocked flows."""
        self._prepare_times_ns.clear()
        self._flows_by_day.clear()

    def _flows_on(self, week: Week, day: int) -> frozenset[int]:
        """The flows that are open on a day. By PFC a week has one long day with all its flows, and pause frames decide."""
        found = self._flows_by_day.get((week.week, day))
        if found is None:
            mask = week.active if week.transport is Transport.PFC else week.days[day]
            flows = self._flows if week is self.week else self._destinations[week.week]
            found = self._flows_by_day[week.week, day] = frozenset(flow for bit, flow in enumerate(flows) if mask >> bit & 1)
        return found

    def _own_ns(self) -> int | None:
        """When the week's next night or day begins, or its lease ends, by the leader's clock; None: there is no week."""
        week = self.week
        if week is None:
            return None
        if self._night_pending:
            return self._day_ns(week) - week.night_ns
        return self._day_ns(week) if self._day < len(week.days) else week.start_ns + week.lease_ns

    def _plan(self) -> None:
        """Computes when the next step is, by the current estimate of the leader's clock."""
        due = [self._prepare_at_ns(following) for following in self._waiting.values()]
        if (own_ns := self._own_ns()) is not None:
            due.append(own_ns)
        self._due_ns = self._agent.clock.local(min(due)) if due else None

    def _step(self, now_ns: int) -> None:
        """Does what was due by the estimate of the leader's clock at the last `_plan`."""
        clock, week, own_ns = self._agent.clock, self.week, self._own_ns()
        following = min(self._waiting.values(), key=self._prepare_at_ns, default=None)
        if following is not None and clock.local(following.start_ns) <= now_ns:
            self._begin(self._waiting.pop(following.week))
        elif following is not None and clock.local(self._prepare_at_ns(following)) <= now_ns:
            self._prepare(following)
        elif following is not None and own_ns is not None and self._prepare_at_ns(following) <= own_ns:
            return  # it comes first, and by the present estimate its time has not come: nothing of this week is due, either
        elif week is not None and self._night_pending:
            self._begin_night(week)
        elif week is not None and self._day < len(week.days):
            self._open_day(week, now_ns)
        elif week is not None:  # the lease ended without renewal
            self._end_schedule()

    def _begin_night(self, week: Week) -> None:
        self._night_pending = False
        self._block_open_flows()
        if week.transport is Transport.PFC:  # whose only night is the last one
            self._agent.rules.announce_last_night()

    def _prepare_at_ns(self, week: Week) -> int:
        """When to block those flows of a week that are not blocked yet, by the leader's clock."""
        found = self._prepare_times_ns.get(week.week)
        if found is None:
            prepared = week.week in self._prepared
            not_blocked = () if prepared else set(self._destinations[week.week]) - self._blocked
            found = self._prepare_times_ns[week.week] = week.start_ns - len(not_blocked) * self._packet_ns
        return found

    def _prepare(self, week: Week) -> None:
        flows = frozenset(self._destinations[week.week])
        self._prepared.add(week.week)
        self._agent.rules.block(Rule.WEEK, flows - self._blocked)
        self._blocked |= flows
        self._drop_cached()

    def _begin(self, week: Week) -> None:
        """Blocks all flows of both weeks, then changes classes; the first day opens in the next step."""
        rules = self._agent.rules
        self._last = week.week
        if self.week is not None and self._night_pending:  # the agent is later than the night was long
            self._begin_night(self.week)
        if not week.flows:
            self._end_schedule()
            return
        if week.week not in self._prepared:
            self._prepare(week)
        self._prepared.discard(week.week)
        self._flows = self._destinations[week.week]
        rules.block(Rule.WEEK, self._open)
        self._open = frozenset()
        active = [flow for bit, flow in enumerate(self._flows) if week.active >> bit & 1]
        rules.map_classes({flow: number % CLASSES for number, flow in enumerate(active)}, Rule.WEEK)
        self._destinations = {number: flows for number, flows in self._destinations.items() if number in self._waiting}
        blocked = frozenset(self._flows).union(*(self._destinations[number] for number in self._prepared))
        rules.unblock(Rule.WEEK, self._blocked - blocked)
        self._blocked = blocked
        self.week, self._day, self._night_pending = week, 0, False
        self._drop_cached()
        self.counters.weeks += 1

    def _open_day(self, week: Week, now_ns: int) -> None:
        start_ns = self._agent.clock.local(self._day_ns(week))
        last = len(week.days) - 1
        opening = self._flows_on(week, self._day)
        self._day = last + 1 if week.transport is Transport.PFC else self._day + 1
        # A night of length 0 between two days is none, but the last day always has one.
        self._night_pending = week.night_ns > 0 or self._day > last
        if now_ns >= self._agent.clock.local(self._day_ns(week) - week.night_ns):
            self.counters.missed_days += 1
            return
        rules = self._agent.rules
        rules.block(Rule.WEEK, self._open - opening)
        rules.unblock(Rule.WEEK, opening - self._open)
        self._open = opening
        counters = self.counters
        counters.days += 1
        keep_sample(counters.lateness_ns, (rules.step_done_ns or self._clock()) - start_ns)

    def _block_open_flows(self) -> None:
        self._agent.rules.block(Rule.WEEK, self._open)
        self._open = frozenset()

    def _end_schedule(self) -> None:
        self._forget()
        self._agent.rules.clear(Rule.WEEK)
        self._agent.rules.map_classes({}, Rule.WEEK)

    def _forget(self) -> None:
        self.week, self._flows, self._open, self._blocked = None, (), frozenset(), frozenset()
        self._prepared.clear()
        self._drop_cached()
        self._day, self._night_pending, self._due_ns = 0, False, None
        self._keep_queues()

    def _keep_queues(self) -> None:
        """Those of this week and of the weeks to come. Those of a week that is over go with the next message or the lease:
        at the beginning of a week there is no time for it."""
        if self._queues is not None:
            self._queues.keep(week for week in (self.week, *self._waiting.values()) if week is not None)

    # -- the agent's life ----------------------------------------------------------------------------------------------

    def new_leader(self, now_ns: int) -> None:
        """Forgets all weeks: the new leader numbers them from the start."""
        self._last = -1
        self.released(now_ns)

    def released(self, now_ns: int) -> None:
        """Ends the schedule; the next WEEK message begins another."""
        self._waiting.clear()
        self._forget()
        self._agent.rules.map_classes({}, Rule.WEEK)
