"""Finds by trial which features (agents/kernel/features.py) Baton can use on this kernel.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agents.kernel.features import CANDIDATES, Candidate, Feature, GateName, Program, Tc, chosen_gate

TRIAL_SECONDS = 10.0
"""How long one trial may take before the probe is given up."""


class ProbeRefused(Exception):
    """The probe cannot run at all; says what is missing."""


def probed_gate(wanted: str) -> GateName:
    """The kind of gate to build on this machine; only a plug is tried, since every kernel that Baton supports has tbf.

    Raises:
        GateUnavailable: as `chosen_gate`.
        ProbeRefused: as `probe`.
    """
    if wanted in ("auto", "tbf"):
        return "tbf"
    _require_namespaces()
    return chosen_gate([_feature(tried) for tried in CANDIDATES if tried.name in ("tbf", "plug")], wanted)


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
    return [_feature(tried) for tried in CANDIDATES]


def _feature(tried: Candidate) -> Feature:
    if _succeeds(tried):
        return Feature(tried.name, tried.kind, True, "", "")
    return Feature(tried.name, tried.kind, False, tried.instead, tried.improve)


def _succeeds(tried: Candidate) -> bool:
    match tried.trial:
        case Tc(commands):
            return _accepted(*commands)
        case Program(arguments, stdin):
            return _runs(*arguments, stdin=stdin)
        case None:
            return _TRIALS[tried.name]()


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


_TRIALS: Mapping[str, Callable[[], bool]] = {
    "ifb": _has_ifb,
    "JIT": _has_jit,
    "BTF": _BTF.exists,
    "program load": _loads_program,
    "ring buffer": _makes_ring_buffer,
    "struct_ops": has_struct_ops,
    "dctcp": lambda: has_congestion_control("dctcp"),
    "high-resolution timers": lambda: timers_are_fine(_text("/proc/net/psched")),
}
"""By name of the candidates that say no trial."""
