"""What hosts say of themselves, as the store has it and as `baton doctor --hosts` compares it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kernel.capabilities import CAP_BPF, CAP_IPC_LOCK, CAP_NET_ADMIN, CAP_SYS_ADMIN, WANTED, chosen
from agents.membership.upkeep import headline
from cli.machine.doctor_hosts import HostProblem, findings, rows
from controller.members.event_budget import MOST, PERIOD_NS
from controller.members.health import HostHealth
from controller.members.registry import Figures, Member
from protocol.bodies.host_state import NEVER_MS, TEXT_BYTES_MAX, WARNING, HostState, shortened

SECOND = 1_000_000_000
WALL = 1_700_000_000 * SECOND


def member(node: int = 16) -> Member:
    return Member(node, f"h{node}", bytes(6), 10**9, (), "tbf", "1", Figures())


def state(put_back: int = 0, ago_ms: int = NEVER_MS, *lines: str, wall_ns: int = 0, leader_ns: int = 0) -> HostState:
    return HostState(0xABC, wall_ns, leader_ns, 3_000, put_back, ago_ms, "6.18", lines)


class Told:
    """A coordinator's part whose wall clock is WALL when its monotonic one is 0, and the events it told."""

    def __init__(self) -> None:
        self.events: list[list[str]] = []
        self.part = HostHealth(lambda value: self.events.append(value["event"]), lambda: WALL)

    def hear(self, message: HostState, node: int = 16, now_ns: int = 0) -> dict[str, Any]:
        self.part.handlers[HostState](member(node), message, now_ns)
        return self.part.of_member(node)


class TestTheCoordinatorsSide:
    """controller/members/health.py."""

    def test_a_wall_clocks_offset_is_what_it_shows_more_than_ours_at_one_instant(self) -> None:
        found = Told().hear(state(wall_ns=WALL + 5 * SECOND + 2_000_000, leader_ns=5 * SECOND))
        assert (found["offset_us"], found["uncertainty_us"]) == (2_000, 3)

    def test_a_clock_that_is_not_known_has_no_offset(self) -> None:
        assert "offset_us" not in Told().hear(state())

    def test_a_new_put_back_is_an_event_once_and_a_line_of_the_member(self) -> None:
        told = Told()
        told.hear(state())
        for _ in range(2):
            found = told.hear(state(1, 20, "eth0: qdisc htb 1: is missing"))
        assert told.events == [["drift", "warning", "h16: put back: eth0: qdisc htb 1: is missing"]]
        assert found["drift"] == ["put back: eth0: qdisc htb 1: is missing"]
        told.hear(state(3, 20, "a", "b", "c"))
        assert [event[2] for event in told.events[1:]] == ["h16: put back: b", "h16: put back: c"]

    def test_a_host_that_puts_back_all_the_time_leaves_room_for_others_events(self) -> None:
        told = Told()
        for count in range(5 * MOST):
            told.hear(state(count, 20, "a"))
        told.hear(state(1, 20, "b"), node=17)
        assert len(told.events) == MOST + 1 and told.events[-1][2] == "h17: put back: b"
        told.hear(state(5 * MOST, 20, "c"), now_ns=PERIOD_NS)
        assert told.events[-1][2] == f"h16: put back: c ({4 * MOST - 1} events of this host are left out)"

    def test_an_agent_that_began_again_is_heard_again(self) -> None:
        told = Told()
        told.hear(state(3, 20, "a", "b", "c"))
        told.hear(state(1, 20, "d"))
        assert told.events[-1][2] == "h16: put back: d"

    def test_a_new_leader_does_not_tell_old_news_but_shows_it(self) -> None:
        told = Told()
        assert told.hear(state(2, 60_000, "a", "b"))["drift"] == ["put back: a", "put back: b"]
        assert not told.events

    def test_after_ten_minutes_it_is_only_counted(self) -> None:
        found = Told().hear(state(2, 600_000, "a", "b"))
        assert (found["drift"], found["put_back"]) == ([], 2)

    def test_what_stands_in_an_agents_way_is_a_warning_as_long_as_it_tells_so_and_no_event(self) -> None:
        told = Told()
        found = told.hear(state(1, 20, f"{WARNING}eth0: a filter; move it", "a"))
        assert (told.part.warnings_of(16), found["drift"]) == (["eth0: a filter; move it"], ["put back: a"])
        assert [event[2] for event in told.events] == ["h16: put back: a"]
        told.hear(state(1, 20, "a"))
        assert told.part.warnings_of(16) == told.part.warnings_of(17) == []

    def test_who_left_is_forgotten(self) -> None:
        told = Told()
        told.hear(state())
        told.part.left(16, 0)
        assert told.part.of_member(16) == {}


def record(name: str, **changes: object) -> dict[str, Any]:
    usual = {"kernel": "6.18", "version": "1", "gate": "tbf", "key": "ab", "offset_us": 0, "uncertainty_us": 100, "drift": []}
    return {"name": name, "addresses": [f"10.0.0.{name[1:]}"], "mac": f"02:{name}"} | usual | changes


STATUS: dict[str, Any] = {"mac": "02:c", "refused": {}, "unplaced": []}


def found_in(
    *records: dict[str, Any], status: dict[str, Any] | None = STATUS, hosts: tuple[dict[str, Any], ...] = ()
) -> list[HostProblem]:
    return findings(dict(enumerate(records, 16)), status, {"fabric": {"hosts": hosts}})


