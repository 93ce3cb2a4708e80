"""Timeslices and flow priorities: neither, each alone, and both at once, under the same flows.

Method: the emulated star, five hosts that send to a sixth at 50 Mb/s. Each sends one long flow (type 3) all the time; from the
warm-up on, flows of 10 to 100 KB come as a Poisson process, half of them with a deadline, half of known size (types 1 and 2).
The same list runs once for each of these, each time over a fabric of its own with Baton's controller over it:

* neither: no agents; CUBIC, one queue of 100 packets.
* timeslices: agents under the timeslice policy, nothing else; as in XCo.
* priorities: agents that tag, and switch ports with eight priorities that mark above 20 packets; MCP for deadlines, DCTCP for
  the rest, and no flow needs permission; as in Karuna.
* both: priorities order the flows that have permission, in hosts and switches, and flows with deadlines get permission first.
  DCTCP for all: MCP sends no faster than the deadline requires, one round trip at a time, and round trips now include the wait
  for permission.
* both, MCP: the same with MCP for deadlines, to show that.

The controller computes the thresholds for the list's sizes and loads. The benchmark puts them into the store before the
measured coordinator starts, which distributes them as those of its predecessor. A flow's time runs from its connect to its last
byte at the receiver; goodput is what applications received of all flows after the warm-up, from which on drops count, too.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from agents.priorities.congestion_control import DCTCP, MCP, CongestionControl
from agents.priorities.mcp_settings import McpSettings
from bench.karuna.record import SCALE, Experiment, Options, Tell, experiment
from bench.style import SPARE, Series, bars, panels, save
from controller.priorities.completion_model import Thresholds, Traffic
from controller.priorities.flow_sizes import FlowSizes
from controller.priorities.thresholds import optimise
from controller.switch_queues.model import SwitchQueues
from emulation import cdfs
from emulation.fabric.fabric import EmulatedFabric
from emulation.measuring.confidence import sure
from emulation.stack import stack
from emulation.stack.running import reach
from emulation.stack.schemes import CUBIC, MARKING_PACKETS, PAIRS, real_name, registered, set_tcp
from emulation.stack.stack import Stack
from emulation.stack.star import BOTTLENECK, BUFFER_PACKETS, SENDERS
from emulation.traffic import flow_run
from emulation.traffic.flow_run import FlowRun
from emulation.traffic.flow_schedule import Mixture, Schedule, ScheduledFlow, poisson, scaled
from emulation.traffic.flow_stats import completion, deadlines
from protocol.units import FRAME_BYTES
from topology import shapes

RATE_BPS = 50_000_000
"""With agents, 2 processors cannot emulate faster links faithfully."""
SLICE = "4ms"
WARMUP_NS = 2_000_000_000
"""By then the controller knows the contended links, and the long flows have found their rates."""
BUCKET_NS = 500_000_000
LOAD = 0.3
"""Of the short flows, with and without deadline together."""
SMALL = FlowSizes((10_000, 100_000), (0.0, 1.0))
MIXTURE = Mixture(shares=(0.5, 0.5, 0.0), deadline_mean_ms=80.0, slack=6.0)
BANDS = 7
PUBLISHED = {
    "source": "XCo, HPDC 2010; Karuna, SIGCOMM 2016",
    "result": "none: neither paper has the other's mechanism",
}


class Case(NamedTuple):
    """Which mechanisms a case uses."""

    name: str
    timeslices: bool
    priorities: bool
    mcp: bool = False

    def agent_options(self, cgroup: Path) -> tuple[str, ...]:
        return ("--priorities", "--cgroup", str(cgroup)) if self.priorities else ()

    def transport(self, flow: ScheduledFlow, *, control: CongestionControl | None) -> str | None:
        """The congestion control that a flow's application chooses; None: the host's own."""
        return real_name(MCP, control) if self.mcp and flow.flow_type == 1 else None


CASES = (
    Case("neither", False, False),
    Case("timeslices", True, False),
    Case("priorities", False, True, mcp=True),
    Case("both", True, True),
    Case("both, MCP", True, True, mcp=True),
)


def run(options: Options, tell: Tell) -> Experiment:
    """The same flows under each case."""
    schedule = flows(6.0 if options.quick else 20.0, options.seed)
    runs, raw, environment = list[dict[str, Any]](), list[dict[str, Any]](), dict[str, Any]()
    for number, case in enumerate(CASES):

        def progress(seconds: float, number: int = number, name: str = case.name) -> None:
            tell(name, (number + seconds * 1e9 / schedule.length_ns) / len(CASES))

        progress(0)
        with _star(case) as (emulated, control):
            found = flow_run.run(
                emulated,
                schedule,
                port=BOTTLENECK,
                drain_s=1.0,
                control=functools.partial(case.transport, control=control),
                bucket_ns=BUCKET_NS,
                host_queues=not (case.timeslices or case.priorities),
                progress=progress,
            )
            environment = environment or emulated.environment()
        runs.append({"case": case.name, **_figures(found)})
        raw += [{"run": number, **result.row()} for result in found.results]
    title = "Deadlines, short and long flows under timeslices, priorities, and both"
    scale = "five long flows into 50 Mb/s, and flows of 10 to 100 KB at load 0.3"
    return Experiment(experiment(title, PUBLISHED, options, runs, environment, scale), raw)


def flows(seconds: float, seed: int) -> Schedule:
    """A long flow of every sender from the beginning, and short flows for about so many seconds after the warm-up."""
    coming = poisson(
        SMALL, load=LOAD, rate_bps=RATE_BPS, duration_ns=round(seconds * 1e9), pairs=PAIRS, mixture=MIXTURE, seed=seed
    )
    length_ns = WARMUP_NS + coming.length_ns
    endless_bytes = 2 * RATE_BPS * length_ns // 8 // 10**9
    long = [ScheduledFlow(at, 0, source, target, endless_bytes, 3) for at, (source, target) in enumerate(PAIRS)]
    others = [
        ScheduledFlow(
            len(long) + flow.number,
            WARMUP_NS + flow.start_ns,
            flow.source,
            flow.destination,
            flow.size_bytes,
            flow.flow_type,
            flow.deadline_ms,
        )
        for flow in coming.flows
    ]
    return Schedule((*long, *others), length_ns, WARMUP_NS)


def _thresholds() -> Thresholds:
    """The controller's thresholds for the short flows, and long ones that take most of the rest."""
    share = LOAD / 2
    long = scaled(cdfs.load("web_search"), SCALE, 3_000_000)
    return optimise(Traffic(share, share, 0.9 - LOAD, SMALL, long), BANDS).thresholds


