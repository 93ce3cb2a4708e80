"""Whether an emulation was faithful, and what it ran on. An edge: /proc and version commands.

Mininet-HiFi's question (section 3 of the paper): did anything wait for a processor that on real hardware would not have had to?
Three things over a run answer it: how idle the processors were, how late a timer of real-time priority fired, and how long each
process was ready to run and had no processor. What that did to the figures is for emulation/measuring/confidence.py.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from emulation.measuring.measure import percentile
from protocol import virtual_time

# With less idle time, programs wait for a processor often enough to distort a 2 ms schedule.
MIN_IDLE = 0.05
MAX_STEAL = 0.05
MAX_LATE_P99_NS = 2_000_000
MAX_SWITCH_WAIT = 0.01
"""The largest share of the time that a switch may wait for a processor. If a processor has other work than the switch, the
kernel takes it away for 50 ms of each second (the fair server of sched(7)), in spite of real-time priority."""
PACKAGES = ("ryu", "os-ken", "pyroute2", "redis", "networkx", "eventlet")
SYSCTLS = (
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_ecn",
    "net/ipv4/ipfrag_high_thresh",
    "net/ipv4/ipfrag_time",
    "net/core/rmem_default",
    "net/core/wmem_default",
)


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Clock ticks of all processors together since boot, as /proc/stat counts them (proc(5))."""

    total: int
    idle: int
    steal: int

    @classmethod
    def now(cls) -> Self:
        """Reads them now."""
        return cls.parse(Path("/proc/stat").read_text())

    @classmethod
    def parse(cls, text: str) -> Self:
        """From the first line: user nice system idle iowait irq softirq steal. Nice programs give way, so their time counts as
        idle."""
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, text.split("\n", 1)[0].split()[1:9])
        return cls(user + nice + system + idle + iowait + irq + softirq + steal, nice + idle + iowait, steal)

    def stolen_since(self, before: Self) -> float:
        """Of the time in which programs wanted a processor, the fraction that the machine's host gave to other machines."""
        wanted = self.total - before.total - (self.idle - before.idle)
        return (self.steal - before.steal) / wanted if wanted > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Of a run: the fractions of processor time that were idle and that other machines took, and sorted timer lateness.

    `virtual`: it ran in virtual time, in which no program waits for a processor.
    """

    idle: float
    steal: float
    late_ns: tuple[int, ...] = ()
    processors: int = 1
    virtual: bool = False

    @classmethod
    def between(cls, before: CpuTimes, after: CpuTimes, late_ns: Sequence[int] = ()) -> Self:
        """The fidelity of the time between two readings."""
        ticks = max(1, after.total - before.total)
        idle, steal = (after.idle - before.idle) / ticks, (after.steal - before.steal) / ticks
        return cls(idle, steal, tuple(late_ns), os.cpu_count() or 1, virtual_time.inside())

    @property
    def saturated(self) -> bool:
        """Whether the machine was so busy that programs waited for a processor."""
        late = percentile(self.late_ns, 99)
        return self.idle < MIN_IDLE or self.steal > MAX_STEAL or (late is not None and late > MAX_LATE_P99_NS)

    def to_dict(self) -> dict[str, Any]:
        """For a result's record; lateness in microseconds."""

        def microseconds(ns: float | None) -> float | None:
            return None if ns is None else round(ns / 1e3, 1)

        return {
            "idle": round(self.idle, 4),
            "steal": round(self.steal, 4),
            "timer_late_us": {
                "p50": microseconds(percentile(self.late_ns, 50)),
                "p99": microseconds(percentile(self.late_ns, 99)),
                "max": microseconds(max(self.late_ns, default=None)),
            },
            "saturated": self.saturated,
        }


@dataclass(frozen=True, slots=True)
class Waits:
    """How long each process of an experiment has been ready to run without a processor, ns, by its name in a sentence."""

    by_name: Mapping[str, int]

    @classmethod
    def now(cls) -> Self:
        """Of all processes of this PID namespace that an experiment's figures depend on (proc(5), schedstat)."""
        found: dict[str, int] = {}
        for directory in () if virtual_time.inside() else Path("/proc").glob("[0-9]*"):
            try:
                words = (directory / "cmdline").read_text(errors="replace").split("\0")
                name = process_name(words)
                if name is not None:
                    found[f"{name} ({directory.name})"] = int((directory / "schedstat").read_text().split()[1])
            except (OSError, IndexError, ValueError):  # it has ended meanwhile, or the kernel counts no waits
                continue
        return cls(found)

    def since(self, before: Self) -> dict[str, int]:
        """How long each process waited between two readings; one that is in only one of them is left out."""
        names = self.by_name.keys() & before.by_name.keys()
        return {name: self.by_name[name] - before.by_name[name] for name in sorted(names)}


_PROGRAMS = {
    "receive": "a receiver",
    "serve": "a receiver",
    "tcp-send": "a TCP sender",
    "send": "a sender",
    "request": "a receiver",
    "echo": "the pinger",
}
"""The traffic programs by their first argument; one that floods is not among them, since it sends more than passes anyway."""


_SCRIPTS = ("/workloads.py", "/request_load.py", "/flow_load.py", "/coflow_load.py")


def process_name(words: Sequence[str]) -> str | None:
    """What to call a process with this command line in a sentence; None if no figure depends on when it runs."""
    if "cli.main" in words and "agent" in words:
        return f"the agent of {words[words.index('--name') + 1]}" if "--name" in words[:-1] else "an agent"
    if "controller.coordinator.process" in words:
        return "the coordinator"
    scripts = [at for at, word in enumerate(words) if word.endswith(_SCRIPTS)]
    return _PROGRAMS.get(words[scripts[0] + 1]) if scripts and scripts[0] + 1 < len(words) else None


def environment(**more: object) -> dict[str, Any]:
    """The machine, for the record of a result: kernel, processors, versions, settings, commit; and `more`."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "virtual_time": virtual_time.inside(),
        "python": platform.python_version(),
        "open_vswitch": _first_line("ovs-vswitchd", "--version").rpartition(" ")[2],
        "iproute2": _first_line("tc", "-V"),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "sysctl": {name: value for name in SYSCTLS if (value := _read(f"/proc/sys/{name}"))},
        "commit": _first_line("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"),
        **more,
    }


def _first_line(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0].strip() if done.returncode == 0 else ""


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _read(path: str) -> str:
    try:
        return " ".join(Path(path).read_text().split())
    except OSError:
        return ""
