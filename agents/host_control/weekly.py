"""Days within weeks at one host: takes WEEK, and opens each flow on its days by the agent's own clock. Pure.

A part of the agent. Source: "Fine-Grained End-Host Traffic Control", chapters 2 and 5, and REACToR: a week has a set of flows,
mapped to the eight classes when it begins, and days on which some of them are open.

**None is sent as another.** Who remaps classes while packets wait in them sends those under their class' next owner: that was
the flaw of the thesis's design by PFC. Here packets wait behind the gate of their own flow, and a class is only what a flow is
called for a week. All flows of the old week and of the new are shut, then classes change hands, then the first day begins. New
ones are shut a little before, as a token bucket lets one packet of each go as it shuts, and these take their time. By PFC the
flows are shut by us from the last night on, too, so that frames that come a little early or late open nobody's queue;
so the night must be longer than our clock is uncertain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agents.loop.part import Part, Surroundings
from agents.permission.conditions import Step
from agents.permission.rules import Rule
from protocol.bodies.host_control import FlowKey, Transport, Week
from protocol.messages import Cause
from protocol.pfc import CLASSES
from protocol.units import FRAME_BYTES

AHEAD_NS = 60_000_000_000
"""A week that begins later than this from now is not meant."""
WAITING = 16
"""How many weeks are kept that have not begun."""
SAMPLES = 20_000


@dataclass(slots=True)
class WeeklyCounters:
    """What was executed since the start."""

    weeks: int = 0
    days: int = 0
    missed_days: int = 0
    """Over before we came to them: a flow is never open on another's day."""
    lateness_ns: list[int] = field(default_factory=list)
    """The newest samples of (gates changed - day's start by our clock)."""


