"""The policy `weekly`: who is told which days, that no link is asked too much, and what its settings refuse."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config import reading
from controller.config.settings import CoordinatorSettings
from controller.config.weekly_settings import WeeklyFlow, WeeklySettings
from controller.members.registry import Members
from controller.policies.base import Plan
from controller.policies.weekly import Weekly, by_nodes, calendar, turns
from controller.scheduling.week_frames import WeekFrames
from protocol import pfc
from protocol.bodies.host_control import Transport, Week, WeekKey, check_week
from protocol.timers import Timers
from tests.unit.controller.policies.policy_networks import FIRST, MBIT, star

US, MS = 1_000, 1_000_000
LEAD = 1_500 * US
HOSTS = 6
pairs_among = st.sets(
    st.tuples(st.integers(FIRST, FIRST + HOSTS - 1), st.integers(FIRST, FIRST + HOSTS - 1)).filter(lambda p: p[0] != p[1])
)


def weeks_of(policy: Weekly, until_ns: int, step_ns: int = MS) -> list[tuple[int, int, Week]]:
    """(when, to which node, what) as granting would ask for them: at each event, `LEAD` ahead of it."""
    told, now = [], 0
    while now <= until_ns:
        told += [(now, node, week) for node, week in policy.plan(now_ns=now, horizon_ns=now + LEAD).weeks]
        event = policy.next_event_ns()
        now = max(now + 1, event - LEAD) if event is not None else now + step_ns
    return told


def made(pairs: set[tuple[int, int]], **changes: object) -> Weekly:
    policy = Weekly(dataclasses.replace(WeeklySettings(), **changes))  # type: ignore[arg-type]
    policy.set_network(star(HOSTS), now_ns=0)
    regulated = {node: frozenset(d for n, d in pairs if n == node) for node, _ in pairs}
    policy.set_regulated(regulated, now_ns=0)
    return policy


class TestTurns:
    """Without appointed days the pairs take turns."""

    @given(pairs_among, st.integers(1, 20))
    @settings(max_examples=50, deadline=None)
    def test_on_no_day_does_a_host_send_to_two_or_a_link_carry_more_than_it_can(
        self, pairs: set[tuple[int, int]], days: int
    ) -> None:
        network = star(HOSTS, rates={FIRST: 40 * MBIT})
        for day in calendar(pairs, network, days, {}, 0):
            assert len({node for node, _ in day}) == len(day)
            load: Counter[object] = Counter()
            for pair in day:
                for link in network.path(*pair):
                    load[link] += min(network.node_rate_bps(pair[0]), network.capacity_bps(link))
            assert all(load[link] <= network.capacity_bps(link) for link in load)

    @given(pairs_among.filter(bool), st.integers(1, 20))
    @settings(max_examples=50, deadline=None)
    def test_every_pair_has_a_day_among_any_as_many_as_there_are_pairs(self, pairs: set[tuple[int, int]], week: int) -> None:
        last: dict[tuple[int, int], int] = {}
        days: list[list[tuple[int, int]]] = []
        while len(days) < 3 * len(pairs):
            days += calendar(pairs, star(HOSTS), week, last, len(days))
        for start in range(len(days) - len(pairs) + 1):
            assert {pair for day in days[start : start + len(pairs)] for pair in day} == pairs

    def test_no_pair_could_be_added_to_a_day(self) -> None:
        pairs = {(FIRST + a, FIRST + b) for a in range(4) for b in range(4) if a != b}
        for day in calendar(pairs, star(4), 6, {}, 0):
            assert len(day) == 4


class TestTelling:
    """Weeks are told ahead, twice, one after the other."""

    @given(pairs_among.filter(bool), st.integers(1, 16), st.sampled_from([200 * US, 2 * MS, 40 * MS]))
    @settings(max_examples=30, deadline=None)
    def test_weeks_of_a_node_follow_each_other_and_are_told_before_they_begin(
        self, pairs: set[tuple[int, int]], days: int, day_ns: int
    ) -> None:
        policy = made(pairs, days=days, day_ns=day_ns)
        until = 5 * days * day_ns + LEAD
        told = weeks_of(policy, until)
        for node in {node for node, _ in pairs}:
            found: dict[int, Week] = {}
            copies: Counter[int] = Counter()
            for now, to, week in told:
                if to == node:
                    check_week(week)
                    assert now <= week.start_ns - LEAD // 2
                    assert found.setdefault(week.week, week) == week
                    copies[week.week] += 1
            weeks = sorted(found.values(), key=lambda week: week.week)
            assert len(weeks) >= 4
            assert all(before.end_ns == after.start_ns for before, after in pairwise(weeks))
            assert all(week.flows == tuple(sorted(d for n, d in pairs if n == node)) for week in weeks)
            assert all(mask.bit_count() <= 1 for week in weeks for mask in week.days)
            assert all(copies[week.week] == 2 for week in weeks if week.start_ns <= until)

    def test_who_is_no_more_scheduled_is_told_so(self) -> None:
        policy = made({(FIRST, FIRST + 1), (FIRST + 2, FIRST + 1)})
        told = weeks_of(policy, 20 * MS)
        policy.set_regulated({FIRST: frozenset({FIRST + 1})}, now_ns=20 * MS)
        later = policy.plan(now_ns=40 * MS, horizon_ns=40 * MS + LEAD).weeks
        gone = [week for node, week in later if node == FIRST + 2]
        assert [week.flows for week in gone][-1] == ()
        assert gone[-1].week > max(week.week for _, node, week in told if node == FIRST + 2)

    def test_when_nothing_is_contended_any_more_everybody_is_told_twice_and_then_nobody(self) -> None:
        policy = made({(FIRST, FIRST + 1)})
        weeks_of(policy, 20 * MS)
        policy.set_regulated({}, now_ns=20 * MS)
        told = []
        for step in range(40):
            now = 20 * MS + step * MS
            told += policy.plan(now_ns=now, horizon_ns=now + LEAD).weeks
        assert len([week for _, week in told if not week.flows]) == 2
        assert policy.next_event_ns() is None

    def test_a_policy_that_retires_frees_every_flow_once(self) -> None:
        policy = made({(FIRST, FIRST + 1)})
        policy.plan(now_ns=0, horizon_ns=LEAD)
        assert [(node, week.flows) for node, week in policy.retire(now_ns=MS).weeks] == [(FIRST, ())]
        assert policy.retire(now_ns=2 * MS) == Plan()

    def test_after_a_standstill_the_next_week_begins_ahead_not_in_the_past(self) -> None:
        policy = made({(FIRST, FIRST + 1)})
        policy.plan(now_ns=0, horizon_ns=LEAD)
        weeks = policy.plan(now_ns=500 * MS, horizon_ns=500 * MS + LEAD).weeks
        assert weeks[-1][1].start_ns == 500 * MS + LEAD

    def test_appointed_days_are_kept_and_a_host_that_left_is_in_none(self) -> None:
        policy = made(set(), flows=(WeeklyFlow("h1", "h2", (0, 3)), WeeklyFlow("h1", "h3", (1,))))
        nodes = {"h1": FIRST, "h2": FIRST + 1, "h3": FIRST + 2}
        policy.appoint(by_nodes(policy._settings, nodes))
        ((node, week),) = policy.plan(now_ns=0, horizon_ns=LEAD).weeks
        assert (node, week.flows, week.days) == (FIRST, (FIRST + 1, FIRST + 2), (1, 2, 0, 1, 0, 0, 0, 0))
        policy.left(FIRST + 2, now_ns=MS)
        *_, (node, week) = policy.plan(now_ns=MS, horizon_ns=40 * MS).weeks
        assert week.flows == (FIRST + 1,)

    def test_flows_by_tos_are_dscps(self) -> None:
        policy = made(set(), key="tos", flows=(WeeklyFlow("h1", 10, (0,)), WeeklyFlow("h1", 46, (1,))))
        policy.appoint(by_nodes(policy._settings, {"h1": FIRST}))
        ((_, week),) = policy.plan(now_ns=0, horizon_ns=LEAD).weeks
        assert (week.key, week.flows, week.days[:2]) == (WeekKey.TOS, (10, 46), (1, 2))


class TestFrames:
    """Days by PFC frames."""

    WEEK = Week(7, 10 * MS, 2 * MS, 100 * US, 10**9, WeekKey.DESTINATION, Transport.PFC, (16, 17, 18), (0b001, 0b100))

    def test_on_its_day_a_flows_class_is_open_and_in_the_nights_none_is(self) -> None:
        pause = pfc.MAX_QUANTA
        assert [(turn.at_ns, dict(turn.quanta)) for turn in turns(self.WEEK)] == [
            (10 * MS, {0: 0, 1: pause}),
            (12 * MS - 100 * US, {0: pause, 1: pause}),
            (12 * MS, {0: pause, 1: 0}),
            (14 * MS - 100 * US, {0: pause, 1: pause}),
        ]

    def test_frames_are_sent_once_at_their_times_and_pauses_longer_than_a_frame_can_say_again(self) -> None:
        members, timers = Members(), Timers()
        member = members.register(b"\2\0\0\0\0\1", "h1", 100_000 * MBIT, (), "TBF", "", 0)
        sent: list[tuple[int, pfc.PfcFrame | pfc.PauseFrame]] = []
        now = 0
        frames = WeekFrames(timers, lambda frame: sent.append((now, pfc.decode(frame))), b"\2\0\0\0\0\2")
        frames.take(member, self.WEEK, 0)
        frames.take(member, self.WEEK, 0)  # told twice
        timers.at(10**12, lambda _: None)
        while (now := timers.next_ns()) < 10**12:
            timers.run(now)
        longest = pfc.longest_ns(100_000 * MBIT)
        assert max(after - before for (before, _), (after, _) in pairwise(sent)) <= longest
        assert [at for at, _ in sent] == sorted({at for at, _ in sent})
        for at, frame in sent:
            assert isinstance(frame, pfc.PfcFrame)
            day, into = divmod(at - 10 * MS, 2 * MS)
            is_open = [priority for priority, quanta in frame.quanta.items() if not quanta]
            assert is_open == ([] if into >= 2 * MS - 100 * US else [day])

    def test_a_week_without_days_by_which_a_host_is_freed_sends_nothing(self) -> None:
        members, timers = Members(), Timers()
        member = members.register(b"\2\0\0\0\0\1", "h1", 100 * MBIT, (), "TBF", "", 0)
        free = dataclasses.replace(self.WEEK, flows=(), days=())
        WeekFrames(timers, lambda frame: None, b"\2\0\0\0\0\2").take(member, free, 0)
        timers.at(10**12, lambda _: None)
        assert timers.next_ns() == 10**12


class TestSettings:
    """What is refused, by field and with a remedy."""

    @pytest.mark.parametrize(
        ("changes", "field", "text"),
        [
            ({"day_ns": 100 * US}, "day", "200us to 40ms"),
            ({"day_ns": 41 * MS}, "day", "200us to 40ms"),
            ({"night_ns": 2 * MS}, "night", "not shorter than the day"),
            ({"days": 0}, "days", "1 to 64"),
            ({"days": 65, "lease_ns": 10**10}, "days", "1 to 64"),
            ({"days": 64, "day_ns": 40 * MS}, "lease", "shorter than the week of 2560 ms"),
            ({"transport": "pfc", "night_ns": US, "days": 9}, "days", "at most 8 days"),
            ({"transport": "pfc"}, "night", "classes change hands"),
            ({"key": "tos"}, "flows", "name the flows by ToS"),
            ({"flows": (WeeklyFlow("h1", "h2", (1,)), WeeklyFlow("h1", "h3", (1,)))}, "flows", "overlapping days"),
            ({"flows": (WeeklyFlow("h1", "h2", (8,)),)}, "flows", "there is no day 8"),
            ({"flows": (WeeklyFlow("h1", "h2", ()),)}, "flows", "has no day"),
            ({"flows": (WeeklyFlow("h1", "h1", (0,)),)}, "flows", "sends nothing to itself"),
            ({"key": "tos", "flows": (WeeklyFlow("h1", 64, (0,)),)}, "flows", "not a DSCP"),
            (
                {"days": 64, "day_ns": MS, "flows": tuple(WeeklyFlow("h1", f"d{n}", (n % 64,)) for n in range(65))},
                "flows",
                "65 flows; at most 64",
            ),
        ],
    )
    def test_what_does_not_go_together_is_refused(self, changes: dict[str, object], field: str, text: str) -> None:
        wrong = dataclasses.replace(WeeklySettings(), **changes)  # type: ignore[arg-type]
        assert any(name == field and text in fault for name, fault in wrong.faults())
        with pytest.raises(ValueError, match=r"^weekly\."):
            Weekly(wrong)

    def test_they_survive_the_way_to_the_coordinator(self) -> None:
        weekly = WeeklySettings(days=4, key="tos", flows=(WeeklyFlow("h1", 10, (0, 2)),))
        sent = CoordinatorSettings(interface="c0", attachment="s1:1", key_file=Path("k"), store="unix:///x", weekly=weekly)
        assert CoordinatorSettings.from_json(sent.to_json()) == sent
        assert json.loads(sent.to_json())["weekly"]["days"] == 4

    def test_the_configuration_says_them_and_every_mistake_is_found_with_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "baton.yaml"
        text = (
            "coordinator:\n  interface: c0\n  attachment: s1:5\n  key_file: key\n  policy: weekly\n"
            "weekly:\n  day: 500us\n  night: 50us\n  days: 4\n  by: tos\n  flows:\n"
            "    h1 -> dscp:10: [0, 2]\n    h2 -> dscp:46: 1\n"
        )
        path.write_text(text)
        made = reading.load(path).coordinator_settings("unix:///x")
        assert made is not None
        assert made.weekly == WeeklySettings(
            day_ns=500 * US, night_ns=50 * US, days=4, key="tos",
            flows=(WeeklyFlow("h1", 10, (0, 2)), WeeklyFlow("h2", 46, (1,))),
        )  # fmt: skip
        path.write_text(text.replace("500us", "100us").replace("days: 4", "days: 65").replace("[0, 2]", "[first]"))
        assert {problem.line for problem in reading.check(path)} == {7, 9, 11}
        path.write_text(text.replace("h2 -> dscp:46: 1", "h1 -> dscp:46: 2"))
        (problem,) = reading.check(path)
        assert "overlapping days" in str(problem)
        assert problem.line == 11
