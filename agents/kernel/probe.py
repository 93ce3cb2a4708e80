"""Finds by trial which features Baton can use on this kernel, and which kind of gate follows from them.

An edge file: it runs iproute2, reads /proc and /sys, and calls bpf(2). Every trial that needs an interface
has a network namespace of its own (`unshare --net`), which is gone when the trial's process is; programs and
maps are closed at once. A module that the kernel loaded to answer may remain, as after any such request; no
device, queue or setting does.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

GateName = Literal["tbf", "plug"]
"""A kind of gate, named as the kernel names its qdisc."""

TRIAL_SECONDS = 10.0
"""How long one trial may take before the probe is given up."""


class ProbeRefused(Exception):
    """The probe cannot run at all; says what is missing."""


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


@dataclass(frozen=True, slots=True)
class _Trial:
    """A feature to try; `succeeds` tries it."""

    name: str
    kind: str
    succeeds: Callable[[], bool]
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


def probed_gate(wanted: str) -> GateName:
    """The kind of gate to build on this machine; only a plug is tried, since every kernel that Baton supports has tbf.

    Raises:
        GateUnavailable: as `chosen_gate`.
        ProbeRefused: as `probe`.
    """
    if wanted in ("auto", "tbf"):
        return "tbf"
    _require_namespaces()
    return chosen_gate([_feature(trial) for trial in _trials() if trial.name in ("tbf", "plug")], wanted)


def timers_are_fine(psched: str) -> bool:
    """Whether timers fire between ticks, from the text of /proc/net/psched. Pure.

    The fourth of its hexadecimal fields is 10^9 over the resolution of timers in nanoseconds (psched_show in
    net/sched/sch_api.c): 10^9 where high resolution works, the tick frequency where it does not. False for
    text of another shape.
    """
    fields = psched.split()
    try:
        return len(fields) == 4 and int(fields[3], 16) == 1_000_000_000
    except ValueError:
        return False


def probe() -> list[Feature]:
    """Tries every feature, in the order of the report; takes well under 3 s where the kernel answers promptly.

    Without root it uses a user namespace, where the kernel permits one; features that need root, such as
    loading BPF, then read as absent.

    Raises:
        ProbeRefused: iproute2 or util-linux is not installed, or this process may make no network namespace.
    """
    _require_namespaces()
    return [_feature(trial) for trial in _trials()]


def _feature(trial: _Trial) -> Feature:
    if trial.succeeds():
        return Feature(trial.name, trial.kind, True, "", "")
    return Feature(trial.name, trial.kind, False, trial.instead, trial.improve)


def _require_namespaces() -> None:
    """Without this check, a missing tool or permission would read as a kernel without any feature."""
    for tool, package in (("unshare", "util-linux"), ("tc", "iproute2"), ("ip", "iproute2")):
        if shutil.which(tool) is None:
            raise ProbeRefused(f"kernel probe: {tool} is not installed; apt install {package}")
    done = _run(*_namespace(), "ip", "link", "set", "lo", "up")
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ProbeRefused(f"kernel probe: no network namespace could be made ({said}); run as root")


def _namespace() -> tuple[str, ...]:
    """The start of a command line that runs the rest in a network namespace of its own."""
    rights = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *rights, "--net", "--")


def _run(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs one program and captures its output.

    Raises:
        ProbeRefused: it did not end within `TRIAL_SECONDS`.
    """
    try:
        return subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ProbeRefused(
            f"kernel probe: `{' '.join(argv)}` took over {TRIAL_SECONDS:g} s; see dmesg, then try again"
        ) from None


def _runs(*argv: str, stdin: str = "") -> bool:
    return shutil.which(argv[0]) is not None and _run(*argv, stdin=stdin).returncode == 0


def _accepted(*commands: str) -> bool:
    """Whether tc and the kernel take these commands, one after the other, in a new namespace."""
    return _runs(*_namespace(), "tc", "-batch", "-", stdin="".join(f"{line}\n" for line in commands))


def _has_ifb() -> bool:
    """Asks modprobe first: loading the module would make ifb0 and ifb1 in the first namespace (drivers/net/ifb.c)."""
    if _runs("modprobe", "--dry-run", "--quiet", "ifb"):
        return True
    return _runs(*_namespace(), "ip", "link", "add", "type", "ifb")


