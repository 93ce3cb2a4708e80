"""A share of a processor for the traffic programs of each emulated host, and how often they used it up. An edge: cgroups.

Mininet-HiFi's isolation (CPULimitedHost): a host whose programs compute too much slows down itself, and no other. The
kernel's bandwidth control (Documentation/scheduler/sched-bwc.rst) gives each host so much time in each period; a host that has
used it up is throttled until the next. Shares are provisioned before a run: together they must not exceed the processors.

Both versions of cgroups will do. Of version 1, kernels with RT_GROUP_SCHED also need a budget for real-time programs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulation.fabric.naming import EmulationError
from emulation.resource import Resource

WANTED = "BATON_CPU_SHARE"
"""In the environment: the share of a processor that each host gets whose fabric does not say otherwise."""
PERIOD_US = 10_000
"""Of the bandwidth control: a host that has used up its share waits at most so long."""
LEAST_US = 1_000
"""The kernel's least quota in a period."""
REALTIME_PERIOD_US = 1_000_000
REALTIME_US = 950_000
"""Of each second, what real-time programs get at most, as in the kernel's sched_rt_runtime_us."""
REMOVE_S = 2.0


@dataclass(frozen=True, slots=True)
class Controller:
    """Where this machine's cgroups limit processors."""

    root: Path
    version: int


def controller(mounts: str | None = None) -> Controller | None:
    """The machine's cpu controller, from a text as of /proc/mounts; None: it has none."""
    for line in (Path("/proc/mounts").read_text() if mounts is None else mounts).splitlines():
        _, where, kind, options, *_ = line.split()
        root = Path(where)
        if kind == "cgroup" and "cpu" in options.split(",") and (mounts is not None or (root / "cpu.cfs_period_us").exists()):
            return Controller(root, 1)
        if kind == "cgroup2":
            with suppress(OSError):
                if "cpu" in (root / "cgroup.controllers").read_text().split():
                    return Controller(root, 2)
    return None


def remedy() -> str:
    """What is missing for shares of processors, and what to do; empty if they can be had."""
    if controller() is not None:
        return ""
    return "no cgroup has a cpu controller; boot a kernel with CONFIG_CFS_BANDWIDTH and mount cgroup2 at /sys/fs/cgroup"


def wanted() -> float | None:
    """The share that the environment asks for; None: none. Raises EmulationError: it is no number."""
    text = os.environ.get(WANTED, "")
    try:
        return float(text) if text else None
    except ValueError:
        raise EmulationError(f"{WANTED}: {text!r} is no share of a processor; write a number, such as 0.25") from None


def shares_of(hosts: Sequence[str], wanted: float | Mapping[str, float], processors: int | None = None) -> dict[str, float]:
    """Each host's share of one processor, from one share for all of them, or from those of some hosts.

    Raises:
        EmulationError: a host is unknown, a share is too small, or all of them together exceed the processors.
    """
    processors = len(os.sched_getaffinity(0)) if processors is None else processors
    shares = {host: float(wanted) for host in hosts} if isinstance(wanted, int | float) else dict(wanted)
    if unknown := sorted(set(shares) - set(hosts)):
        raise EmulationError(f"cpu_shares: {unknown[0]!r} is no host; name one of {', '.join(hosts)}")
    least = LEAST_US / PERIOD_US
    for host, share in shares.items():
        if not share >= least:
            raise EmulationError(f"cpu_shares: {host} has {share:g} of a processor; give it at least {least:g}")
    total = sum(shares.values())
    if total > processors + 1e-9:
        most = f"at most {processors / len(shares):.2g} each"
        raise EmulationError(
            f"cpu_shares: {len(shares)} hosts ask for {total:g} processors and there are {processors}; give them {most}"
        )
    return shares


