"""The flows of one measurement, the packets of them that arrive, and whether the machine kept up. An edge: processes.

The sender has a processor nearly to itself: other programs hardly ever interrupt it, and it gives way to the agent's link
partner and to the kernel's threads (at real-time priority it would hold up RCU, and with it every new socket). The processor
that hands a frame to the wire also delivers it at the other end, so no third one is used.
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

from bench.host_control.capture import Capture, flows_at
from bench.host_control.ends import Ends, EndsError, affinity
from emulation.measuring.confidence import Disturbance, judge
from emulation.measuring.fidelity import CpuTimes, Fidelity
from emulation.processes import end_process
from emulation.traffic import workloads

PARTNER_PRIORITY, AGENT_PRIORITY = 30, 20
"""SCHED_FIFO. The partner stands for another machine: no program of this one may keep it waiting."""
_ANYWHERE = ("taskset", "0xffffffff")


class Processors(NamedTuple):
    """Which processor each program runs on; None on a machine with one processor."""

    sender: int | None
    partner: int | None
    agent: int | None

    @classmethod
    def found(cls) -> Processors:
        """Of this machine: the agent alone on the last, the partner with the sender, or on one of its own if there are
        three."""
        there = sorted(os.sched_getaffinity(0))
        return cls(there[0], there[len(there) // 3], there[-1]) if len(there) > 1 else cls(None, None, None)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Keeps this process off the agent's processor: an agent that polls uses all of it."""
        before = os.sched_getaffinity(0)
        if self.sender is not None:
            os.sched_setaffinity(0, {self.sender})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


class Commander(NamedTuple):
    """The processor on which this process runs while it commands, and its priority (SCHED_FIFO)."""

    processor: int | None
    priority: int


@dataclass(slots=True)
class Load:
    """Flows that are being sent; the counts and `fidelity` are known at the end."""

    capture: Capture
    sent_packets: int = 0
    fidelity: Fidelity | None = None

    def trust(self, *more: Disturbance, busy: bool = False) -> dict[str, Any]:
        """How sure the measurement is. `more`: what the experiment knows; `busy`: the agent polls, so its processor is never
        idle."""
        confidence = judge(self.fidelity, busy=busy, more=more).to_dict()
        return {"confidence": confidence, **({} if self.fidelity is None else self.fidelity.to_dict())}


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
    """Sends flows for so many seconds, and waits for their end; meanwhile this process runs as the commander says.

    Raises:
        EndsError, OSError: the flows cannot be sent or captured.
    """
    options = {"flows": flows, "size": size, "seconds": seconds, "pps": pps}
    argv = ends.sender.command(sys.executable, "-m", "bench.host_control.flood", *_words(options))
    with ExitStack() as exits:
        made = Load(exits.enter_context(flows_at(ends.receiver, megabytes)))
        # Both start before the flows begin: beside the sender the probe, at ordinary priority, might never get to run.
        timer_probe = [*_ANYWHERE, *workloads.COMMAND, "timer-probe", "--seconds", str(seconds)]
        probe = _HeldProgram("the timer probe", timer_probe, exits)
        sender = _HeldProgram("the flows' sender", [*affinity(processors.sender), *argv], exits)
        with _scheduled(commander):
            before = CpuTimes.now()
            probe.go()
            sender.go()
            yield made
            made.sent_packets = sender.result()["packets"]
            made.fidelity = Fidelity.between(before, CpuTimes.now(), probe.result()["late_ns"])


class _HeldProgram:
    """A program that is ready and waits for a line to begin; ended when the stack unwinds."""

    def __init__(self, name: str, argv: Sequence[str], exits: ExitStack) -> None:
        self._name = name
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,  # a scheduling group of its own (autogroup of sched(7))
        )  # fmt: skip
        exits.callback(end_process, self._process)
        assert self._process.stdin is not None and self._process.stdout is not None, "pipes"
        self._in, self._out = self._process.stdin, self._process.stdout
        if (first := self._out.readline().strip()) != workloads.READY:
            raise EndsError(f"{self._name} did not begin: {first} {self._out.read().strip()[-200:]}")

    def go(self) -> None:
        """Lets the program begin."""
        print(file=self._in, flush=True)

    def result(self) -> Any:  # noqa: ANN401 -- JSON
        """Waits for the program's end; what it printed. Raises EndsError: it failed."""
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
    with suppress(PermissionError):  # without the right, at ordinary priority
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(commander.priority))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, before)