def has_congestion_control(name: str) -> bool:
    """Selects it on a socket that is never connected; the kernel loads the module for CAP_NET_ADMIN."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as unconnected:
        try:
            unconnected.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except FileNotFoundError:
            return False
        except PermissionError:  # it is there, but not in net.ipv4.tcp_allowed_congestion_control
            return True
    return True


def _text(path: str) -> str:
    """A file of /proc; empty where the kernel has none or hides it."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


_BTF = Path("/sys/kernel/btf/vmlinux")
_SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "s390x": 351, "ppc64le": 361}
_BPF_MAP_CREATE, _BPF_PROG_LOAD, _BPF_OBJ_GET_INFO_BY_FD = 0, 5, 15
_BPF_MAP_TYPE_RINGBUF, _BPF_PROG_TYPE_SCHED_CLS = 27, 3
_BPF_PROG_INFO_JITED_LEN = 16
"""The offset in struct bpf_prog_info of the size of the machine code (include/uapi/linux/bpf.h)."""
_RETURN_0 = struct.pack("=" + "BBhi" * 2, 0xB7, 0, 0, 0, 0x95, 0, 0, 0)
"""r0 = 0; exit. (BPF_ALU64|BPF_MOV|BPF_K, BPF_JMP|BPF_EXIT: RFC 9669.)"""


@contextmanager
def _program() -> Iterator[int]:
    """A loaded program's descriptor, closed (and the program gone) at the end; OSError if refused."""
    code = ctypes.create_string_buffer(_RETURN_0, len(_RETURN_0))
    licence = ctypes.create_string_buffer(b"GPL")
    addresses = (ctypes.addressof(code), ctypes.addressof(licence))
    descriptor = _bpf(
        _BPF_PROG_LOAD, struct.pack("=IIQQ", _BPF_PROG_TYPE_SCHED_CLS, len(_RETURN_0) // 8, *addresses)
    )
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _bpf(command: int, attributes: bytes) -> int:
    """Calls bpf(2); returns its result.

    Raises:
        OSError: the kernel refused, or the call's number on this architecture is not in `_SYS_BPF`.
    """
    number = _SYS_BPF.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"bpf(2) on {platform.machine()}")
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    library = ctypes.CDLL(None, use_errno=True)
    returned = int(library.syscall(ctypes.c_long(number), command, buffer, len(attributes)))
    if returned < 0:
        raise OSError(ctypes.get_errno(), "bpf(2)")
    return returned


def _loads_program() -> bool:
    try:
        with _program():
            return True
    except OSError:
        return False


def _makes_ring_buffer() -> bool:
    try:
        os.close(_bpf(_BPF_MAP_CREATE, struct.pack("=IIII", _BPF_MAP_TYPE_RINGBUF, 0, 0, mmap.PAGESIZE)))
    except OSError:
        return False
    return True


def _has_jit() -> bool:
    """Whether the kernel compiles a program; net.core.bpf_jit_enable is visible in the first namespace only."""
    info = ctypes.create_string_buffer(_BPF_PROG_INFO_JITED_LEN + 4)
    try:
        with _program() as descriptor:
            _bpf(
                _BPF_OBJ_GET_INFO_BY_FD,
                struct.pack("=IIQ", descriptor, len(info), ctypes.addressof(info)),
            )
    except OSError:
        return False
    (jited_bytes,) = struct.unpack_from("=I", info, _BPF_PROG_INFO_JITED_LEN)
    return bool(jited_bytes > 0)


def has_struct_ops() -> bool:
    """Reads the kernel's BTF instead of a trial: a registered struct_ops would be visible in every namespace.

    Its type is in the kernel's BTF just when net/ipv4/bpf_tcp_ca.c is built in; struct_ops programs
    need the JIT.
    """
    try:
        return _has_jit() and b"\0bpf_struct_ops_tcp_congestion_ops\0" in _BTF.read_bytes()
    except OSError:
        return False


def _module(name: str) -> str:
    return f"modprobe {name} (package linux-image-amd64 on Debian, linux-modules-extra-$(uname -r) on Ubuntu)"


_NOTHING = "nothing: Baton needs it"
_STOCK_KERNEL = "boot a stock kernel (package linux-image-amd64 on Debian, linux-image-generic on Ubuntu)"


