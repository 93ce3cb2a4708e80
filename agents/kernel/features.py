"""The features of a kernel and host that Baton uses, what it does without each, and which gate follows from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

GateName = Literal["tbf", "plug"]
"""A kind of gate, named as the kernel names its qdisc."""


class GateUnavailable(ValueError):
    """The requested gate is unknown or not in this kernel; says what to do."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing that a kernel or host may have.

    Attributes:
        name: as the kernel or its tools name it; unique within its kind.
        kind: qdisc, filter, device, bpf, congestion control, datapath, permission, timer or tool.
        present: whether the trial succeeded.
        instead: what Baton does without it; empty where it is present.
        improve: the package or module that brings it; empty where it is present.
    """

    name: str
    kind: str
    present: bool
    instead: str
    improve: str


class Tc(NamedTuple):
    """tc and the kernel take these commands, one after the other."""

    commands: tuple[str, ...]


class Program(NamedTuple):
    """A program is there, and succeeds."""

    arguments: tuple[str, ...]
    stdin: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A feature to try. Its other fields are as in `Feature`.

    Attributes:
        trial: the feature is there if this succeeds; None: agents/kernel/probe.py has a trial for this name.
    """

    name: str
    kind: str
    trial: Tc | Program | None
    instead: str
    improve: str


def chosen_gate(features: Iterable[Feature], wanted: str) -> GateName:
    """The kind of gate to build: `wanted` is "auto" (the credit gate, tbf), "tbf" or "plug". Pure.

    Raises:
        GateUnavailable: `wanted` is none of the three, or the kernel lacks that gate. No other gate takes
            its place: a tbf bounds a slice by bytes and a plug by time, so they are not equal.
    """
    if wanted not in ("auto", "tbf", "plug"):
        raise GateUnavailable(f"gate: {wanted!r} is not a gate; use 'auto', 'tbf' or 'plug'")
    gate: GateName = "plug" if wanted == "plug" else "tbf"
    qdiscs = {feature.name: feature for feature in features if feature.kind == "qdisc"}
    found = qdiscs.get(gate)
    if found is not None and found.present:
        return gate
    other: GateName = "tbf" if gate == "plug" else "plug"
    there = qdiscs.get(other)
    remedy = found.improve if found is not None else f"modprobe sch_{gate}"
    if there is not None and there.present:
        remedy += f"; or use {other!r}"
    raise GateUnavailable(f"gate: {gate!r} is not in this kernel; {remedy}")


def _module(name: str) -> str:
    return f"modprobe {name} (package linux-image-amd64 on Debian, linux-modules-extra-$(uname -r) on Ubuntu)"


_NOTHING = "nothing: Baton needs it"
_STOCK_KERNEL = "boot a stock kernel (package linux-image-amd64 on Debian, linux-image-generic on Ubuntu)"


def _qdisc(name: str, instead: str, options: str = "") -> Candidate:
    # clsact has a place of its own beside the root
    place = name if name == "clsact" else f"root {name} {options}"
    module = {"pfifo": _STOCK_KERNEL, "clsact": _module("sch_ingress")}.get(name, _module(f"sch_{name}"))
    return Candidate(name, "qdisc", Tc((f"qdisc add dev lo {place}",)), instead, module)


def _filter(name: str, instead: str, options: str) -> Candidate:
    commands = ("qdisc add dev lo clsact", f"filter add dev lo egress protocol all {name} {options}")
    return Candidate(name, "filter", Tc(commands), instead, _module(f"cls_{name}"))


def _tool(name: str, instead: str, improve: str, *arguments: str, stdin: str = "") -> Candidate:
    return Candidate(name, "tool", Program((name, *arguments), stdin), instead, improve)


CANDIDATES = (
    _qdisc("htb", _NOTHING),
    _qdisc(
        "tbf", "plug gate, by time instead of bytes (set gate: plug)", "rate 1mbit burst 2000 limit 3000"
    ),
    _qdisc("pfifo", _NOTHING),
    _qdisc("clsact", _NOTHING),
    _qdisc("plug", "tbf credit gate", "limit 100000"),
    _qdisc("prio", "strict priority by HTB class prio"),
    _qdisc("red", "an eBPF classifier that marks by the true queue", "limit 100000 avpkt 1000 bandwidth 10mbit"),
    _qdisc("fq", "TCP's own pacing timers"),
    _qdisc("fq_codel", "one pfifo per V2V flow"),
    _qdisc("netem", "emulated links without added delay or loss", "delay 1ms"),
    _filter("u32", _NOTHING, "match u32 0 0"),
    _filter("bpf", _NOTHING, 'bytecode "1,6 0 0 4294967295"'),
    Candidate("ifb", "device", None, "queues at egress only", _module("ifb")),
    Candidate(
        "JIT",
        "bpf",
        None,
        "BPF interpreter, and MCP by sock_ops beside the kernel's dctcp",
        "run as root; sysctl net.core.bpf_jit_enable=1",
    ),
    Candidate(
        "BTF",
        "bpf",
        None,
        "the kernel's own congestion control, no MCP",
        f"{_STOCK_KERNEL}: CONFIG_DEBUG_INFO_BTF",
    ),
    Candidate("program load", "bpf", None, _NOTHING, f"run as root; {_STOCK_KERNEL}"),
    Candidate("ring buffer", "bpf", None, "maps read periodically", "Linux 5.8 or later"),
    Candidate(
        "struct_ops",
        "bpf",
        None,
        "MCP by sock_ops beside the kernel's dctcp",
        f"Linux 5.6 or later with BTF and JIT; {_STOCK_KERNEL}",
    ),
    Candidate(
        "dctcp",
        "congestion control",
        None,
        "baton_dctcp, the same as eBPF",
        _module("tcp_dctcp"),
    ),
    Candidate(
        "openvswitch",
        "datapath",
        Program(("genl", "ctrl", "get", "name", "ovs_datapath")),
        "datapath_type=netdev",
        f"apt install openvswitch-switch; {_module('openvswitch')}",
    ),
    Candidate(
        "SCHED_FIFO",
        "permission",
        Program(("chrt", "--fifo", "1", "true")),
        "ordinary scheduling, so later gates under load",
        "run as root, or LimitRTPRIO= in the systemd unit",
    ),
    Candidate(
        "high-resolution timers",
        "timer",
        None,
        "slices no shorter than a tick",
        f"boot without highres=off; {_STOCK_KERNEL}",
    ),
    _tool(
        "clang",
        "eBPF programs compiled elsewhere",
        "apt install clang llvm libbpf-dev",
        "-target",
        "bpf",
        "-x",
        "c",
        "-c",
        "-o",
        "/dev/null",
        "-",
        stdin="int nothing(void) { return 0; }\n",
    ),
    _tool(
        "bpftool",
        "no eBPF tagger or congestion control",
        "apt install bpftool on Debian, linux-tools-common linux-tools-$(uname -r) on Ubuntu",
        "version",
    ),
)
"""All features that the probe tries, in the order of its report. The only list of features."""
