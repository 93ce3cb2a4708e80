"""An experiment's samples of a port's queue are those of the measured time."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from emulation.fabric import ports
from emulation.fabric.fabric import EmulatedFabric
from emulation.fabric.ports import PortCounters
from emulation.fabric.qdisc_stats import QdiscStats
from emulation.traffic import experiment
from topology.fabric import DirectedLink

LINK = DirectedLink("s1", "h2")
DURATION_S = 0.3
READING_S = 0.1
"""What it takes to read all counters, longer than on a fabric."""


class Reader:
    """A queue of seven packets."""

    def read(self, index: int, handle: int) -> QdiscStats:
        return QdiscStats(0, 0, 0, 7, 0)

    def close(self) -> None:
        pass


def test_no_sample_is_taken_after_the_flows_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = PortCounters(Reader().read(0, 0), Reader().read(0, 0))
    switch = SimpleNamespace(overruns=lambda: time.sleep(READING_S) or 0, waited_ns=lambda: 0)
    emulated = SimpleNamespace(
        endpoints=dict, verify=lambda hosts: None, counters=lambda link: counters, shares=None, ovs=switch,
        recorders=SimpleNamespace(reset=lambda: None, read=dict),
        ports={LINK: SimpleNamespace(name="s1-eth2", index=1, data_queue=0)},
    )  # fmt: skip
    monkeypatch.setattr(ports, "QdiscReader", Reader)
    monkeypatch.setattr(experiment, "START_NS", 0)
    monkeypatch.setattr(experiment, "wakeful", nullcontext)
    monkeypatch.setattr(experiment, "Program", lambda *_: SimpleNamespace(result=lambda: {"late_ns": []}))
    found = experiment.run(
        cast(EmulatedFabric, cast(Any, emulated)), [], duration_s=DURATION_S, warmup_s=READING_S, bottlenecks=[LINK],
        sample_occupancy=True,
    )  # fmt: skip
    times_ns = found.occupancy[LINK].times_ns
    assert times_ns and max(times_ns) < found.started_ns + round(DURATION_S * 1e9)
