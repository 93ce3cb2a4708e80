"""What the timer probe says of a machine that stands still."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest

from emulation.measuring.confidence import judge
from emulation.measuring.fidelity import Fidelity
from emulation.traffic import workloads

MS, S = 10**6, 10**9


class Machine:
    """A machine's clock, which stands still for its programs between two instants."""

    def __init__(self, now_ns: int, still_from_ns: int, still_until_ns: int) -> None:
        self.now_ns = now_ns
        self.still = still_from_ns, still_until_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * S)
        if self.still[0] < self.now_ns < self.still[1]:
            self.now_ns = self.still[1]


def late_ns(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> list[int]:
    """What the probe measures from 0 to 2 s."""
    monkeypatch.setattr(workloads, "time", SimpleNamespace(monotonic_ns=machine.monotonic_ns, sleep=machine.sleep))
    monkeypatch.setattr("os.sched_setscheduler", lambda *_: None)
    arguments = argparse.Namespace(begin_ns=0, end_ns=2 * S, seconds=0.0, interval_ns=5 * MS)
    found: list[int] = workloads.timer_probe(arguments)["late_ns"]
    return found


def test_a_machine_that_stands_still_for_a_quarter_of_the_time_disturbs_a_quarter_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = late_ns(monkeypatch, Machine(-MS, S, S + S // 2))
    assert len(late) == 400 and max(late) == S // 2 - 5 * MS
    judged = judge(Fidelity(0.9, 0.0, tuple(late)), duration_ns=2 * S)
    assert judged.level == "indicative" and judged.share == pytest.approx(0.25, abs=0.01)


def test_the_probes_own_start_is_no_lateness(monkeypatch: pytest.MonkeyPatch) -> None:
    late = late_ns(monkeypatch, Machine(103 * MS, 0, 0))
    assert len(late) == 379 and not any(late)
