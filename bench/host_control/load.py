"""The flows of one measurement, what arrives of them, and whether the machine kept up meanwhile. An edge: processes.

The sender has a processor of its own and nearly all of its time: it hardly ever stands still for other programs, and
gives way to the agent's link partner and to the kernel's threads (at real-time priority it would hold up RCU, and with it
every new socket).
What hands frames to the wire on that processor also delivers them at the other end, so no third is used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.host_control import lateness
from bench.host_control.capture import Capture, flows_at
from bench.host_control.ends import Ends, EndsError, affinity, stop
from emulation.measuring.fidelity import MAX_LATE_P99_NS, MAX_STEAL, CpuTimes, Fidelity
from emulation.measuring.measure import percentile

PARTNER_PRIORITY, AGENT_PRIORITY = 30, 20
"""SCHED_FIFO. The partner is another machine in truth: nothing of this one may keep it waiting."""
_ANYWHERE = ("taskset", "0xffffffff")


class Processors(NamedTuple):
    """Who runs where; None where there is one processor only."""

    sender: int | None
    partner: int | None
    agent: int | None

    @classmethod
    def found(cls) -> Processors:
        """The agent alone on the last; the partner with the sender, or on one of its own where there are three."""
        there = sorted(os.sched_getaffinity(0))
        return cls(there[0], there[len(there) // 3], there[-1]) if len(there) > 1 else cls(None, None, None)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Keeps this process off the agent's processor: an agent that polls leaves nothing of it to others."""
        before = os.sched_getaffinity(0)
        if self.sender is not None:
            os.sched_setaffinity(0, {self.sender})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


class Commander(NamedTuple):
    """Where this process runs while it commands, and at which priority."""

    processor: int | None
    priority: int


@dataclass(slots=True)
class Load:
    """Flows that are being sent; `trust` is there at the end."""

    capture: Capture
    sent_packets: int = 0
    fidelity: Fidelity | None = None

    def trust(self, *, busy: bool = False) -> dict[str, Any]:
        """Whether what was measured can be believed. `busy`: a processor is never idle as it is polled on."""
        found = self.fidelity
        if found is None:
            return {"valid": False}
        late = percentile(found.late_ns, 99)
        kept_up = found.steal <= MAX_STEAL and (late is None or late <= MAX_LATE_P99_NS)
        return {"valid": kept_up if busy else not found.saturated, **found.to_dict()}


@contextmanager
def load(
    ends: Ends,
    processors: Processors,
    commander: Commander,
    *,
    flows: int,
    size: int,
    seconds: float,
    pps: int = 0,
    megabytes: int = 48,
) -> Iterator[Load]:
    """Sends while entered, for so many seconds, and waits for their end; this process is scheduled as a commander meanwhile.

    Raises:
        EndsError, OSError: the flows cannot be sent or captured.
    """
    options = {"flows": flows, "size": size, "seconds": seconds, "pps": pps}
    argv = ends.sender.command(sys.executable, "-m", "bench.host_control.flood", *_words(options))
    with ExitStack() as exits:
        made = Load(exits.enter_context(flows_at(ends.receiver, megabytes)))
        # Both are up before the flows begin: beside the sender, at ordinary priority, the other might not run at all.
        probe = _Program([*_ANYWHERE, sys.executable, "-IS", lateness.__file__, str(seconds)], exits)
        sender = _Program([*affinity(processors.sender), *argv], exits)
        with _scheduled(commander):
            before = CpuTimes.now()
            probe.go()
            sender.go()
            yield made
            made.sent_packets = sender.result()["packets"]
            made.fidelity = Fidelity.between(before, CpuTimes.now(), probe.result())


class _Program:
    """A program that says when it is ready, and begins when told; killed when the stack unwinds before it has ended."""

    def __init__(self, argv: Sequence[str], exits: ExitStack) -> None:
        self._name = argv[-1] if "-m" not in argv else argv[argv.index("-m") + 1]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,  # a group of its own, where the scheduler shares by groups (autogroup of sched(7))
        )  # fmt: skip
        exits.callback(stop, self._process)
        assert self._process.stdin is not None and self._process.stdout is not None, "pipes"
        self._in, self._out = self._process.stdin, self._process.stdout
        if (first := self._out.readline().strip()) != lateness.READY:
            raise EndsError(f"{self._name} did not begin: {first} {self._out.read().strip()[-200:]}")

    def go(self) -> None:
        """Begins."""
        print(file=self._in, flush=True)

    def result(self) -> Any:  # noqa: ANN401 -- JSON
        """Waits for its end; what it printed."""
        out = self._out.read()
        if self._process.wait():
            raise EndsError(f"{self._name} failed: {out.strip()[-200:]}")
        return json.loads(out)


def _words(options: Mapping[str, float]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


@contextmanager
def _scheduled(commander: Commander) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    if commander.processor is not None:
        os.sched_setaffinity(0, {commander.processor})
    with suppress(PermissionError):  # measured without, then
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(commander.priority))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, before)
