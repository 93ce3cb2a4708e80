"""What Baton prefers is in Debian's own kernel: the probe against modprobe, in the guest of `make test-stock-kernel`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agents.kernel import Feature, chosen_gate, probe

MODULES = {
    ("qdisc", "plug"): "sch_plug",
    ("qdisc", "prio"): "sch_prio",
    ("qdisc", "red"): "sch_red",
    ("qdisc", "netem"): "sch_netem",
    ("qdisc", "fq"): "sch_fq",
    ("qdisc", "fq_codel"): "sch_fq_codel",
    ("congestion control", "dctcp"): "tcp_dctcp",
    ("datapath", "openvswitch"): "openvswitch",
}


@pytest.fixture(scope="module")
def features() -> dict[tuple[str, str], Feature]:
    return {(feature.kind, feature.name): feature for feature in probe()}


@pytest.mark.parametrize(("row", "module"), MODULES.items(), ids=MODULES.values())
def test_the_row_is_present_and_its_module_is_loaded(
    row: tuple[str, str], module: str, features: dict[tuple[str, str], Feature]
) -> None:
    assert features[row].present
    loaded = {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()}
    assert module in loaded
    assert subprocess.run(("modprobe", "--dry-run", module), check=False).returncode == 0


def test_either_gate_may_be_wished_for(features: dict[tuple[str, str], Feature]) -> None:
    assert chosen_gate(features.values(), "auto") == "tbf"
    assert chosen_gate(features.values(), "plug") == "plug"
