"""Thresholds from the tuner to the members, by version."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controller.config.settings import CoordinatorSettings
from controller.members.registry import Member, Members
from controller.priorities.distribution import MOST_REPORTS, Distribution
from controller.priorities.tuning import Tuning
from controller.processes.jsonlines import JsonLines
from protocol.messages import HEARTBEAT_MAC, Message, SizeReport, Thresholds, ThresholdsRequest

MAC = bytes(5) + b"\1"
TUNED = {"changed": True, "thresholds": {"beta": [10, 20], "alpha": [5, 9]}, "text": "first thresholds"}


@dataclass
class World:
    """A distribution with the far end of its tuner, and what it sent and told."""

    priorities: bool = True
    sent: list[tuple[Message, bytes]] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    tuners: list[JsonLines] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = CoordinatorSettings(
            interface="c0", attachment="s1:1", key_file=Path("k"), store="unix:///s", priorities=self.priorities, bands=3
        )
        self.made = Distribution(settings, lambda message, to: self.sent.append((message, to)), self.told.append, self.start)

    def start(self) -> JsonLines:
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        self.tuners.append(JsonLines(far))
        return JsonLines(near)

    def tuned(self, **changes: object) -> None:
        self.tuners[-1].write({"tuned": {**TUNED, **changes}})
        assert self.made.from_tuner()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.made.start()
    yield made
    for end in (made.made.tuner, *made.tuners):
        if end is not None:
            end.socket.close()


@pytest.fixture
def member() -> Member:
    return Members().register(MAC, "h1", 10**9, (), "TBF", "1", 0)


def test_without_priorities_there_is_no_tuner_and_heartbeats_tell_version_0() -> None:
    world = World(priorities=False)
    world.made.start()
    assert (world.made.version, world.tuners) == (0, [])


def test_before_any_thresholds_version_1_says_that_reports_are_wanted(world: World) -> None:
    assert world.made.thresholds == Thresholds(1, 10_000_000_000, 3, 3, (), ())


def test_new_thresholds_go_to_all_in_one_frame_and_are_recorded_with_what_they_gain(world: World) -> None:
    world.tuned()
    assert world.sent == [(Thresholds(2, 10_000_000_000, 3, 3, (10, 20), (5, 9)), HEARTBEAT_MAC)]
    assert world.told[0] == {"event": ["thresholds", "info", "version 2: first thresholds"]}
    assert world.told[1]["thresholds"]["version"] == 2


def test_thresholds_that_cannot_be_sent_are_not_in_force(world: World) -> None:
    def refused(*_: object) -> None:
        raise ValueError("no 64 bits hold it")

    world.made._send = refused
    with pytest.raises(ValueError, match="64 bits"):
        world.tuned()
    assert (world.made.version, world.told) == (1, [])


def test_a_period_that_changes_nothing_sends_nothing_but_is_recorded(world: World) -> None:
    world.tuned(changed=False)
    assert (world.sent, world.made.version) == ([], 1)
    assert [list(line) for line in world.told] == [["thresholds"]]


def test_a_member_that_asks_gets_the_newest(world: World, member: Member) -> None:
    world.tuned()
    world.made.on_request(member, ThresholdsRequest(1), 0)
    assert world.sent[-1] == (world.made.thresholds, MAC)


def test_reports_reach_the_tuner_with_the_hosts_rate_and_tell_the_version_it_has(world: World, member: Member) -> None:
    world.made.on_size_report(member, SizeReport(7, 5, bytes(14)), 0)
    assert world.tuners[0].read() == [
        {"bands": 3, "period_ns": 10_000_000_000, "in_force": None},
        {"sizes": [10**9, 5, "00" * 14]},
    ]
    assert member.thresholds_version == 7


def test_a_host_that_reports_again_and_again_does_not_decide_for_all(world: World, member: Member) -> None:
    other = Members().register(b"\2" * 6, "h2", 10**9, (), "TBF", "1", 0)
    other.node = member.node + 1
    for now_ns in (0, 10_000_000_000):
        for _ in range(MOST_REPORTS + 50):
            world.made.on_size_report(member, SizeReport(1, 5, b""), now_ns)
        world.made.on_size_report(other, SizeReport(1, 5, b""), now_ns)
        taken = [line for line in world.tuners[0].read() or [] if "sizes" in line]
        assert len(taken) == MOST_REPORTS + 1, "and in the next period as many"


def test_a_tuner_that_ended_is_started_again_with_what_is_in_force(world: World, member: Member) -> None:
    world.tuned()
    world.tuners[0].socket.close()
    assert not world.made.from_tuner()
    assert world.made.tuner is None
    world.made.on_size_report(member, SizeReport(2, 5, b""), 0)  # lost, like a frame
    world.made.start()
    first = (world.tuners[1].read() or [])[0]
    assert first["in_force"] == {"beta": [10, 20], "alpha": [5, 9]}
    assert world.made.version == 2


def test_a_new_coordinator_goes_on_with_the_stores_thresholds_of_as_many_bands(world: World) -> None:
    world.made.resume({"version": 9, "thresholds": {"beta": [1], "alpha": [1]}})
    assert world.made.version == 1
    world.made.resume({"version": 9, "thresholds": {"beta": [1, 2], "alpha": [3, 4]}})
    assert world.made.thresholds == Thresholds(9, 10_000_000_000, 3, 3, (1, 2), (3, 4))


def test_a_tuner_that_began_before_the_stores_answer_goes_on_with_it_too(world: World) -> None:
    world.made.resume({"version": 9, "thresholds": {"beta": [1, 2], "alpha": [3, 4]}})
    first, *others = world.tuners[0].read() or []
    tuning = Tuning(first["bands"], first["in_force"])
    for line in others:
        tuning.take(line)
    assert tuning.period()["thresholds"] == {"beta": [1, 2], "alpha": [3, 4]}, "published, so the next leader finds them"


def test_the_version_never_comes_to_0_again(world: World) -> None:
    world.made.resume({"version": (1 << 32) - 1, "thresholds": {"beta": [1, 2], "alpha": [3, 4]}})
    world.tuned()
    assert world.made.version == 1
