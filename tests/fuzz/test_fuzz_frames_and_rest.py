"""A short seeded run of the fuzzers of control frames and of REST; `baton bench fuzz` is the long one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from bench.fuzz.fuzz import frames, rest
from bench.fuzz.seeds import SEEDS
from protocol import messages as m
from tests import needs

SECONDS = 4.0


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A log line for each refusal would take most of the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def told(found: dict[str, Any]) -> dict[str, Any]:
    print({name: found[name] for name in ("runs", "forgeries", "crashes", "accepted_forgeries")})
    return found


def test_no_control_frame_crashes_a_receiver_and_no_forgery_is_accepted() -> None:
    found = told(frames.fuzz(SECONDS, seed=7))
    assert found["crashes"] == 0, found["first_crashes"]
    assert found["accepted_forgeries"] == 0
    assert found["runs"] > 3_000
    assert {"tag", "replay", "old_epoch", "not_ours", "not_leader", "length", "malformed"} <= set(found["refused"])


def test_hostile_frames_with_the_key_reach_the_handlers() -> None:
    """Otherwise the run above would show nothing."""
    found = frames.fuzz(4, seed=8)["by_target"]
    assert all(target["accepted"] > 0.02 * target["runs"] for target in found.values()), found


@needs.REDIS
def test_no_request_crashes_the_web_application_and_no_forgery_changes_anything() -> None:
    found = told(rest.fuzz(SECONDS, seed=7))
    assert found["crashes"] == 0, found["first_crashes"]
    assert found["accepted_forgeries"] == 0, found["first_forgeries"]
    assert found["runs"] > 50 and {"/login", "/api/control"} <= set(found["changing"])
    assert {200, 401} <= set(found["answers"])


def test_an_accepted_forgery_would_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.key._compare", lambda *_: True)  # a receiver that checks no tag
    found = frames.fuzz(1.0, seed=9)
    assert found["accepted_forgeries"] > 0


def test_every_type_has_a_seed() -> None:
    assert {type(seed).__name__.upper() for seed in SEEDS} == {kind.name.replace("_", "") for kind in m.Kind}