@contextmanager
def _star(case: Case) -> Iterator[tuple[EmulatedFabric, CongestionControl | None]]:
    with ExitStack() as exits:
        cgroup = exits.enter_context(empty_cgroup())
        queues = control = None
        if case.priorities:
            settings = McpSettings(link_bps=RATE_BPS, marking_packets=MARKING_PACKETS)
            control = exits.enter_context(registered(settings, mcp=case.mcp))
            queues = SwitchQueues(buffer_packets=BUFFER_PACKETS, marking_threshold_bytes=MARKING_PACKETS * FRAME_BYTES)
        emulated = exits.enter_context(
            EmulatedFabric(
                shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=RATE_BPS),
                controller=stack.OPENFLOW,
                buffer_packets=BUFFER_PACKETS,
                queues=queues,
                congestion_control=real_name(DCTCP, control) if case.priorities else CUBIC,
            )
        )
        for host in emulated.fabric.hosts:
            set_tcp(emulated, host, ecn=case.priorities)
        baton = exits.enter_context(
            Stack(
                emulated,
                coordinator={"policy": "timeslice" if case.timeslices else "free", "slice": SLICE},
                priorities={"enabled": case.priorities, "bands": BANDS, "period": "1h"},
            )
        )
        reach(emulated, baton)
        if case.priorities:
            _put_in_force(baton)
        if case.timeslices or case.priorities:
            baton.start_agents(options=case.agent_options(cgroup))
        yield emulated, control


