"""A short seeded run of the fuzzer of OpenFlow messages; `baton bench fuzz` is the long one."""

from __future__ import annotations

import pytest

from bench.fuzz import openflow
from controller.openflow.intake import messages
from controller.openflow.intake.stream import Stream


def test_no_message_hangs_or_crashes_the_frameworks_parsers() -> None:
    found = openflow.fuzz(4.0, seed=7)
    assert found["crashes"] == 0, found["first_crashes"]
    assert found["slowest_s"] < openflow.SLOW_S
    assert found["runs"] > 1_000 and found["parsed"] > 3 * found["refused"] > 0


def test_without_the_check_the_fuzzer_finds_the_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the run above would show nothing."""
    monkeypatch.setattr(Stream, "_one", lambda _self, message, _now_ns: message)
    monkeypatch.setattr(openflow, "SLOW_S", 0.2)
    hanging = openflow.message(messages.HELLO, bytes(4))
    for root in openflow.FRAMEWORKS:
        with pytest.raises(TimeoutError):
            openflow.Parser(root).take(hanging)
