"""What a coordinator writes of itself and its members: `baton status`, the dashboard and Prometheus read it by these names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

import pytest

from controller.config.settings import CoordinatorSettings
from controller.coordinator.coordinator import Coordinator
from controller.coordinator.publication import AT_ONCE, PAUSE_NS, ROUND_NS, Publication
from controller.election.leadership import Leadership
from controller.election.rules import Election
from controller.members.part import STATUS_NS, Parts
from controller.members.registry import FIRST_NODE, Members
from controller.processes import jsonlines
from controller.processes.jsonlines import JsonLines
from controller.store.layout import EXPIRY_S
from protocol.bodies.flows.coflow_report import CoflowReport
from protocol.key import Key
from protocol.link import ControlSocket
from protocol.messages import (
    Ack,
    Backlog,
    Cause,
    Directive,
    FlowReport,
    GateKind,
    Grant,
    Message,
    Register,
    Report,
    Yield,
    decode,
    encode,
)
from protocol.timers import Mishaps, Timers
from protocol.units import COUNT_MAX
from topology import shapes

KEY = Key(bytes(32))
LEADER = bytes.fromhex("0200000000fe")
MS = 1_000_000


class Lines:
    """A control socket and a store bridge in one: keeps the grants and the lines."""

    address = LEADER

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.grants: list[Grant] = []

    def send(self, frame: bytes) -> bool:
        message = decode(frame, KEY).message
        if isinstance(message, Directive):
            self.grants += message.grants
        return True

    def read(self) -> list[dict[str, Any]]:
        return []

    def write(self, line: dict[str, Any]) -> bool:
        self.lines.append(line)
        return True


class Term(Leadership):
    """A leadership that is never in doubt."""

    def __init__(self) -> None:
        super().__init__(Election(lease_ns=10**9, heard_ns=10**9, now_ns=0), cast(JsonLines, Lines()))

    @property
    def epoch(self) -> int:
        return 5

    def may_speak(self) -> bool:
        return True


def coordinator(lines: Lines, policy: str = "timeslice", **changes: Any) -> Coordinator:  # noqa: ANN401 -- of the settings
    """One with three hosts at a switch, where every pair needs permission."""
    settings = CoordinatorSettings(
        policy=policy, interface="c0", attachment="s1:c0", key_file=Path("/nowhere/key"), store="", name="c", mode="always",
        **changes,
    )  # fmt: skip
    made = Coordinator(settings, KEY, cast(ControlSocket, lines), cast(JsonLines, lines), Term(), cast(Any, None))
    fabric = shapes.build("star", hosts=3, rate_bps=10**8)
    made.take([{"fabric": {"fabric": fabric.to_dict(), "blocked": []}}], 0)
    for number in (1, 2, 3):
        hear(made, number, 1, Register(f"h{number}", 7, 10**8, tuple(fabric.addresses(f"h{number}")), GateKind.TBF, "1"))
    for part in made.parts:
        for _, call in part.periodic:
            call(0)
    return made


def hear(made: Coordinator, number: int, sequence: int, message: Message, now_ns: int = 0) -> None:
    """A frame of host `number` arrives."""
    source, sender = bytes((2, 0, 0, 0, 0, number)), 0 if isinstance(message, Register) else 15 + number
    raw = encode(message, key=KEY, destination=LEADER, source=source, sender=sender, epoch=5, sequence=sequence)
    made.reception.receive(raw, now_ns)


def documents(made: Coordinator, lines: Lines, now_ns: int) -> list[dict[str, Any]]:
    """What it writes of itself and its members, as JSON values."""
    lines.lines.clear()
    made.publication.publish(now_ns)
    return list(json.loads(json.dumps(lines.lines)))


def published_of(lines: Lines, timers: Timers, members: Members) -> Publication:
    """What publishes these members, without other parts."""
    mishaps = Mishaps(lambda _: None, lambda: None)
    return Publication(STATUS_NS, timers, members, Parts(), lines.write, lambda now_ns: [{"status": now_ns}], mishaps)


class Encoding(Lines):
    """Writes only what is JSON."""

    def write(self, line: dict[str, Any]) -> bool:
        jsonlines.encode(line)
        return super().write(line)


def test_where_hosts_report_seldom_the_status_is_published_as_seldom_but_soon_after_a_change() -> None:
    lines = Lines()
    made = coordinator(lines, report_ns=10_000 * MS)

    def published(now_ns: int) -> bool:
        lines.lines.clear()
        made.timers.run(now_ns)
        return any("status" in line for line in lines.lines)

    assert published(250 * MS)  # hosts have joined
    assert not published(5_000 * MS)
    made.take([{"override": "free"}], 5_000 * MS)
    made.take([{"override": "coordinate"}], 5_001 * MS)
    assert published(5_001 * MS)
    made.take([{"ports": {"links": []}}], 5_002 * MS)
    made.take([{"override": "free"}], 5_100 * MS)
    assert not published(5_200 * MS) and published(5_001 * MS + 250 * MS)
    assert not published(6_000 * MS)


def test_the_status_and_the_members_documents_have_these_fields_and_values() -> None:
    lines = Lines()
    made = coordinator(lines)
    hear(made, 1, 2, Report(50 * MS, 0, 1, (FlowReport(18, 600_000, 0),), ((Cause.REPLAY, 2),)), 10 * MS)
    hear(made, 1, 3, Backlog(1, 0, 1, ((18, 10_000, 0),)), 10 * MS)
    (first,) = lines.grants
    hear(made, 1, 4, Ack(first.slot, 18, first.start_ns, first.start_ns + MS), 11 * MS)
    hear(made, 1, 5, Yield(18, first.slot, 5_000, 3_000), 12 * MS)
    hear(made, 1, 6, Yield(18, lines.grants[-1].slot, 5_000, 0), 20 * MS)
    links, status, controller, told = documents(made, lines, 30 * MS)
    assert links == {
        "links": {"new": True, "more": False, "rows": [
            {"source": source, "target": target, "capacity_bps": 10**8, "from": "fabric file", "unmanaged_bps": 0}
            for host in ("h1", "h2", "h3")
            for source, target in ((host, "s1"), ("s1", host))
        ]}
    }  # fmt: skip
    assert not any("links" in line for line in documents(made, lines, 30 * MS)), "told once"
    assert status == {
        "status": {
            "epoch": 5,
            "leader": "c",
            "from_memory": False,
            "pid": os.getpid(),
            "mac": "02:00:00:00:00:fe",
            "policy": "timeslice",
            "policies": ["auto", "timeslice", "hybrid", "steps", "rate_limit", "weekly", "free"],
            "slice_ns": 2 * MS,
            "override": "coordinate",
            "warnings": [],
            "slots": 2,
            "acknowledged": 1,
            "late_slots": 1,
            "lost": 0,
            "dropped_pages": 0,
            "turned_away": 0,
            "report_ns": 50 * MS,
            "yields": 2,
            "choices": [],
            "members": 3,
            "coflows": {},
            "coflow_order": [],
            "thresholds_version": 0,
            "unplaced": [],
            "weights": [],
            "contended": [],
            "regulated": [],
            "refused": {},
            "time_ns": 30 * MS,
            "period_ns": 250 * MS,
            "loop_longest_us": {},
            "loop_dropped": 0,
            "loop_busy": 0.0,
            "slot_slices": 1,
            "key": {"sending": f"{KEY.fingerprint:016x}", "other": None},
            "wire": {"lowest": 2, "highest": 3, "members": {"3": 3}},
            "bypass": [],
            "pfc": {
                "action": "drop", "accept_from": [], "detection_ns": [200 * MS] * 8, "restoration_ns": [200 * MS] * 8,
            },
        }
    }  # fmt: skip
    fields = {"attachment": "s1:c0", "mac": "02:00:00:00:00:fe", "pid": os.getpid(), "leads": True, "epoch": 5}
    fields |= {"wire": [2, 3], "schemas": [1, 2]}
    assert controller == {"controller": ["c", fields]}
    assert [node for node, _ in told["members"]] == [16, 17, 18]
    assert told["members"][0][1] == {
        "name": "h1",
        "mac": "02:00:00:00:00:01",
        "addresses": ["10.0.0.1"],
        "rate_bps": 10**8,
        "gate": "TBF",
        "version": "1",
        "wire": 3,
        "heard_ms_ago": 10,
        "slots": 2,
        "acknowledged": 1,
        "late_slots": 1,
        "yields": 2,
        "excess": 0,
        "lateness_us": 125,
        "backlog_bytes": {},
        "sent_bps": {"18": 96_000_000},
        "regulated": [18],
        "refused": {"10": 2},
        "thresholds_version": None,
        "waiting_us": {"18": 1_000},
        "suspect": [],
        "pfc": [],
        "pfc_state": {"answers": {}},
        "warnings": [],
    }


def test_a_report_tells_the_policy_what_a_host_can_use() -> None:
    lines = Lines()
    made = coordinator(lines, "rate_limit")
    for number in (1, 2):
        hear(made, number, 2, Backlog(1, 0, 1, ((18, 10_000, 0),)), MS)
    for sequence in range(3, 8):
        now_ns = 50 * MS * sequence
        hear(made, 1, 2 * sequence, Backlog(sequence, 0, 1, ()), now_ns)
        hear(made, 1, 2 * sequence + 1, Report(50 * MS, 0, 1, (FlowReport(18, 31_250, 0),), ()), now_ns)
        for part in made.parts:
            for _, call in part.periodic:
                call(now_ns)
        made.granting.plan(now_ns)
        hear(made, 2, 2 * sequence, Backlog(sequence, 0, 1, ((18, 10_000, 0),)), now_ns)
    rates = {grant.rate_bps for grant in lines.grants[-4:]}
    assert {5_300_000, 93_200_000} <= rates, "the first sends 5 Mb/s and may send 6 % more; the rest is the second's"


def test_members_documents_are_written_a_few_at_a_time_and_each_once_in_a_round() -> None:
    """Thousands at once would stop the loop, and the store bridge's lines have no room for them."""
    lines, timers, members = Lines(), Timers(), Members()
    for number in range(1, 101):
        members.register(b"\x02" + number.to_bytes(5), f"h{number}", 10**9, (), "tbf", "1", 0)
    publication = published_of(lines, timers, members)
    publication.publish(0)
    publication.publish(1)  # the round is under way
    counts, nodes = [], [node for line in lines.lines for node, _ in line.get("members", ())]
    for now_ns in range(0, 100 * MS, MS):
        lines.lines.clear()
        timers.run(now_ns)
        told = [node for line in lines.lines for node, _ in line.get("members", ())]
        counts.append(len(told))
        nodes += told
        members.leave(FIRST_NODE + 99)
    assert max(counts) == AT_ONCE and nodes == list(range(FIRST_NODE, FIRST_NODE + 99))