@dataclass(frozen=True, slots=True)
class Throttling:
    """Of a host's programs: in how many periods they ran, in how many they used up their share, and how long they waited."""

    periods: int
    throttled: int
    waited_ns: int

    @classmethod
    def parse(cls, text: str) -> Throttling:
        """From cpu.stat of either version (version 1 counts ns, version 2 us)."""
        found = {name: int(value) for name, value in (line.split() for line in text.splitlines())}
        waited_ns = found["throttled_time"] if "throttled_time" in found else found.get("throttled_usec", 0) * 1000
        return cls(found.get("nr_periods", 0), found.get("nr_throttled", 0), waited_ns)

    def since(self, before: Throttling) -> Throttling:
        """What was added since an earlier reading."""
        periods, throttled = self.periods - before.periods, self.throttled - before.throttled
        return Throttling(periods, throttled, self.waited_ns - before.waited_ns)

    def to_dict(self) -> dict[str, Any]:
        """For a result's record."""
        return {"periods": self.periods, "throttled": self.throttled, "waited_ms": round(self.waited_ns / 1e6, 3)}


def sentence(runs: Sequence[Mapping[str, Mapping[str, Any]]]) -> str:
    """What to print of some runs, from each host's `Throttling.to_dict` in each; empty if no host had a share."""
    if not runs:
        return ""
    counts = {host: sum(run[host]["throttled"] for run in runs) for host in runs[0]}
    periods = {host: sum(run[host]["periods"] for run in runs) for host in runs[0]}
    host = max(counts, key=lambda name: counts[name])
    if not counts[host]:
        return "processors: no host used up its share"
    waited_ms = sum(run[host]["waited_ms"] for run in runs)
    waiting = sum(count > 0 for count in counts.values())
    said = f"in {counts[host]} of {periods[host]} periods of {PERIOD_US // 1000} ms, {waited_ms:.0f} ms in all"
    return f"processors: {waiting} of {len(counts)} hosts used up their share; {host} most often: {said}"


class CpuShares(Resource):
    """The hosts' cgroups, made at the beginning of the block and removed at its end."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        """Raises EmulationError: this kernel cannot limit processors."""
        found = controller()
        if found is None:
            raise EmulationError(f"cpu_shares: {remedy()}")
        self.shares = shares
        self._controller = found
        self._processors = len(os.sched_getaffinity(0))
        self._base = found.root / f"baton-{os.getpid()}-{time.monotonic_ns()}"
        self._entries: dict[str, int] = {}

    def _start(self, stack: ExitStack) -> None:
        try:
            self._make(self._base, stack)
            if self._controller.version == 2:
                (self._controller.root / "cgroup.subtree_control").write_text("+cpu")
                (self._base / "cgroup.subtree_control").write_text("+cpu")
            self._allow_realtime(self._base, 1.0)
            for host, share in self.shares.items():
                group = self._base / host
                self._make(group, stack)
                self._limit(group, share)
                self._entries[host] = os.open(group / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
                stack.callback(os.close, self._entries[host])
        except OSError as error:
            raise EmulationError(f"cpu_shares: {error}; run as root, on a kernel with CONFIG_CFS_BANDWIDTH") from None

    def enter(self, host: str) -> Callable[[], None] | None:
        """What a host's program calls before it begins, to be limited (subprocess.Popen's preexec_fn); None: no limit."""
        entry = self._entries.get(host)
        return None if entry is None else lambda: _write(entry)

    def throttling(self) -> dict[str, Throttling]:
        """Of each host with a share, so far."""
        return {host: Throttling.parse((self._base / host / "cpu.stat").read_text()) for host in self.shares}

    def _limit(self, group: Path, share: float) -> None:
        quota_us = round(share * PERIOD_US)
        if self._controller.version == 2:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            return
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        self._allow_realtime(group, share / self._processors)

    def _allow_realtime(self, group: Path, part: float) -> None:
        budget = group / "cpu.rt_runtime_us"
        if budget.exists():  # else real-time programs are not limited by groups
            (group / "cpu.rt_period_us").write_text(str(REALTIME_PERIOD_US))
            budget.write_text(str(int(part * REALTIME_US)))

    def _make(self, group: Path, stack: ExitStack) -> None:
        group.mkdir()
        stack.callback(_remove, group)


def _write(entry: int) -> None:
    os.write(entry, b"0")  # this process


def _remove(group: Path) -> None:
    """Removes a group, which the kernel refuses while a program in it is still ending."""
    deadline = time.monotonic() + REMOVE_S
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)
        else:
            return
