"""What the coordinator tells agents of pauses, and what it makes of their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from controller.config.pfc import PfcSection
from controller.config.settings import CoordinatorSettings
from controller.members.event_budget import MOST
from controller.members.pause_control import GIVE_UP_NS, PauseControl
from controller.members.registry import Members
from protocol.bodies.pfc import Action, Mode, PauseResult, PfcClass, pack_pause
from protocol.messages import HEARTBEAT_MAC, Message, PfcPause, PfcReport, PfcSettings
from protocol.timers import Timers

SETTINGS = CoordinatorSettings(interface="c0", attachment="s1:1", key_file=Path("key"), store="unix:///s")
MACS = {"h1": bytes(5) + b"\x01", "h2": bytes(5) + b"\x02"}
PAUSE = {"host": "h1", "classes": 0b101000, "duration_ns": 2_000_000}


class World:
    """A coordinator's PFC with two members, and what it sent and told."""

    def __init__(self, settings: CoordinatorSettings = SETTINGS) -> None:
        self.members, self.timers = Members(), Timers()
        self.sent: list[tuple[Message, bytes]] = []
        self.told: list[dict[str, Any]] = []
        self.nodes = {
            name: self.members.register(mac, name, 10**9, (ip_address(f"10.0.0.{mac[5]}"),), "tbf", "1", 0).node
            for name, mac in MACS.items()
        }
        self.pfc = self.begin(settings)
        self.pfc.take({}, 0)

    def begin(self, settings: CoordinatorSettings = SETTINGS) -> PauseControl:
        return PauseControl(settings, self.members, self.timers, lambda *sent: self.sent.append(sent), self.told.append)

    def report(self, host: str, command: int = 0, answer: PauseResult = PauseResult.DONE, storming: int = 0) -> None:
        member = self.members.get(self.nodes[host])
        assert member is not None
        rows = tuple(PfcClass(n, 2, 3, 4_500_000, 5) for n in range(8))
        self.pfc.handlers[PfcReport](member, PfcReport(command, answer, Mode.SOFTWARE, 0b10, storming, 6, 7, rows), 0)

    def of(self, host: str) -> Mapping[str, Any]:
        return self.pfc.of_member(self.nodes[host])


def test_everybody_is_told_whose_pauses_count_what_a_storm_is_and_the_classes_of_hosts_that_are_there() -> None:
    times = tuple(range(1, 9))
    world = World(
        replace(
            SETTINGS,
            pfc_accept_from=("02:00:00:00:00:0a",),
            pfc_detection_ns=times,
            pfc_action="forward",
            pfc_classes=(("h2", 3), ("h9", 4)),
        )
    )
    world.pfc.advance(0)
    settings = PfcSettings(
        Action.FORWARD, times, SETTINGS.pfc_restoration_ns, (bytes.fromhex("02000000000a"),), ((world.nodes["h2"], 3),)
    )
    assert world.sent == [(settings, HEARTBEAT_MAC)]


def test_the_class_of_a_host_with_two_interfaces_is_told_for_both() -> None:
    world = World(replace(SETTINGS, pfc_classes=(("h2", 3),)))
    other = world.members.register(bytes((6, 0, 0, 0, 0, 2)), "h2", 10**8, (), "tbf", "", 0)
    world.pfc.advance(0)
    ((settings, _),) = world.sent
    assert isinstance(settings, PfcSettings) and settings.nodes == ((world.nodes["h2"], 3), (other.node, 3))


def test_a_command_goes_to_its_host_until_that_answers() -> None:
    world = World()
    world.pfc.take({"7": PAUSE}, 0)
    world.pfc.take({"7": PAUSE}, 1)
    world.timers.run(25_000_000)
    assert world.sent == [(PfcPause(7, 0b101000, 2_000_000), MACS["h1"])] * 2
    world.report("h2", 7)
    assert world.of("h2")["pfc_state"]["answers"] == {}
    world.report("h1", 7)
    assert world.of("h1")["pfc_state"]["answers"] == {"7": "done"}
    world.timers.run(GIVE_UP_NS)
    assert len(world.sent) == 2


def test_a_host_with_two_interfaces_pauses_both_link_partners_and_each_answers_for_itself() -> None:
    world = World()
    second = bytes((6, 0, 0, 0, 0, 1))
    world.nodes["h1 too"] = world.members.register(second, "h1", 10**8, (), "tbf", "", 0).node
    world.pfc.take({"7": PAUSE}, 0)
    assert [to for _, to in world.sent] == [MACS["h1"], second]
    world.report("h1", 7)
    world.timers.run(25_000_000)
    assert [to for _, to in world.sent[2:]] == [second]
    world.report("h1 too", 7, PauseResult.STORM)
    answers = [world.of(name)["pfc_state"]["answers"] for name in ("h1", "h1 too")]
    assert answers == [{"7": "done"}, {"7": "storm"}]


def test_an_interface_whose_agent_has_no_pfc_is_not_asked_beside_one_that_has() -> None:
    world = World()
    world.members.register(bytes((6, 0, 0, 0, 0, 1)), "h1", 10**8, (), "tbf", "", 0)
    world.report("h1")
    world.pfc.take({"7": PAUSE}, 0)
    assert [to for _, to in world.sent] == [MACS["h1"]]