@pytest.mark.parametrize(("hosts", "round_ns"), [(1, 0), (400, 400 // AT_ONCE * PAUSE_NS), (12_000, ROUND_NS)])
def test_a_round_takes_its_time_but_no_longer_than_documents_are_kept(hosts: int, round_ns: int) -> None:
    lines, timers, members = Lines(), Timers(), Members()
    for number in range(1, hosts + 1):
        members.register(b"\x02" + number.to_bytes(5), f"h{number}", 10**9, (), "tbf", "1", 0)
    published_of(lines, timers, members).publish(0)
    last_ns = 0
    for now_ns in range(0, 2 * round_ns, MS):
        before = len(lines.lines)
        timers.run(now_ns)
        last_ns = now_ns if len(lines.lines) > before else last_ns
    assert {node for line in lines.lines for node, _ in line.get("members", ())} == {one.node for one in members.present()}
    assert 0.9 * round_ns <= last_ns <= 1.4 * round_ns < EXPIRY_S["member"] * 1000 * MS


def test_hosts_that_join_come_before_the_documents_of_those_that_have() -> None:
    told = []
    for joins in (False, True):
        lines, timers, members = Lines(), Timers(), Members()
        for number in range(1, 501):
            members.register(b"\x02" + number.to_bytes(5), f"h{number}", 10**9, (), "tbf", "1", 0)
        publication = published_of(lines, timers, members)
        publication.publish(0)
        for now_ns in range(0, 100 * MS, MS):
            if joins:
                publication.joined(FIRST_NODE)
            timers.run(now_ns)
        told.append(len([line for line in lines.lines if "members" in line]))
    assert told[0] >= 1.7 * told[1] > 0


def test_whatever_bytes_a_host_reports_all_documents_are_published() -> None:
    lines = Encoding()
    made = coordinator(lines)
    coflow = {"name": "x", "opened_ns": 0, "expires_ns": 10**18, "deadline_ns": None, "size_bytes": None, "flows": []}
    made.take([{"coflows": {"open": {"5": coflow}, "ahead_ns": 0}}], 0)
    most = 2**64 - 1
    for sequence in (2, 4):
        hear(made, 1, sequence, Report(1, 0, 1, (FlowReport(17, most, most), FlowReport(18, most, most)), ()), 10 * MS)
        hear(made, 1, sequence + 1, CoflowReport(((5, 17, most), (5, 18, most))), 10 * MS)
    lines.lines.clear()
    for part in made.parts:
        for _, call in part.periodic:
            call(20 * MS)
    told = {name: document for line in [*lines.lines, *documents(made, lines, 30 * MS)] for name, document in line.items()}
    assert {"telemetry", "status", "members"} <= told.keys()
    assert dict(told["members"])[16]["sent_bps"] == {"17": COUNT_MAX, "18": COUNT_MAX}
    assert told["status"]["coflow_order"][0]["sent_bytes"] == told["telemetry"]["regulated_bytes"] == COUNT_MAX


def test_a_members_document_that_is_not_json_keeps_no_other_from_being_published() -> None:
    lines, timers, members = Encoding(), Timers(), Members()
    for number in range(1, 3 * AT_ONCE + 1):
        members.register(b"\x02" + number.to_bytes(5), f"h{number}", 10**9, (), "tbf", "1", 0)
    wrong = members.present()[2]
    wrong.backlog = {17: 2**64}
    publication = published_of(lines, timers, members)

    def told(now_ns: int) -> set[int]:
        lines.lines.clear()
        publication.publish(now_ns)
        for later_ns in range(now_ns, now_ns + 100 * MS, MS):
            timers.run(later_ns)
        return {node for line in lines.lines for node, _ in line.get("members", ())}

    everyone = {member.node for member in members.present()}
    assert told(0) == everyone - {wrong.node}
    wrong.backlog = {}
    assert told(2 * STATUS_NS) == everyone