class TestTheComparison:
    """cli/machine/doctor_hosts.py."""

    def test_hosts_that_agree_have_no_findings(self) -> None:
        assert found_in(record("h1"), record("h2")) == []

    @pytest.mark.parametrize("field", ["kernel", "version", "gate", "key"])
    def test_the_odd_one_out_is_named_with_a_remedy(self, field: str) -> None:
        (one,) = found_in(record("h1"), record("h2", **{field: "other"}), record("h3"))
        assert (one.host, one.what) == ("h2", field)
        assert one.found.startswith("other, most have ")
        assert one.remedy

    @pytest.mark.parametrize(
        ("changes", "what"),
        [
            ({"offset_us": -51_000}, "wall clock"),
            ({"uncertainty_us": 2_001}, "clock uncertainty"),
            ({"heard_ms_ago": 1_500}, "silence"),
            ({"drift": ["put back: x"]}, "drift"),
            ({"suspect": ["sends outside its slots"]}, "suspect"),
            ({"refused": {"replay": 3, "tag": 0}}, "frames it refused"),
        ],
    )
    def test_what_is_amiss_at_a_host_is_told(self, changes: dict[str, Any], what: str) -> None:
        assert [(one.host, one.what) for one in found_in(record("h1", **changes))] == [("h1", what)]

    def test_frames_that_were_refused_some_time_ago_are_no_finding(self) -> None:
        before = {16: record("h1", refused={"1": 3, "12": 7}), 17: record("h2", refused={"1": 8})}
        now = {16: record("h1", refused={"1": 3, "12": 9}), 17: before[17], 18: record("h3", refused={"12": 4})}
        found = [(one.host, one.found) for one in findings(now, STATUS, None, before=before)]
        assert found == [("h1", "not_ours: 2"), ("h3", "not_ours: 4")]

    def test_an_agent_that_was_started_anew_counts_from_nothing(self) -> None:
        before, now = {16: record("h1", refused={"12": 7})}, {16: record("h1", refused={"12": 2})}
        assert [one.found for one in findings(now, STATUS, None, before=before)] == ["not_ours: 2"]

    def test_an_offset_within_what_is_not_known_is_none(self) -> None:
        assert not [one for one in found_in(record("h1", offset_us=60_000, uncertainty_us=11_000)) if one.what == "wall clock"]

    def test_a_host_of_the_fabric_without_an_agent_is_told_but_not_the_coordinators(self) -> None:
        hosts = (
            {"name": "h1", "mac": None, "addresses": []},
            {"name": "s1:p2", "mac": None, "addresses": ["10.0.0.2"]},
            {"name": "s1:p9", "mac": "02:c", "addresses": []},
            {"name": "h3", "mac": "02:h3", "addresses": ["10.0.0.3"]},
        )
        found = found_in(record("h1"), record("h2"), hosts=hosts)
        assert [(one.host, one.what) for one in found] == [("h3", "agent")]

    def test_another_key_and_a_silent_coordinator_are_the_fabrics(self) -> None:
        assert [one.what for one in found_in(status={**STATUS, "refused": {"tag": 7}})] == ["frames of another key"]
        assert [one.what for one in found_in(status=None)] == ["coordinator"]

    def test_without_a_member_nothing_agrees(self) -> None:
        (one,) = found_in()
        assert (one.host, one.what) == ("", "agents") and "baton install-units" in one.remedy
        assert [one.host for one in found_in(hosts=({"name": "h3", "mac": None, "addresses": []},))] == ["h3"]

    def test_a_member_of_an_older_version_lacks_only_what_it_does_not_tell(self) -> None:
        (row,) = rows({16: {"name": "h1", "gate": "tbf", "version": "0"}})
        assert (row["name"], row["kernel"], row["offset_us"]) == ("h1", None, None)
        assert findings({16: {"name": "h1"}}, STATUS, None) == []


class TestTheAgentsSide:
    """agents/membership/upkeep.py and capabilities.py, where they are pure."""

    def test_a_look_is_one_line_which_names_a_qdisc_first(self) -> None:
        assert headline(["eth0: class 1:2 is missing", "eth0: qdisc htb 1: is missing"]) == (
            "eth0: qdisc htb 1: is missing, and 1 more"
        )
        assert headline(["the tagger's filter was missing"]) == "the tagger's filter was missing"

    @given(st.text())
    def test_any_text_is_cut_to_what_fits(self, text: str) -> None:
        assert len(shortened(text).encode()) <= TEXT_BYTES_MAX

    @given(st.frozensets(st.integers(0, 63)), st.booleans())
    def test_nothing_is_kept_that_was_not_held_and_little_of_what_was(self, held: frozenset[int], free: bool) -> None:
        kept = chosen(held, memory_is_free=free)
        assert kept <= held
        assert kept <= WANTED | {CAP_IPC_LOCK, CAP_SYS_ADMIN}
        assert CAP_IPC_LOCK not in kept or not free
        assert CAP_SYS_ADMIN not in kept or CAP_BPF not in held

    def test_of_all_four_are_kept(self) -> None:
        assert chosen(frozenset(range(41)), memory_is_free=True) == WANTED
        assert CAP_NET_ADMIN in WANTED
