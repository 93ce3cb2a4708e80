"""An agent whose interface gets another MAC address registers anew with it, under the keys of that address."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

import pytest

from agents.agent import Agent
from agents.config import AgentConfig
from agents.membership.lifecycle import State
from agents.membership.own_address import LOOK_NS, OwnAddress
from agents.queues.host import Host
from bench.fuzz.receivers import EPOCH, LEADER_MAC, FakeHost, mac
from protocol.bodies.versions import NEWEST
from protocol.key import Key
from protocol.keys.hosts import NAMED_TAG_BYTES, Master
from protocol.messages import Register, Welcome, decode_proven, encode

MS = 1_000_000
SECRET = Master(Key(bytes(32))).enroll("h1", b"1" * 8)


def test_it_registers_anew_under_the_keys_of_the_new_address_and_is_a_member_again(caplog: pytest.LogCaptureFixture) -> None:
    host = FakeHost(mac(1))
    agent = Agent(AgentConfig("eth1", 10**8, Path("/nonexistent"), name="h1"), SECRET.at(mac(1)), cast(Host, host))
    sequence = iter(range(1, 100))

    def welcome(address: bytes) -> None:
        message = Welcome(agent.membership._nonce, 16, 12 * MS, 50 * MS, 0, 0, 0, 50 * MS)
        raw = encode(
            message, key=SECRET.at(address).from_leader, destination=address, source=LEADER_MAC,
            sender=1, epoch=EPOCH, sequence=next(sequence), version=NEWEST,
        )  # fmt: skip
        agent._receive(raw, 0)

    agent.membership.new_leader(EPOCH, 0)
    agent.guard.adopt(EPOCH)
    welcome(mac(1))
    assert agent.member
    host.link.present = mac(2)
    host.link.sent.clear()
    (part,) = [part for part in agent.parts._parts if isinstance(part, OwnAddress)]
    part.advance(time.monotonic_ns() + LOOK_NS)
    assert agent.membership.state is State.REGISTERING
    (register,) = [raw for raw in host.link.sent if isinstance(decode_proven(raw).message, Register)]
    assert register[6:12] == mac(2)
    assert SECRET.at(mac(2)).to_leader.proves(register[:-NAMED_TAG_BYTES], register[-NAMED_TAG_BYTES:])
    assert "02:00:00:00:00:01" in caplog.text and "02:00:00:00:00:02" in caplog.text

    welcome(mac(1))  # frames to the old address are none of ours any more
    assert not agent.member
    welcome(mac(2))
    assert agent.member