class Weekly(Part):
    """Executes weeks.

    Args:
        agent: the agent that this is a part of.
        clock: this host's clock, read after gates were changed.
        link_bps: the rate of the host's link.
        queues: makes the gates of a week's flows that are not there yet (nothing holds a flow's packets before it has one), and
            says which destinations these are, by bit. None: the flows themselves, by destination only.
    """

    def __init__(
        self,
        agent: Surroundings,
        clock: Callable[[], int],
        link_bps: int,
        queues: Callable[[Week, int], tuple[int, ...]] | None = None,
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._packet_ns = FRAME_BYTES * 8 * 10**9 // link_bps
        self._queues = queues
        self.week: Week | None = None
        """The one that is being executed; None when no flow is scheduled."""
        self.counters = WeeklyCounters()
        self._waiting: dict[int, Week] = {}
        self._last = -1
        """The number of the newest week that was begun."""
        self._flows: tuple[int, ...] = ()
        """The destinations of the week's flows, by bit."""
        self._destinations: dict[int, tuple[int, ...]] = {}
        """Those of the waiting weeks, by bit."""
        self._settling: set[int] = set()
        """Of these weeks, those that are about to begin: their flows are shut already."""
        self._held: frozenset[int] = frozenset()
        """All destinations that are shut outside their days."""
        self._settle_ns: dict[int, int] = {}
        self._openings: dict[tuple[int, int], frozenset[int]] = {}
        """What `_settles_ns` and `_opening` have found, until what they depend on changes: they are asked in every step."""
        self._open: frozenset[int] = frozenset()
        self._day = 0
        """The next day to open."""
        self._night = False
        """The day before it has its night still to come."""
        self._due_ns: int | None = None
        self.handlers = {Week: self._on_week}

    # -- what the leader says -------------------------------------------------------------------------------------------

    def _on_week(self, message: Week, now_ns: int) -> None:
        if not self._agent.obeying or message.week <= self._last:
            return  # told twice
        cause = self._doubt(message, now_ns)
        if cause is not None:
            self._agent.refuse(cause)
            return
        if not message.flows:  # the end of all
            self._waiting.clear()
            self._settling.clear()
        self._settling.discard(message.week)  # it may be another than what we were told before
        self._waiting[message.week] = message
        self._destinations[message.week] = message.flows if self._queues is None else self._queues(message, now_ns)
        self._changed()
        self._plan()
        self.advance(now_ns)

    def _doubt(self, message: Week, now_ns: int) -> Cause | None:
        clock = self._agent.clock
        if not clock.synchronised or clock.local(message.start_ns) > now_ns + AHEAD_NS:
            return Cause.CLOCK
        if not message.flows:
            return None
        if clock.local(message.end_ns) <= now_ns:
            return Cause.CLOCK
        if message.transport is Transport.PFC and message.night_ns < clock.uncertainty_ns(now_ns):
            return Cause.CLOCK
        if message.key is FlowKey.DESTINATION:
            if any(flow not in self._agent.nodes for flow in message.flows):
                return Cause.SCHEDULE
        elif self._queues is None:
            return Cause.SCHEDULE
        others = [week for week in (self.week, *self._waiting.values()) if week is not None and week.week != message.week]
        if any(message.start_ns < week.end_ns and week.start_ns < message.end_ns for week in others):
            return Cause.SCHEDULE
        return Cause.SCHEDULE if message.week not in self._waiting and len(self._waiting) >= WAITING else None

    # -- executing ------------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> int | None:
        """When a week, a day or a night begins, or the lease is over."""
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        """Does what is due: the nights, weeks and days whose time has come, in their order."""
        while self._due_ns is not None and now_ns >= self._due_ns:
            self._step(now_ns)
            self._plan()

    def next_changes(self) -> Sequence[Step]:
        """What comes next, as far as it only shuts and opens flows: a day, or a night and the day after it."""
        week = self.week
        if week is not None and self._night and self._is_due(self._day_ns(week) - week.night_ns):
            night = Step(self._due_ns or 0, self._open, frozenset())
            if week.transport is Transport.PFC or (day := self._day_after(frozenset())) is None:
                return (night,)  # by PFC it is the last, and more is to be done then
            return night, day
        day = self._day_after(self._open)
        return () if day is None or day.at_ns != self._due_ns else (day,)

    def _day_after(self, before: frozenset[int]) -> Step | None:
        """How the next day begins, of this week or of one that is about to follow; `before`: who is open until then."""
        week, clock = self.week, self._agent.clock
        if week is not None and self._day < len(week.days):
            at_ns, opening = self._day_ns(week), self._opening(week, self._day)
        else:
            week = min(self._waiting.values(), key=self._settles_ns, default=None)
            # Not while some flow is still to be shut, nor while a class is paused: it may be that of one of them then.
            if week is None or not week.days or self._settles_ns(week) < week.start_ns or self._agent.rules.says(Rule.PAUSE):
                return None
            at_ns, opening = week.start_ns, self._opening(week, 0)
        return Step(clock.local(at_ns), before - opening, opening - before)

    def _day_ns(self, week: Week) -> int:
        """When the next day begins, by the leader's clock."""
        return week.start_ns + self._day * week.day_ns

    def _is_due(self, at_ns: int) -> bool:
        return self._agent.clock.local(at_ns) == self._due_ns

    def _changed(self) -> None:
        """Weeks, or what is held, are others."""
        self._settle_ns.clear()
        self._openings.clear()

    def _opening(self, week: Week, day: int) -> frozenset[int]:
        """Who is open on a day: by PFC all of the week's, on one long day of which the frames decide."""
        found = self._openings.get((week.week, day))
        if found is None:
            mask = week.active if week.transport is Transport.PFC else week.days[day]
            flows = self._flows if week is self.week else self._destinations[week.week]
            found = self._openings[week.week, day] = frozenset(flow for bit, flow in enumerate(flows) if mask >> bit & 1)
        return found

    def _plan(self) -> None:
        """When the next step is, by our clock as it is known now."""
        due: list[int] = []
        week = self.week
        if week is not None:
            if self._night:
                due.append(self._day_ns(week) - week.night_ns)
            elif self._day < len(week.days):
                due.append(self._day_ns(week))
            else:
                due.append(week.start_ns + week.lease_ns)
        due += [self._settles_ns(following) for following in self._waiting.values()]
        self._due_ns = self._agent.clock.local(min(due)) if due else None

    def _step(self, now_ns: int) -> None:
        clock, week = self._agent.clock, self.week
        following = min(self._waiting.values(), key=self._settles_ns, default=None)
        if following is not None and clock.local(following.start_ns) <= now_ns:
            self._begin(self._waiting.pop(following.week))
        elif following is not None and clock.local(self._settles_ns(following)) <= now_ns:
            self._settle(following)
        elif week is not None and self._night:
            self._begin_night(week)
        elif week is not None and self._day < len(week.days):
            self._open_day(week, now_ns)
        elif week is not None:  # the lease is over, and nobody renewed it
            self._free()

    def _begin_night(self, week: Week) -> None:
        self._night = False
        self._shut()
        if week.transport is Transport.PFC:  # of which this is the last
            self._agent.rules.on_last_night()

    def _settles_ns(self, week: Week) -> int:
        """When a week's flows are to be shut that are not yet, by the leader's clock."""
        found = self._settle_ns.get(week.week)
        if found is None:
            settled = week.week in self._settling
            strangers = () if settled else set(self._destinations[week.week]) - self._held
            found = self._settle_ns[week.week] = week.start_ns - len(strangers) * self._packet_ns
        return found

    def _settle(self, week: Week) -> None:
        flows = frozenset(self._destinations[week.week])
        self._settling.add(week.week)
        self._agent.rules.shut(Rule.WEEK, flows - self._held)
        self._held |= flows
        self._changed()

    def _begin(self, week: Week) -> None:
        """All flows of both weeks are shut, then classes change hands; the first day opens in the next step."""
        rules = self._agent.rules
        self._last = week.week
        if self.week is not None and self._night:  # we are later than the night was long
            self._begin_night(self.week)
        if not week.flows:
            self._free()
            return
        if week.week not in self._settling:
            self._settle(week)
        self._settling.discard(week.week)
        self._flows = self._destinations[week.week]
        rules.shut(Rule.WEEK, self._open)
        self._open = frozenset()
        active = [flow for bit, flow in enumerate(self._flows) if week.active >> bit & 1]
        rules.map({flow: number % CLASSES for number, flow in enumerate(active)}, Rule.WEEK)
        self._destinations = {number: its for number, its in self._destinations.items() if number in self._waiting}
        held = frozenset(self._flows).union(*(self._destinations[number] for number in self._settling))
        rules.free(Rule.WEEK, self._held - held)
        self._held = held
        self.week, self._day, self._night = week, 0, False
        self._changed()
        self.counters.weeks += 1

    def _open_day(self, week: Week, now_ns: int) -> None:
        start_ns = self._agent.clock.local(self._day_ns(week))
        last = len(week.days) - 1
        opening = self._opening(week, self._day)
        self._day = last + 1 if week.transport is Transport.PFC else self._day + 1
        # A night that would come at the next day's start is none, but the last day has one all the same.
        self._night = week.night_ns > 0 or self._day > last
        if now_ns >= self._agent.clock.local(self._day_ns(week) - week.night_ns):
            self.counters.missed_days += 1
            return
        rules = self._agent.rules
        rules.shut(Rule.WEEK, self._open - opening)
        rules.free(Rule.WEEK, opening - self._open)
        self._open = opening
        counters = self.counters
        counters.days += 1
        counters.lateness_ns.append((rules.acted_ns or self._clock()) - start_ns)
        if len(counters.lateness_ns) > SAMPLES:
            del counters.lateness_ns[: SAMPLES // 2]

    def _shut(self) -> None:
        self._agent.rules.shut(Rule.WEEK, self._open)
        self._open = frozenset()

    def _free(self) -> None:
        self._forget()
        self._agent.rules.clear(Rule.WEEK)
        self._agent.rules.map({}, Rule.WEEK)

    def _forget(self) -> None:
        self.week, self._flows, self._open, self._held = None, (), frozenset(), frozenset()
        self._settling.clear()
        self._changed()
        self._day, self._night, self._due_ns = 0, False, None

    # -- the agent's life -----------------------------------------------------------------------------------------------

    def new_leader(self, now_ns: int) -> None:
        """Its weeks are numbered anew."""
        self._last = -1
        self.released(now_ns)

    def released(self, now_ns: int) -> None:
        """All is free; a schedule begins again with the next week that is told."""
        self._waiting.clear()
        self._forget()
        self._agent.rules.map({}, Rule.WEEK)