def _trials() -> list[_Trial]:
    """All features that the probe tries, with what Baton does without each. The only list of features."""

    def qdisc(name: str, instead: str, options: str = "") -> _Trial:
        # clsact has a place of its own beside the root
        place = name if name == "clsact" else f"root {name} {options}"
        module = {"pfifo": _STOCK_KERNEL, "clsact": _module("sch_ingress")}.get(name, _module(f"sch_{name}"))
        return _Trial(name, "qdisc", lambda: _accepted(f"qdisc add dev lo {place}"), instead, module)

    def tc_filter(name: str, instead: str, options: str) -> _Trial:
        commands = ("qdisc add dev lo clsact", f"filter add dev lo egress protocol all {name} {options}")
        return _Trial(name, "filter", lambda: _accepted(*commands), instead, _module(f"cls_{name}"))

    def tool(name: str, instead: str, improve: str, *arguments: str, stdin: str = "") -> _Trial:
        return _Trial(name, "tool", lambda: _runs(name, *arguments, stdin=stdin), instead, improve)

    return [
        qdisc("htb", _NOTHING),
        qdisc(
            "tbf", "plug gate, by time instead of bytes (set gate: plug)", "rate 1mbit burst 2000 limit 3000"
        ),
        qdisc("pfifo", _NOTHING),
        qdisc("clsact", _NOTHING),
        qdisc("plug", "tbf credit gate", "limit 100000"),
        qdisc("prio", "strict priority by HTB class prio"),
        qdisc("red", "an eBPF classifier that marks by the true queue", "limit 100000 avpkt 1000 bandwidth 10mbit"),
        qdisc("fq", "TCP's own pacing timers"),
        qdisc("fq_codel", "one pfifo per V2V flow"),
        qdisc("netem", "emulated links without added delay or loss", "delay 1ms"),
        tc_filter("u32", _NOTHING, "match u32 0 0"),
        tc_filter("bpf", _NOTHING, 'bytecode "1,6 0 0 4294967295"'),
        _Trial("ifb", "device", _has_ifb, "queues at egress only", _module("ifb")),
        _Trial(
            "JIT",
            "bpf",
            _has_jit,
            "BPF interpreter, and MCP by sock_ops beside the kernel's dctcp",
            "run as root; sysctl net.core.bpf_jit_enable=1",
        ),
        _Trial(
            "BTF",
            "bpf",
            _BTF.exists,
            "the kernel's own congestion control, no MCP",
            f"{_STOCK_KERNEL}: CONFIG_DEBUG_INFO_BTF",
        ),
        _Trial("program load", "bpf", _loads_program, _NOTHING, f"run as root; {_STOCK_KERNEL}"),
        _Trial("ring buffer", "bpf", _makes_ring_buffer, "maps read periodically", "Linux 5.8 or later"),
        _Trial(
            "struct_ops",
            "bpf",
            has_struct_ops,
            "MCP by sock_ops beside the kernel's dctcp",
            f"Linux 5.6 or later with BTF and JIT; {_STOCK_KERNEL}",
        ),
        _Trial(
            "dctcp",
            "congestion control",
            lambda: has_congestion_control("dctcp"),
            "baton_dctcp, the same as eBPF",
            _module("tcp_dctcp"),
        ),
        _Trial(
            "openvswitch",
            "datapath",
            lambda: _runs("genl", "ctrl", "get", "name", "ovs_datapath"),
            "datapath_type=netdev",
            f"apt install openvswitch-switch; {_module('openvswitch')}",
        ),
        _Trial(
            "SCHED_FIFO",
            "permission",
            lambda: _runs("chrt", "--fifo", "1", "true"),
            "ordinary scheduling, so later gates under load",
            "run as root, or LimitRTPRIO= in the systemd unit",
        ),
        _Trial(
            "high-resolution timers",
            "timer",
            lambda: timers_are_fine(_text("/proc/net/psched")),
            "slices no shorter than a tick",
            f"boot without highres=off; {_STOCK_KERNEL}",
        ),
        tool(
            "clang",
            "eBPF programs compiled elsewhere",
            "apt install clang llvm libbpf-dev",
            "-target",
            "bpf",
            "-x",
            "c",
            "-c",
            "-o",
            os.devnull,
            "-",
            stdin="int nothing(void) { return 0; }\n",
        ),
        tool(
            "bpftool",
            "no eBPF tagger or congestion control",
            "apt install bpftool on Debian, linux-tools-common linux-tools-$(uname -r) on Ubuntu",
            "version",
        ),
    ]