def test_a_host_that_never_answers_is_given_up() -> None:
    world = World()
    world.pfc.take({"7": PAUSE}, 0)
    for now_ns in range(0, 2 * GIVE_UP_NS, 10_000_000):
        if world.pfc._pending:
            world.timers.run(now_ns)
    assert world.of("h1")["pfc_state"]["answers"] == {"7": "unanswered"}
    assert world.told[-1]["event"][1] == "warning"
    assert 10 < len(world.sent) < 100


def test_commands_of_before_our_term_are_not_obeyed_again() -> None:
    world = World()
    world.pfc = world.begin()
    world.pfc.take({"7": PAUSE}, 0)
    assert world.sent == []
    world.pfc.take({"7": PAUSE, "8": PAUSE}, 0)
    assert [message.command for message, _ in world.sent if isinstance(message, PfcPause)] == [8]


@pytest.mark.parametrize(
    "wrong",
    [{}, {"host": "h1"}, PAUSE | {"classes": "x"}, PAUSE | {"classes": 256}, PAUSE | {"duration_ns": float("inf")}, 7],
)
def test_a_command_that_is_wrong_is_told_once_and_the_others_are_obeyed_once(wrong: Any) -> None:  # noqa: ANN401
    world = World()

    def send(message: Message, to: bytes) -> None:
        assert isinstance(message, PfcPause)
        pack_pause(message)
        world.sent.append((message, to))

    world.pfc._send = send
    world.pfc.take({"6": PAUSE, "7": wrong, "8": PAUSE}, 0)
    world.pfc.take({"6": PAUSE, "7": wrong, "8": PAUSE, "9": PAUSE}, 0)
    assert [message.command for message, _ in world.sent if isinstance(message, PfcPause)] == [6, 8, 9]
    (told,) = world.told
    assert "command 7 is wrong" in told["event"][2]
    world.timers.run(GIVE_UP_NS)


def test_counters_are_stored_by_class_and_storms_are_told_once() -> None:
    world = World()
    assert world.of("h1")["pfc"] == []
    for _ in range(3):
        world.report("h1", storming=0b1000)
    world.report("h1")
    assert world.of("h1")["pfc"][3] == {"class": 3, "received": 3, "sent": 2, "refused": 3, "paused_ms": 4.5, "storms": 5}
    assert world.of("h1")["pfc_state"] == {
        "mode": "software", "paused": [1], "storming": [], "bad": 6, "strangers": 7, "answers": {},
    }  # fmt: skip
    assert [event["event"][1] for event in world.told] == ["warning", "info"]
    world.pfc.left(world.nodes["h1"], 0)
    assert world.of("h1")["pfc"] == []


def test_a_host_whose_storms_come_and_go_leaves_room_for_others_events_and_for_answers() -> None:
    world = World()
    for number in range(5 * MOST):
        world.report("h1", storming=0b1000 if number % 2 else 0)
    assert len(world.told) == MOST
    world.report("h2", storming=0b1000)
    world.pfc.take({"7": PAUSE}, 0)
    world.report("h1", 7)
    assert [line["event"][2][:2] for line in world.told[MOST:]] == ["h2", "h1"] and "paused for 2 ms" in str(world.told[-1])


class TestSection:
    """The section `pfc` of the configuration."""

    def test_a_time_for_all_classes_or_for_some(self) -> None:
        section = PfcSection.model_validate({"detection": {"3": "100ms"}, "restoration": "1s"})
        assert section.pfc_detection_ns == (200_000_000,) * 3 + (100_000_000,) + (200_000_000,) * 4
        assert section.pfc_restoration_ns == (1_000_000_000,) * 8

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"detection": {"8": "100ms"}}, "class 8: classes are from 0 to 7"),
            ({"classes": {"h1": "9"}}, "class 9: classes are from 0 to 7"),
            ({"restoration": "0ms"}, "0ms is not a time from 1ms to 60s"),
            ({"accept_from": ["02:00:00:00:00"]}, "is not a MAC address"),
            ({"action": "panic"}, "'drop', 'forward' or 'alert'"),
        ],
    )
    def test_what_is_wrong_is_named(self, fields: dict[str, Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            PfcSection.model_validate(fields)

    def test_settings_come_back_from_the_file_as_they_were(self) -> None:
        settings = replace(SETTINGS, pfc_accept_from=("02:00:00:00:00:0a",), pfc_classes=(("h6", 3),))
        assert CoordinatorSettings.from_json(settings.to_json()) == settings


def left_amid_a_pause() -> tuple[World, int]:
    """A world whose h1 has left before it answered command 7, and its node."""
    world = World()
    world.pfc.take({"7": PAUSE}, 0)
    node = world.nodes["h1"]
    world.members.leave(node)
    world.pfc.left(node, 1)
    return world, node


def test_the_answer_of_a_host_that_registers_anew_meanwhile_counts() -> None:
    world, node = left_amid_a_pause()
    assert world.members.register(MACS["h1"], "h1", 10**9, (), "tbf", "1", 2).node == node
    world.report("h1", 7)
    world.timers.run(2 * GIVE_UP_NS)
    assert world.of("h1")["pfc_state"]["answers"] == {"7": "done"}


def test_nothing_is_kept_of_a_host_that_left_before_it_answered() -> None:
    world, _ = left_amid_a_pause()
    world.timers.run(2 * GIVE_UP_NS)
    assert world.of("h1")["pfc_state"]["answers"] == {}
    assert "unanswered" in world.told[-1]["event"][2]