def _put_in_force(baton: Stack) -> None:
    """Puts thresholds into the store, and kills the coordinator, whose successor takes them over."""
    found = _thresholds()
    wanted = {"beta": list(found.beta), "alpha": list(found.alpha)}
    baton.store.publish_thresholds({"version": 2, "bands": BANDS, "thresholds": wanted})
    before = baton.status()
    os.kill(before["pid"], signal.SIGKILL)

    def resumed() -> bool:
        now = baton.status()
        return bool(now.get("pid") not in (None, before["pid"]) and now.get("thresholds_version", 0) >= 2)

    baton.wait(resumed, "the coordinator to go on with the thresholds")


@contextmanager
def empty_cgroup() -> Iterator[Path]:
    """A cgroup without processes: agents set the congestion control of its processes, and the traffic programs choose theirs.

    Emulated hosts have a /sys of their own, so the cgroups are mounted elsewhere. Enter the block before the hosts are made.
    """
    with TemporaryDirectory(prefix="baton-cgroup-") as root:
        subprocess.run(["mount", "-t", "cgroup2", "none", root], check=True)
        try:
            # The time, too: another box may have a process of this number.
            made = Path(root) / f"baton-bench-{os.getpid()}-{time.monotonic_ns()}"
            made.mkdir()
            try:
                yield made
            finally:
                made.rmdir()
        finally:
            subprocess.run(["umount", "--lazy", root], check=True)


def _figures(found: FlowRun) -> dict[str, Any]:
    buckets = range(WARMUP_NS // BUCKET_NS, found.length_ns // BUCKET_NS)
    carried = sum(result.buckets.get(number, 0) for result in found.results for number in buckets)
    of = {kind: [result for result in found.results if result.flow.flow_type == kind] for kind in (1, 2, 3)}
    return {
        "deadlines": deadlines(found.results),
        "deadline_flows": completion(of[1]),
        "short_flows": completion(of[2]),
        "goodput_mbps": round(carried * 8e3 / (len(buckets) * BUCKET_NS), 2),
        "retransmits": sum(result.retransmits for result in found.results),
        "drops": found.drops,
        "port": [{"sent_packets": queue.sent_packets, "drops": queue.drops, "marks": queue.marks} for queue in found.queues],
        "trust": found.trust(),
    }


def draw(found: Experiment, path: Path) -> None:
    """Draws deadlines met, times of short flows, goodput and drops, a bar for each case."""
    runs = found.record["runs"]
    figure, axes = panels(1, 4, width=4.2)

    def values(axis: Any, title: str, unit: str, groups: dict[str, Any]) -> None:  # noqa: ANN401 -- matplotlib's
        """`groups`: the value of a run, by the name of its group of bars."""
        series = [
            Series(run["case"], colour, [take(run) for take in groups.values()], [sure(run["trust"])] * len(groups))
            for run, colour in zip(runs, SPARE, strict=False)
        ]
        bars(axis, list(groups), series)
        axis.set(title=title, ylabel=unit)

    first, second, third, fourth = axes[0]
    values(first, "deadlines met", "share", {"": lambda run: run["deadlines"]["met"]})
    times = {name: (lambda run, key=f"{name}_ms": run["short_flows"][key]) for name in ("mean", "p99")}
    values(second, "completion of short flows", "ms", times)
    second.set(yscale="log")
    values(third, "goodput of all flows", "Mb/s", {"": lambda run: run["goodput_mbps"]})
    values(fourth, "packets dropped at the bottleneck", "packets", {"": lambda run: run["drops"]})
    fourth.legend(frameon=False, fontsize=8, loc="upper right")
    save(figure, found.record, path)
