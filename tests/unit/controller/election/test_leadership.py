"""What a controller believes of other leaders' epochs."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from controller.election.leadership import Leadership
from controller.election.rules import Election
from protocol.auth import EPOCHS_AHEAD, LAST_EPOCH

LOW, HIGH = b"\2\0\0\0\0\1", b"\2\0\0\0\0\2"


class Lines:
    """An elector that gives the lease of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.answers: list[dict[str, Any]] = [{"term": 0, "answer": [True, epoch, "me", 0]}]

    def read(self) -> list[dict[str, Any]]:
        return self.answers

    def write(self, value: dict[str, Any]) -> bool:
        return True


def leader(epoch: int) -> Leadership:
    made = Leadership(Election(lease_ns=10**9, heard_ns=10**8), cast(Any, Lines(epoch)))
    made.turn(1)
    made.read(2)
    return made


BAD_EPOCHS = {"largest": (1 << 32) - 1, "last": LAST_EPOCH, "ahead": int(time.time()) + EPOCHS_AHEAD + 10_000}


@pytest.mark.parametrize("epoch", BAD_EPOCHS.values(), ids=BAD_EPOCHS)
def test_an_epoch_that_no_leader_can_have_deposes_nobody_and_is_forgotten(epoch: int) -> None:
    now = int(time.time())
    leads = leader(now)
    leads.heard(epoch, 3)
    assert leads.epoch == now and leads.election.highest_epoch == now and leads.unbelieved == 1
    leads.heard(now + 5, 4)
    assert not leads.epoch and leads.election.highest_epoch == now + 5
    candidate = Leadership(Election(lease_ns=10**9, heard_ns=10**8), cast(Any, Lines(now)))
    candidate.heard(epoch, 3)
    assert not candidate.election.highest_epoch


def test_a_lease_that_ran_out_and_came_back_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [3]
    monkeypatch.setattr("controller.election.leadership.time.monotonic_ns", lambda: now[0])
    leads = leader(7)
    lines = cast(Any, leads.lines)
    lines.answers = []
    now[0] = 15 * 10**8
    assert leads.serve(readable=True) and not leads.may_speak() and not leads.resumed()
    now[0] = 16 * 10**8
    lines.answers = [{"term": 0, "answer": [True, 7, "me", 0]}]
    assert leads.serve(readable=True) and leads.may_speak()
    assert "leading on after 100 ms; 1 frames" in leads.resumed() and not leads.resumed()


def test_a_lease_of_an_epoch_that_frames_cannot_carry_is_not_taken() -> None:
    assert not leader(1 << 32).epoch


def test_of_two_leaders_of_one_epoch_one_stands_down() -> None:
    one, other = leader(7), leader(7)
    one.twin(HIGH, LOW, 3)
    other.twin(LOW, HIGH, 3)
    assert not one.epoch and other.epoch == 7 and "another leader of epoch 7" in one.election.why


class Bridge:
    """Takes what is for the store."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, value: dict[str, Any]) -> bool:
        self.lines.append(value)
        return True


def test_a_leader_that_stood_down_tells_why_and_how_many_frames_it_did_not_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.election.leadership.time.monotonic_ns", lambda: 15 * 10**8)
    leads, bridge = leader(7), Bridge()
    for _ in range(2):
        assert not leads.may_speak()
    leads.twin(HIGH, LOW, 15 * 10**8)
    leads.end_term(cast(Any, bridge))
    text = "stood down: another leader of epoch 7 speaks on the fabric; 2 frames were not sent"
    assert bridge.lines == [{"leads": 0}, {"event": ["leader", "warning", text]}]
    assert leads.withheld == 0, "the next term counts anew"


def test_a_leader_whose_loop_ended_for_another_reason_tells_nothing() -> None:
    leads, bridge = leader(7), Bridge()
    leads.end_term(cast(Any, bridge))
    assert bridge.lines == [] and leads.epoch == 7


def test_an_elector_that_ended_ends_the_leadership(monkeypatch: pytest.MonkeyPatch) -> None:
    leads = leader(7)
    monkeypatch.setattr(leads.lines, "read", lambda: None)
    assert not leads.read(3) and not leads.epoch and leads.election.why == "the elector has ended"


def test_why_the_store_gives_no_lease_is_known_until_it_gives_one() -> None:
    made = Leadership(Election(lease_ns=10**9, heard_ns=10**8), cast(Any, Lines(7)))
    lines = cast(Any, made.lines)
    made.turn(1)
    lines.answers = [{"term": 0, "away": "too few", "refused": "too few replicas"}, {"term": 0, "away": "no answer"}]
    made.read(2)
    assert made.refused == "too few replicas"
    lines.answers = [{"term": made.election.term, "answer": [False, 0, "", 0]}]
    made.read(3)
    assert made.refused == ""


def test_the_last_epoch_that_exists_is_one_and_the_next_is_not() -> None:
    assert leader(LAST_EPOCH).epoch == LAST_EPOCH and not leader(LAST_EPOCH + 1).epoch


def test_a_resumed_lease_that_runs_out_again_is_told_with_the_frames_of_that_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [3]
    monkeypatch.setattr("controller.election.leadership.time.monotonic_ns", lambda: now[0])
    leads = leader(7)
    lines = cast(Any, leads.lines)
    for round_ in (1, 2):
        lines.answers = []
        now[0] += 15 * 10**8
        leads.serve(readable=True)
        for _ in range(round_):
            assert not leads.may_speak()
        now[0] += 10**8
        lines.answers = [{"term": 0, "answer": [True, 7, "me", 0]}]
        leads.serve(readable=True)
        assert f"after 100 ms; {round_} frames" in leads.resumed()
