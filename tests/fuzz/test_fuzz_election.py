"""A short seeded run of the fuzzer of the election; `baton bench fuzz` is the long one."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from bench.fuzz import election
from controller.election.lease import LeaseStore
from controller.election.rules import Answer
from tests import needs

pytestmark = needs.REDIS


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The controllers would log each term."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_no_frame_without_authority_deposes_a_leader_and_no_epoch_is_led_under_by_two() -> None:
    found = election.fuzz(6.0, seed=7)
    assert found["crashes"] == 0, found["first_crashes"]
    assert found["accepted_forgeries"] == 0, found["broken"]
    assert found["terms"] > 3 and found["forgeries"] > 1_000 and found["store_spoilt"] > 20


def test_a_controller_that_believes_any_epoch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("protocol.auth", "controller.election.leadership"):
        monkeypatch.setattr(f"{module}.believable", lambda *_: True)
    found = election.fuzz(2.0, seed=8)
    assert found["accepted_forgeries"] and any("told" in text for text in found["broken"])


def test_a_controller_that_checks_no_tag_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.key._compare", lambda *_: True)
    assert election.fuzz(2.0, seed=9)["accepted_forgeries"]


def test_a_store_that_gives_one_epoch_to_all_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = int(time.time()) + 1000
    monkeypatch.setattr(LeaseStore, "acquire", lambda *_: Answer(True, epoch, "x"))
    rounds = (election.fuzz(3.0, seed=seed) for seed in range(10, 16))  # how far each comes is the processor's matter
    assert any("leads under epoch" in text for found in rounds for text in found["broken"])


def test_an_elector_that_fails_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: LeaseStore) -> Answer:
        raise KeyError("epoch")

    monkeypatch.setattr(LeaseStore, "look", broken)
    assert election.fuzz(1.0, seed=11)["crashes"]
