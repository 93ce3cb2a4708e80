"""What control costs in throughput: the thesis's Figures 4.6 and 4.7. An edge: iperf3.

One TCP flow across the wire. A veth pair has no rate of its own: without control a plain HTB class limits it, with control
Baton's tree does, at the same rate. Idle: the agent is a member and every gate is open. Active: the partner closes and opens a
second flow 500 times a second, by Baton's CONDITIONS.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from agents.queues.queues import BURST_NS
from bench.host_control.controls import AgentOptions, ByCondition, agent
from bench.host_control.ends import RECEIVER, End, Ends, EndsError
from bench.host_control.load import Processors
from bench.host_control.partner import Partner
from controller.processes.waiting import wait_until
from emulation.measuring.confidence import judge, together
from emulation.measuring.fidelity import CpuTimes, Fidelity
from emulation.measuring.measure import mean, percentile
from emulation.processes import end_process

RATE_BPS = 400_000_000
"""Both ends of TCP, without offloads, carry this on one machine of two processors with room to spare."""
PORT = 5201
CONTROL = "cubic"
"""Set, since the default differs between kernels."""
TOGGLE_NS = 1_000_000
CASES = ("without", "idle", "active")
WARM_S = 0.5


def run(
    ends: Ends, processors: Processors, *, seconds: float, rounds: int, tell: Callable[[str], None], rate_bps: int = RATE_BPS
) -> dict[str, Any]:
    """Runs all cases in turn, so many rounds; the medians, and each round's values."""
    found: dict[str, list[float]] = {case: [] for case in CASES}
    trust = []
    for number in range(rounds):
        for case in CASES:
            tell(f"throughput, {case}, round {number + 1} of {rounds}")
            before = CpuTimes.now()
            with ExitStack() as exits:
                partner = None
                if case == "without":
                    exits.enter_context(_wire(ends.sender, rate_bps))
                else:
                    partner = exits.enter_context(agent(ends, processors, AgentOptions(rate_bps), 2, first=RECEIVER))
                flow = _iperf(ends, seconds, partial(_serve, ends, partner, case == "active"))
            trust.append(Fidelity.between(before, CpuTimes.now()))
            found[case].append(round(flow / 1e6, 2))
    medians = {case: percentile(values, 50) or 0.0 for case, values in found.items()}
    without = medians["without"]
    return {
        "rate_mbps": rate_bps / 1e6,
        "mbps": medians,
        "rounds": found,
        "idle_change_percent": round(100 * (medians["idle"] / without - 1), 2) if without else None,
        "active_change_percent": round(100 * (medians["active"] / without - 1), 2) if without else None,
        "trust": {
            "confidence": together({f"run {at + 1}": {"confidence": judge(one).to_dict()} for at, one in enumerate(trust)}),
            "idle": round(mean([one.idle for one in trust]) or 0.0, 4),
            "steal": round(max(one.steal for one in trust), 4),
        },
    }


def _serve(ends: Ends, partner: Partner | None, active: bool, process: subprocess.Popen[str]) -> None:
    """Serves the agent until the flow has ended, and commands the other flow if `active`."""
    if partner is None:
        process.wait()
        return
    control = ByCondition(ends, partner, None)
    opens = True
    while process.poll() is None:
        if active:
            opens = not opens
            control.command(1, opens=opens, at_ns=time.monotonic_ns() + TOGGLE_NS)
            control.issued.clear()
        else:
            partner.serve_until(time.monotonic_ns() + 20 * TOGGLE_NS)


@contextmanager
def _wire(end: End, rate_bps: int) -> Iterator[None]:
    """Gives the link a rate without Baton."""
    device = ("dev", end.interface)
    end.run("tc", "qdisc", "add", *device, "root", "handle", "1:", "htb", "default", "1")
    try:
        burst = ("burst", str(rate_bps // 8 * BURST_NS // 10**9), "cburst", str(rate_bps // 8 * BURST_NS // 10**9))
        end.run("tc", "class", "add", *device, "parent", "1:", "classid", "1:1", "htb", "rate", f"{rate_bps}bit", *burst)
        yield
    finally:
        end.run("tc", "qdisc", "del", *device, "root")


def _iperf(ends: Ends, seconds: float, serve: Callable[[subprocess.Popen[str]], None]) -> float:
    """Runs one TCP flow; the bit/s that the receiver got. Raises EndsError: iperf3 failed."""
    listen = ("iperf3", "--server", "--one-off", "--bind", str(RECEIVER), "--port", str(PORT))
    server = subprocess.Popen(ends.receiver.command(*listen), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _listening(ends.receiver)
        send = ("iperf3", "--json", "--client", str(RECEIVER), "--port", str(PORT), "--time", f"{seconds:g}",
                "--omit", f"{WARM_S:g}", "--congestion", CONTROL)  # fmt: skip
        client = subprocess.Popen(ends.sender.command(*send), stdout=subprocess.PIPE, text=True)
        try:
            serve(client)
            found = json.loads(client.communicate()[0])
        finally:
            end_process(client)
    finally:
        end_process(server)
    if "error" in found:
        raise EndsError(f"iperf3: {found['error']}")
    return float(found["end"]["sum_received"]["bits_per_second"])


def _listening(end: End) -> None:
    if not wait_until(lambda: str(PORT) in end.run("ss", "--listening", "--tcp", "--numeric", "--no-header"), 5):
        raise EndsError("iperf3 does not listen")
