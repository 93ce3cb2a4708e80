"""What Baton prefers is in Debian's own kernel: the probe against modprobe, in the guest of `make test-stock-kernel`."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from agents.kernel.features import Feature, chosen_gate
from agents.kernel.probe import probe
from agents.priorities.congestion_control import DCTCP, MCP, CongestionControl, available

pytestmark = pytest.mark.skipif(
    "BATON_STOCK_KERNEL" not in os.environ, reason="needs Debian's own kernel: run `make test-stock-kernel`"
)

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


QDISCS = {
    "plug": ("limit", "65536"),
    "prio": ("bands", "3"),
    "red": ("limit", "200000", "avpkt", "1000", "bandwidth", "100mbit", "ecn"),
    "netem": ("loss", "1%"),
    "fq": (),
    "fq_codel": (),
}


@pytest.fixture(scope="module")
def features() -> dict[tuple[str, str], Feature]:
    with pytest.MonkeyPatch.context() as patch:
        # Without KVM everything is slow, and clang too slow to look for.
        patch.setattr("agents.kernel.probe.TRIAL_SECONDS", 30.0)
        find = shutil.which
        patch.setattr("agents.kernel.probe.shutil.which", lambda name: None if name == "clang" else find(name))
        return {(feature.kind, feature.name): feature for feature in probe()}


@pytest.mark.parametrize(("row", "module"), MODULES.items(), ids=MODULES.values())
def test_the_row_is_present_and_its_module_is_in_the_kernel(
    row: tuple[str, str], module: str, features: dict[tuple[str, str], Feature]
) -> None:
    assert features[row].present
    loaded = {line.split()[0] for line in Path("/proc/modules").read_text().splitlines()}
    built_in = Path(f"/lib/modules/{platform.release()}/modules.builtin").read_text()
    assert module in loaded or f"/{module}.ko" in built_in
    assert subprocess.run(("modprobe", "--dry-run", module), check=False).returncode == 0


@pytest.mark.parametrize("kind", QDISCS)
def test_tc_shows_the_qdisc_it_was_told_to_add(kind: str) -> None:
    batch = f"qdisc add dev lo root {kind} {' '.join(QDISCS[kind])}\nqdisc show dev lo\n"
    done = subprocess.run(
        ("unshare", "--net", "tc", "-j", "-batch", "-"), input=batch, capture_output=True, text=True, check=True
    )
    assert [row["kind"] for row in json.loads(done.stdout)] == [kind]


def test_either_gate_may_be_wished_for(features: dict[tuple[str, str], Feature]) -> None:
    assert chosen_gate(features.values(), "auto") == "tbf"
    assert chosen_gate(features.values(), "plug") == "plug"


def test_the_congestion_controls_register_carry_data_and_go() -> None:
    """Also on a kernel before 6.4, which has no links of struct_ops."""
    assert not {DCTCP, MCP} & available()
    made = CongestionControl()
    try:
        assert made.owner and {DCTCP, MCP} <= available()
        for name in (DCTCP, MCP):
            with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sender:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
                sender.connect(listener.getsockname())
                receiver, _ = listener.accept()
                with receiver:
                    sender.sendall(b"x" * 20_000)
                    assert receiver.recv(20_000, socket.MSG_WAITALL) == b"x" * 20_000
    finally:
        made.close()
    assert not {DCTCP, MCP} & available()
