"""The kernel probe against the kernel asked in another way: tc on a veth, bpftool, /proc."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.kernel.features import Feature, chosen_gate
from agents.kernel.probe import ProbeRefused, probe

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network namespaces"),
    pytest.mark.skipif(shutil.which("tc") is None, reason="needs tc (apt install iproute2)"),
]

QDISCS = {
    "htb": ["default", "1"],
    "tbf": ["rate", "8mbit", "burst", "10kb", "latency", "50ms"],
    "pfifo": ["limit", "10"],
    "plug": ["limit", "65536"],
    "prio": ["bands", "3"],
    "red": ["limit", "200000", "avpkt", "1000", "bandwidth", "100mbit", "ecn"],
    "fq": [],
    "fq_codel": [],
    "netem": ["loss", "1%"],
}
ABSENT = ("kind is unknown", "No such file or directory")


@pytest.fixture(scope="module")
def features() -> dict[tuple[str, str], Feature]:
    return {(feature.kind, feature.name): feature for feature in probe()}


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"baton-{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(
            ["ip", "-n", name, "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"], check=True
        )
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def listing(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("kind", QDISCS)
def test_a_qdisc_is_present_just_when_tc_can_put_it_on_a_veth(
    kind: str, features: dict[tuple[str, str], Feature], namespace: str
) -> None:
    added = subprocess.run(
        ["tc", "-n", namespace, "qdisc", "add", "dev", "veth0", "root", kind, *QDISCS[kind]],
        capture_output=True,
        text=True,
        check=False,
    )
    shown = {row["kind"] for row in json.loads(listing("tc", "-n", namespace, "-j", "qdisc", "show"))}
    assert features["qdisc", kind].present is (kind in shown)
    if kind not in shown:  # or the command was wrong, and the row as well
        assert any(reason in added.stderr for reason in ABSENT), added.stderr


def test_u32_is_present_just_when_tc_shows_such_a_filter(
    features: dict[tuple[str, str], Feature], namespace: str
) -> None:
    tc = ["tc", "-n", namespace]
    subprocess.run([*tc, "qdisc", "add", "dev", "veth0", "clsact"], check=False)
    match = ["protocol", "ip", "u32", "match", "ip", "dst", "10.0.0.1/32", "flowid", "1:1"]
    subprocess.run([*tc, "filter", "add", "dev", "veth0", "ingress", *match], check=False)
    shown = listing("tc", "-n", namespace, "filter", "show", "dev", "veth0", "ingress")
    assert features["filter", "u32"].present is ("u32" in shown)


def test_ebpf_rows_agree_with_bpftool(features: dict[tuple[str, str], Feature]) -> None:
    if shutil.which("bpftool") is None:
        pytest.skip("needs bpftool (apt install bpftool)")
    found = json.loads(listing("bpftool", "-j", "feature", "probe", "kernel"))
    assert features["bpf", "program load"].present is found["program_types"]["have_sched_cls_prog_type"]
    assert features["bpf", "ring buffer"].present is found["map_types"]["have_ringbuf_map_type"]
    enabled = found["system_config"]["bpf_jit_enable"]
    if enabled != -1:  # unreadable: the first network namespace alone shows it
        assert features["bpf", "JIT"].present is (enabled > 0)
    types = listing("bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux")
    assert features["bpf", "struct_ops"].present is ("STRUCT 'bpf_struct_ops_tcp_congestion_ops'" in types)


def test_dctcp_is_present_just_when_the_kernel_lists_it(features: dict[tuple[str, str], Feature]) -> None:
    listed = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert features["congestion control", "dctcp"].present is ("dctcp" in listed)


def test_every_row_says_what_is_done_instead_and_what_brings_it_just_when_it_is_absent(
    features: dict[tuple[str, str], Feature],
) -> None:
    assert len(features) == len(probe())  # no two of the same kind and name
    for feature in features.values():
        assert bool(feature.instead) is bool(feature.improve) is not feature.present


def test_the_found_kernel_gives_the_credit_gate(features: dict[tuple[str, str], Feature]) -> None:
    assert chosen_gate(features.values(), "auto") == "tbf"


def test_the_probe_leaves_no_interface_queue_or_descriptor_behind_within_three_seconds() -> None:
    def state() -> tuple[str, str, set[str]]:
        # an open descriptor is all that keeps a program or map of the probe alive
        descriptors = {entry.name for entry in Path("/proc/self/fd").iterdir()}
        return listing("ip", "-o", "link"), listing("tc", "qdisc", "show"), descriptors

    probe()  # the first may load modules
    before, started = state(), time.monotonic()
    probe()
    assert time.monotonic() - started < 3
    assert state() == before


def test_without_permission_the_probe_refuses_rather_than_find_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited = ["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv (apt install util-linux)")
    run = subprocess.run

    def unprivileged(argv: tuple[str, ...], **options: object) -> object:
        return run([*limited, *argv], **options)  # type: ignore[call-overload]  # passes on whatever it was given

    monkeypatch.setattr("agents.kernel.probe.subprocess.run", unprivileged)
    with pytest.raises(ProbeRefused, match="run as root"):
        probe()
