"""The demo's figure, also if no run was valid."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot

from emulation.measuring import figures


def run_of(policy: str, k: int, valid: bool) -> dict[str, Any]:
    rtt = {"p50": 1.0, "p99": 2.0, "max": 3.0}
    return {
        "policy": policy, "k": k, "valid": valid,
        "goodput_mbps": 90.0, "tcp_mean_mbps": 18.0, "drops": 3, "jain": 1.0, "rtt_ms": rtt,
    }  # fmt: skip


@pytest.mark.parametrize("valid", [True, False])
def test_every_policy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valid: bool) -> None:
    made = []
    monkeypatch.setattr(pyplot, "close", made.append)
    runs = [run_of(policy, k, valid) for policy in figures.POLICIES for k in (0, 5)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        figures.demo_figure(runs, tmp_path / "demo.png", rate_mbps=100.0, caption="made for a test")
    legend = made[0].axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [figures.LABELS[policy] for policy in figures.POLICIES]
    assert (tmp_path / "demo.png").stat().st_size > 10_000
