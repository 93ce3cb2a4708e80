"""Requests for marks: what is read, and how bad input is named."""

from __future__ import annotations

import json
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.guests.client import MarkClient, NoAnswer
from agents.guests.flows import KEY, Flows, format_end, parse_end, unmapped
from agents.guests.requests import (
    FIELDS,
    MOST_FOR_MS,
    REQUEST_MAX,
    Cause,
    Request,
    RequestRefused,
    Verb,
    check_link,
    encode,
    load,
)
from agents.guests.requests import parse as parse_fields
from agents.queues.classifier import Address
from protocol.flowmark import FlowMark

GOOD: dict[str, Any] = {"to": "10.0.0.9:5432", "deadline_ms": 10}


def parse(data: bytes) -> Request:
    """As the agent reads a datagram."""
    return parse_fields(load(data))


def refusal(data: bytes) -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        parse(data)
    return caught.value


def test_a_request_says_what_flows_and_how_long() -> None:
    found = parse(encode({**GOOD, "from": "10.0.0.5", "size_bytes": 20_000, "for_ms": 500, "cookie": 7}))
    assert (found.verb, found.source, found.source_port) == (Verb.MARK, ip_address("10.0.0.5"), 0)
    assert (found.target, found.target_port, found.for_ns) == (ip_address("10.0.0.9"), 5432, 500_000_000)
    assert found.mark == FlowMark(20_000, 10)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("to", {"to": "10.0.0.9:0"}),
        ("to", {"to": "10.0.0.9:65536"}),
        ("to", {"to": "10.0.0.9:"}),
        ("to", {"to": "10.0.0.9:\u0661"}),
        ("to", {"to": "db.example"}),
        ("to", {"to": "[fd00::9]5432"}),
        ("to", {"to": "[fd00::9]:"}),
        ("to", {"to": 7}),
        ("to", {"to": "224.0.0.1"}),
        ("to", {"to": "fd00::9", "from": "10.0.0.5"}),
        ("from", {"from": "10.0.0"}),
        ("from", {"from": "0.0.0.0"}),
        ("deadline_ms", {"deadline_ms": 0}),
        ("deadline_ms", {"deadline_ms": 4095}),
        ("deadline_ms", {"deadline_ms": 1.5}),
        ("deadline_ms", {"deadline_ms": None}),
        ("size_bytes", {"size_bytes": True}),
        ("size_bytes", {"size_bytes": 2**40}),
        ("for_ms", {"for_ms": 0}),
        ("for_ms", {"for_ms": MOST_FOR_MS + 1}),
        ("for_ms", {"for_ms": "10s"}),
        ("do", {"do": "delete"}),
        ("do", {"do": []}),
        ("priority", {"priority": 7}),
    ],
)
def test_bad_input_is_named_by_its_field(field: str, changes: dict[str, Any]) -> None:
    error = refusal(encode({**GOOD, **changes}))
    assert error.cause is Cause.MALFORMED and str(error).startswith(f"{field}"), str(error)
    assert len(str(error)) < 300 and "\n" not in str(error)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[1]", b"7", b"[" * 900, b'{"to":' + b" " * REQUEST_MAX + b'"10.0.0.9"}'])
def test_what_is_no_request_is_refused_as_a_whole(data: bytes) -> None:
    assert str(refusal(data)).startswith("request: ")


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(("10.0.0.9:5432", "fd00::9"))
OBJECTS = st.dictionaries(st.sampled_from(sorted(FIELDS)), VALUES | st.lists(VALUES) | st.dictionaries(st.text(), VALUES))


@given(st.binary(max_size=200) | OBJECTS.map(lambda value: json.dumps(value).encode()))
def test_nothing_that_a_guest_sends_raises_anything_else(data: bytes) -> None:
    try:
        parse(data)
    except RequestRefused as error:
        assert error.cause is Cause.MALFORMED


@given(st.ip_addresses(), st.integers(0, 65_535))
def test_ends_read_back_as_they_were_written(address: Address, port: int) -> None:
    address = unmapped(address)
    if not (address.is_multicast or address.is_unspecified or address.is_loopback):
        assert parse_end("to", format_end(address, port)) == (address, port)


def test_a_key_says_what_it_leaves_open() -> None:
    one, other = ip_address("10.0.0.5"), ip_address("fd00::9")
    assert Flows(one, other, 1, 2, 3).shape == 0
    assert Flows(one, other).shape == 7
    key = Flows(one, other, 1, 0x102, 3).key()
    assert len(key) == KEY.size == 40
    assert key[:16] == bytes(10) + b"\xff\xff\n\0\0\5" and key[32:36] == b"\0\1\1\2" and key[36:] == b"\3\0\0\0"


def test_a_size_that_the_link_cannot_carry_before_the_deadline_is_refused() -> None:
    check_link(FlowMark(125_000, 10), 100_000_000)
    check_link(FlowMark(10**9, 10), 0)
    check_link(FlowMark(10**9), 100_000_000)
    with pytest.raises(RequestRefused, match="deadline_ms: 125001 bytes in 10 ms") as caught:
        check_link(FlowMark(125_001, 10), 100_000_000)
    assert caught.value.cause is Cause.LINK


def test_a_host_where_no_agent_hears_guests_is_named_with_what_to_look_for() -> None:
    says = r"127\.0\.0\.1 port 9: Connection refused; does an agent with --guests run there\?"
    with MarkClient.of_guest(ip_address("127.0.0.1"), 9) as client, pytest.raises(NoAnswer, match=says):
        client.ask(GOOD)  # nobody hears at the port of RFC 863
