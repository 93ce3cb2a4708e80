"""An agent's priorities without a kernel: when it asks, when it reports, and what it does without a tagger."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents import run
from agents.config import AgentConfig
from agents.priorities import priorities
from agents.priorities.mcp_settings import McpSettings
from agents.priorities.priorities import ASK_AGAIN_NS, MOST_ASK_NS, MOST_POSTPONED, Priorities
from agents.priorities.tagger import SHORT_BYTES, TaggerSettings
from agents.queues.classifier import Address
from ebpf.libbpf import BpfError
from protocol.bodies.flows.coflow_report import CoflowReport
from protocol.bodies.flows.priorities import SIZE_ROW
from protocol.bodies.groups import GroupsChange
from protocol.messages import Coflows, Directory, Heartbeat, Override, Paths, Regulate, Thresholds, ThresholdsRequest

SECOND = 10**9
MESSAGE = Thresholds(5, SECOND, 3, 3, (10, 20), (5, 9))


@dataclass
class FakeTagger:
    """A tagger that records its calls."""

    interface: str
    told: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    ends: list[SimpleNamespace] = field(default_factory=list)
    coflows: dict[int, int] = field(default_factory=dict)
    short_bytes: list[int] = field(default_factory=list)
    sweeps: int = 0
    coflow_counts: dict[tuple[int, Address], int] = field(default_factory=dict)

    def set_settings(self, settings: TaggerSettings) -> None:
        self.short_bytes.append(settings.short_bytes)

    def set_thresholds(self, version: int, beta: tuple[int, ...], alpha: tuple[int, ...]) -> None:
        self.told.append((version, beta, alpha))

    def set_coflows(self, queues: dict[int, int]) -> None:
        self.coflows = queues

    def coflow_bytes(self) -> dict[tuple[int, Address], int]:
        return self.coflow_counts

    def version(self) -> int:
        return self.told[-1][0] if self.told else 0

    def ended(self) -> list[SimpleNamespace]:
        found, self.ends = self.ends, []
        return found

    def sweep(self) -> int:
        self.sweeps += 1
        return 0

    def close(self) -> None:
        pass


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Priorities]:
    def refuse(*_: object) -> None:
        raise BpfError(22, "no struct_ops")

    monkeypatch.setattr(priorities, "Tagger", FakeTagger)
    monkeypatch.setattr(priorities, "CongestionControl", refuse)
    agent = SimpleNamespace(member=True, idle=True, enforcing=True, needs_permission=lambda _: False)
    found = Priorities(agent, "eth0", SECOND)
    yield found
    found.close()


def tagger(made: Priorities) -> FakeTagger:
    return made._tagger  # type: ignore[return-value]  # put there by the fixture


def test_bytes_of_coflows_are_reported_by_the_numbers_of_nodes_that_this_leader_has_told(made: Priorities) -> None:
    address = IPv4Address("10.0.0.2")
    tagger(made).coflow_counts = {(5, address): 100}
    assert made.coflow_reports(SECOND) == []
    made.handlers[Directory](Directory(1, 0, 1, ((16, (address,)),)), SECOND)
    assert made.coflow_reports(SECOND) == [CoflowReport(((5, 16, 100),))]
    made.new_leader(2 * SECOND)
    assert made.coflow_reports(2 * SECOND) == []
    made.handlers[Directory](Directory(1, 0, 1, ((17, (address,)),)), 2 * SECOND)
    assert made.coflow_reports(2 * SECOND) == [CoflowReport(((5, 17, 100),))]


def test_a_congestion_control_that_another_agent_took_with_it_is_a_warning_with_the_remedy(made: Priorities) -> None:
    assert made.warnings() == []
    made._control = cast(Any, SimpleNamespace(gone=lambda: ["baton_dctcp", "baton_mcp"], close=lambda: None))
    assert made.warnings() == [
        "flows get no baton_dctcp and baton_mcp: the agent that had registered it here has ended; restart this agent"
    ]


class TestAsking:
    """An agent with another version than the heartbeat's requests thresholds, repeatedly but not at every heartbeat."""

    def test_a_version_that_is_not_ours_is_asked_for_until_it_comes(self, made: Priorities) -> None:
        assert made.on_version(5, SECOND) == ThresholdsRequest(0)
        assert made.on_version(5, SECOND + 1) is None
        assert made.on_version(5, SECOND + ASK_AGAIN_NS) == ThresholdsRequest(0)
        made.on_thresholds(MESSAGE, 2 * SECOND)
        assert made.on_version(5, 3 * SECOND) is None
        assert made.on_version(6, 3 * SECOND) == ThresholdsRequest(5)
        assert tagger(made).told == [(5, (10, 20), (5, 9))]

    def test_a_leader_that_does_not_answer_is_asked_less_and_less_often(self, made: Priorities) -> None:
        asked = [now_ns for now_ns in range(SECOND, 101 * SECOND, SECOND // 100) if made.on_version(5, now_ns)]
        gaps = [later - earlier for earlier, later in pairwise(asked)]
        assert gaps == sorted(gaps) and gaps[0] == ASK_AGAIN_NS and gaps[-1] == MOST_ASK_NS and len(asked) < 30
        assert made.on_version(6, 101 * SECOND), "news is asked for at once"
        assert made.on_version(6, 101 * SECOND + ASK_AGAIN_NS)

    def test_version_0_is_never_asked_for(self, made: Priorities) -> None:
        assert made.on_version(0, SECOND) is None

    def test_a_new_leaders_version_is_asked_for_though_it_has_the_same_number(self, made: Priorities) -> None:
        made.on_thresholds(MESSAGE, 0)
        made.new_leader(1)
        assert made.on_version(5, SECOND) == ThresholdsRequest(0)


class TestReports:
    """Reports once a period, of the flows that ended in it."""

    def test_nothing_is_reported_before_the_coordinator_wants_it(self, made: Priorities) -> None:
        assert made.reports(100 * SECOND, idle=True) == []

    def test_every_flow_is_in_one_report_and_the_periods_are_the_time_that_passed(self, made: Priorities) -> None:
        made.on_thresholds(MESSAGE, 0)
        reports = []
        for at_ns in range(0, 10 * SECOND, SECOND * 3 // 10):
            tagger(made).ends.append(SimpleNamespace(flow_type=3, size_bytes=1000))
            reports += made.reports(at_ns, idle=True)
        flows = sum(SIZE_ROW.struct.unpack(report.rows)[2] for report in reports)
        assert flows == sum(report.period_ns for report in reports) // (SECOND * 3 // 10) + 1
        assert {report.version for report in reports} == {5}
        assert len(reports) == 8  # the first is due after 1.2 s, the time of the fourth look

    def test_the_table_is_swept_when_there_are_no_slots_and_seldom_otherwise(self, made: Priorities) -> None:
        made.on_thresholds(MESSAGE, 0)
        for at in range(1, MOST_POSTPONED + 1):
            made.reports(at * SECOND, idle=False)
        assert tagger(made).sweeps == 0
        made.reports((MOST_POSTPONED + 1) * SECOND, idle=False)
        assert tagger(made).sweeps == 1
        made.reports((MOST_POSTPONED + 2) * SECOND, idle=True)
        assert tagger(made).sweeps == 2

    def test_it_stops_when_the_coordinator_wants_no_more(self, made: Priorities) -> None:
        made.on_thresholds(MESSAGE, 0)
        made.on_version(0, SECOND)
        assert made.reports(9 * SECOND, idle=True) == []


def test_the_coflows_order_is_taken_when_all_its_pages_are_there(made: Priorities) -> None:
    made.on_coflows(Coflows(1, 1, 2, ((2, 1),)), 0)
    assert tagger(made).coflows == {}
    made.on_coflows(Coflows(1, 0, 2, ((1, 0),)), 0)
    assert tagger(made).coflows == {1: 0, 2: 1}


def test_where_there_can_be_no_tagger_the_agent_says_why_and_goes_on_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise BpfError(1, "tagger: the kernel does not take it: Operation not permitted")

    monkeypatch.setattr(run, "Priorities", refuse)
    with caplog.at_level(logging.WARNING):
        config = AgentConfig("eth0", SECOND, Path("key"), priorities=True)
        assert run._priorities(SimpleNamespace(config=config)) is None
    assert "Operation not permitted" in caplog.text


class FakeChooser:
    """A chooser that records the addresses behind a gate."""

    gated: tuple[IPv4Address, ...] = ()

    def gate(self, addresses: Iterable[IPv4Address]) -> None:
        self.gated = tuple(addresses)

    def close(self) -> None:
        pass


class TestGates:
    """A flow with a deadline gets no MCP behind a gate that waits for permission, and short flows do not share its queue."""

    @pytest.mark.parametrize("message", [Regulate(1, 0, 1, (16,)), GroupsChange(0, 1, 0, 1, ())])
    def test_the_addresses_of_regulated_nodes_are_told_until_all_is_released(
        self, made: Priorities, message: Regulate | GroupsChange
    ) -> None:
        chooser, at = FakeChooser(), {node: IPv4Address(f"10.0.0.{node}") for node in (16, 17)}
        made._chooser = chooser  # type: ignore[assignment]  # the kernel's is not there
        regulated = set[int]()
        made._agent.needs_permission = regulated.__contains__  # type: ignore[assignment]  # of the fixture
        made.handlers[Directory](Directory(1, 0, 1, tuple((node, (address,)) for node, address in at.items())), 0)
        assert chooser.gated == ()
        regulated.add(16)
        made.handlers[type(message)](message, 0)
        assert chooser.gated == (at[16],)
        regulated.clear()
        assert tagger(made).short_bytes == [0]
        made.released(1)
        assert chooser.gated == ()
        made.released(2)
        assert tagger(made).short_bytes == [0, SHORT_BYTES]

    def test_who_waits_for_permission_is_known_again_once_a_silent_leader_is_heard(self, made: Priorities) -> None:
        agent: Any = made._agent
        agent.needs_permission = lambda _: agent.enforcing
        made.handlers[Directory](Directory(1, 0, 1, ((17, (IPv4Address("10.0.0.17"),)),)), 0)
        agent.enforcing = False
        made.released(1)
        agent.enforcing = True
        made.handlers[Heartbeat](Heartbeat(Override.COORDINATE, 1, 1), 2)
        assert tagger(made).short_bytes == [0, SHORT_BYTES, 0]


class FakeControl:
    """Congestion control that records MCP's settings, common ones and by address."""

    def __init__(self) -> None:
        self.common: list[McpSettings] = []
        self.paths: dict[Address, McpSettings] = {}

    def configure(self, settings: McpSettings) -> bool:
        self.common.append(settings)
        return True

    def set_paths(self, paths: Mapping[Address, McpSettings]) -> int:
        self.paths = dict(paths)
        return 0

    def close(self) -> None:
        pass


class TestPaths:
    """MCP takes the link's rate and the marking threshold from what the leader tells, not from the host's own interface."""

    def test_the_usual_path_and_those_that_differ_are_set_by_address(self, made: Priorities) -> None:
        made._control = control = FakeControl()  # type: ignore[assignment]  # the kernel's is not there
        made.handlers[Paths](Paths(1, 0, 1, 10**8, 30_280, ((17, 10**7, 15_140),)), 0)
        usual = control.common[-1]
        assert (usual.link_bps, usual.marking_packets, usual.crowd_packets) == (10**8, 20, 10)
        assert not control.paths, "the directory has not come yet"
        at = {node: IPv4Address(f"10.0.0.{node}") for node in (16, 17)}
        made.handlers[Directory](Directory(1, 0, 1, tuple((node, (address,)) for node, address in at.items())), 0)
        slow = control.paths[at[17]]
        assert control.paths.keys() == {at[17]} and (slow.link_bps, slow.marking_packets) == (10**7, 10)

    def test_another_leader_numbers_the_nodes_anew_and_until_it_tells_paths_all_are_usual(self, made: Priorities) -> None:
        made._control = control = FakeControl()  # type: ignore[assignment]  # the kernel's is not there
        moved, other = map(IPv4Address, ("10.0.0.1", "10.0.0.2"))
        made.handlers[Directory](Directory(1, 0, 1, ((16, (other,)), (17, (moved,)))), 0)
        made.handlers[Paths](Paths(9, 0, 1, 10**8, 30_280, ((17, 10**7, 15_140),)), 0)
        made.new_leader(1)
        made.handlers[Directory](Directory(1, 0, 1, ((16, (moved,)), (17, (other,)))), 1)
        assert control.paths == {} and control.common[-1] == priorities.mcp_settings(SECOND, 20)
        made.handlers[Paths](Paths(1, 0, 1, 10**8, 30_280, ((16, 10**7, 15_140),)), 1)
        assert control.paths.keys() == {moved} and control.common[-1].link_bps == 10**8

    def test_an_older_state_that_comes_late_does_not_replace_a_newer_one(self, made: Priorities) -> None:
        made._control = control = FakeControl()  # type: ignore[assignment]  # the kernel's is not there
        for version in (2, 1):
            made.handlers[Paths](Paths(version, 0, 1, version * 10**8, 30_280, ()), 0)
            made.on_coflows(Coflows(version, 0, 1, ((version, 3),)), 0)
        assert control.common[-1].link_bps == 2 * 10**8 and tagger(made).coflows == {2: 3}

    def test_thresholds_change_the_termination_and_keep_the_path(self, made: Priorities) -> None:
        made._control = control = FakeControl()  # type: ignore[assignment]  # the kernel's is not there
        made.handlers[Paths](Paths(1, 0, 1, 10**8, 30_280, ()), 0)
        made.on_thresholds(MESSAGE, 0)
        assert control.common[-1].link_bps == 10**8 and control.common[-1].termination == MESSAGE.termination

    def test_a_path_that_is_absurd_is_brought_within_mcps_limits(self) -> None:
        made = priorities.mcp_settings(1, 10**6)
        assert made.link_bps == 100_000 and made.marking_packets == 10_000
