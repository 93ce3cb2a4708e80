"""The swarm's frames against protocol/: the same bytes out, and the same grants in."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agents.loop.pace import MOST_NS, NEWS_REPORTS
from agents.membership import upkeep
from bench.swarm.library import grants, packed, sealed
from protocol.bodies.host_control import ClockReport
from protocol.bodies.host_link import HostLink
from protocol.bodies.host_state import NEVER_MS, HostState
from protocol.bodies.versions import Versions
from protocol.key import Key
from protocol.keys.hosts import Derivation, Master
from protocol.messages import (
    COORDINATOR,
    Ack,
    Backlog,
    Directive,
    DirectoryRequest,
    FlowReport,
    GateKind,
    Grant,
    Kind,
    Message,
    Ping,
    Register,
    Report,
    Yield,
    encode,
)
from protocol.units import SECOND_NS

MASTER = Master(Key(bytes(range(32))))
MAC, LEADER_MAC = bytes.fromhex("020000000007"), bytes.fromhex("0a0b0c0d0e0f")
HOST = MASTER.enroll("h7", salt=b"salt7777")
KEYS = HOST.at(MAC)
DERIVE = Derivation(HOST.secret)
u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
size = st.integers(0, 2**48)
entries = st.lists(st.tuples(u32, size, size), max_size=66, unique_by=lambda entry: entry[0])


def same(message: Message, kind: int, body: bytes, sender: int, epoch: int, sequence: int) -> None:
    """The library's frame is the one that protocol/ makes."""
    ours = sealed(
        kind, body, to=LEADER_MAC, source=MAC, sender=sender, epoch=epoch, sequence=sequence, enrolment=HOST.enrolment,
        key=DERIVE(b"to the leader", MAC),
    )  # fmt: skip
    assert ours == encode(
        message, key=KEYS.to_leader, destination=LEADER_MAC, source=MAC, sender=sender, epoch=epoch, sequence=sequence
    )


@given(number=u64, rows=entries, sender=u32, epoch=u32, sequence=u64)
def test_backlogs_and_reports_are_the_same_bytes(
    number: int, rows: list[tuple[int, int, int]], sender: int, epoch: int, sequence: int
) -> None:
    flat = [value for row in rows for value in row]
    backlog = Backlog(number, 0, 1, tuple((node, max(one, other), other) for node, one, other in rows))
    told = [value for node, one, other in rows for value in (node, max(one, other), other)]
    same(backlog, Kind.BACKLOG, packed(Kind.BACKLOG, [number, 0, 1, *told]), sender, epoch, sequence)
    report = Report(number | 1, 0, 1, tuple(FlowReport(*row) for row in rows), (), number)
    same(report, Kind.REPORT, packed(Kind.REPORT, [number, number | 1, 0, 1, *flat]), sender, epoch, sequence)


@given(slot=u64, node=u32, bytes_=u32, one=u64, other=u64, sequence=u64)
def test_what_a_host_says_of_slots_and_time_is_the_same_bytes(
    slot: int, node: int, bytes_: int, one: int, other: int, sequence: int
) -> None:
    cases: list[tuple[Message, Kind, list[int]]] = [
        (Yield(node, slot, bytes_, one), Kind.YIELD, [node, slot, bytes_, one]),
        (Ack(slot, node, one, other), Kind.ACK, [slot, node, one, other]),
        (Ping(one), Kind.PING, [one]),
        (DirectoryRequest(one), Kind.DIRECTORY_REQUEST, [one]),
        (ClockReport(-5, other), Kind.CLOCK_REPORT, [2**64 - 5, other]),
    ]
    for message, kind, numbers in cases:
        same(message, kind, packed(kind, numbers), node, 7, sequence)


@given(nonce=u64, rate=st.integers(1, 2**63), address=u32, name=st.text("abcdefgh0123456789-", min_size=1, max_size=15))
def test_a_registration_is_the_same_bytes(nonce: int, rate: int, address: int, name: str) -> None:
    message = Register(name, nonce, rate, (IPv4Address(address),), GateKind.TBF, "swarm", Versions(3, 3))
    same(message, Kind.REGISTER, packed(Kind.REGISTER, [nonce, rate, address], name), 0, 9, 1)


@given(one=u64, other=u64, third=u64, fourth=u64)
def test_what_a_host_tells_operators_is_the_same_bytes(one: int, other: int, third: int, fourth: int) -> None:
    state = HostState(one, other, third, fourth, 0, NEVER_MS, "swarm")
    same(state, Kind.HOST_STATE, packed(Kind.HOST_STATE, [one, other, third, fourth]), 16, 7, 1)
    link = HostLink(one, other, third, 0, 0, 0)
    same(link, Kind.HOST_LINK, packed(Kind.HOST_LINK, [one, other, third]), 16, 7, 1)


slots = st.builds(
    lambda node, slot, start, length, size, rate: Grant(node, slot, start, start + length, size, 0 if size else rate),
    u32, u64, st.integers(0, 2**62), st.integers(0, 2**40), u32, u64,
)  # fmt: skip


@given(given_=st.lists(slots, min_size=1, max_size=35), flip=st.integers(0, 8 * 60 - 1))
def test_directives_of_several_slots_are_read_and_forged_ones_are_not(given_: list[Grant], flip: int) -> None:
    message = Directive(tuple(given_))
    frame = encode(
        message, key=KEYS.from_leader, destination=MAC, source=LEADER_MAC, sender=COORDINATOR, epoch=7, sequence=1
    )
    key = DERIVE(b"from the leader", MAC)
    found = grants(frame, key)
    assert found is not None
    read = [
        Grant(*(int(row[name]) for name in ("destination", "slot", "start", "end", "bytes", "rate"))) for row in found
    ]
    assert read == given_
    forged = bytearray(frame)
    forged[flip // 8] ^= 1 << flip % 8
    assert grants(bytes(forged), key) is None
    assert grants(frame, bytes(32)) is None


def test_its_hosts_tell_of_themselves_as_seldom_as_agents_do() -> None:
    source = (Path(__file__).parents[4] / "bench/swarm/agent.h").read_text()
    said = dict(re.findall(r"#define (NEWS_REPORTS|PACE_MOST|TELL_EVERY) \(?(\d+)", source))
    assert {name: int(number) for name, number in said.items()} == {
        "NEWS_REPORTS": NEWS_REPORTS,
        "PACE_MOST": MOST_NS // SECOND_NS,
        "TELL_EVERY": upkeep.REPORT_NS // SECOND_NS,
    }
