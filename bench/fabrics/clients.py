"""Programs as users have them beside a UDP flood: iperf3, wget from a web server, an ssh copy and ping, all unchanged.

Method: the fabric of the experiment. All send to the last host: a flood, a program at each of the other senders, and `ping`.
Each should get its max-min share, and none should wait longer than two rounds of slots: twice the senders times the slice, and
a round trip.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.fabrics import ideal
from bench.fabrics.experiment import Each, Options, drop_share, policies, record, started, switch_links
from bench.fabrics.patterns import SHAPES, Traffic, one_receiver
from bench.record import Experiment, Tell
from emulation.measuring.measure import jain, percentile, rate_mbps
from emulation.stack.running import Running, run_under
from emulation.traffic.clients import Client, Clients, Ping, installed, web_server
from emulation.traffic.experiment import Flow
from topology.fabric import Fabric

PING_S = 0.05
ROUNDS = 2


def run(options: Options, tell: Tell, each: Each = lambda run: None) -> Experiment:
    """Each program's goodput beside its share, and the longest time in which it got nothing, under every policy.

    `each` gets the record of each run as soon as it is measured.
    """
    fabric = SHAPES[options.shape](options.rate_bps, options.above_bps)
    traffic = Traffic(options.rate_bps)
    round_trip_ns, control = options.round_trips_ns[0], options.controls[0]
    runs: list[dict[str, Any]] = []
    tell("building the fabric, starting the controller", 0)
    with started(fabric, options, round_trip_ns, control) as running:
        environment = {**running.emulated.environment(), "rate_mbps": options.rate_bps / 1e6, "web_server": web_server()}
        at = {"round_trip_us": round_trip_ns / 1e3, "congestion_control": control, "pattern": "clients"}
        wanted = policies(options.policies)
        for number, policy in enumerate(wanted):
            tell(f"{policy}, clients", number / len(wanted))
            runs.append({**at, "policy": policy, **_measure(running, fabric, traffic, policy, options)})
            each(runs[-1])
    made = record(options, runs, environment)
    return Experiment({**made, "title": f"{made['title']}: programs as they are", "verdict": verdict(runs)}, [])


def _measure(running: Running, fabric: Fabric, traffic: Traffic, policy: str, options: Options) -> dict[str, Any]:
    pattern = one_receiver(fabric, traffic)
    flood = pattern.flows[0]
    senders = [flow.source for flow in pattern.flows[1:]]
    receiver = flood.destination
    kinds = installed()
    clients = [Client(kinds[at % len(kinds)], sender, receiver) for at, sender in enumerate(senders)]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-clients-")))
        programs = stack.enter_context(Clients(running.emulated, clients, directory))
        ping = Ping(running.emulated, *pattern.ping, PING_S, stack)
        observed = switch_links(fabric, pattern)
        found = run_under(
            running, policy, [flood], duration_s=options.seconds, warmup_s=options.warmup_s, bottlenecks=observed
        )
        outcome = found.outcome
        from_ns, until_ns = outcome.started_ns, outcome.started_ns + outcome.duration_ns
        pings = ping.result(from_ns, until_ns)
    rates = [outcome.goodput_mbps]
    stalls = [0.0]
    for client in clients:
        got = programs.got(client.source, from_ns, until_ns)
        rates.append(rate_mbps(got.size, outcome.duration_ns))
        stalls.append(got.stall_ns / 1e6)
    flows = [flood, *(Flow("tcp", client.source, receiver) for client in clients)]
    shares = [share / 1e6 for share in ideal.goodputs_bps(fabric, flows)]
    parts = [rate / share for rate, share in zip(rates, shares, strict=True)]
    longest_ms = ROUNDS * len(flows) * options.slice_ns / 1e6 + options.round_trips_ns[0] / 1e6
    return {
        **found.to_dict(),
        "goodput_mbps": round(sum(rates), 2),
        "flows": [
            {
                "kind": kind,
                "source": flow.source,
                "destination": flow.destination,
                "goodput_mbps": round(rate, 2),
                "ideal_mbps": round(share, 2),
                "of_ideal": round(part, 4),
                "longest_stall_ms": round(stall, 2),
            }
            for kind, flow, rate, share, part, stall in zip(
                ("udp", *(client.kind for client in clients)), flows, rates, shares, parts, stalls, strict=True
            )
        ],
        "ideal_mbps": round(sum(shares), 2),
        "of_ideal": round(sum(rates) / sum(shares), 4),
        "least_of_ideal": round(min(parts), 4),
        "jain_of_ideal": round(jain(parts), 4),
        "drop_share": drop_share(fabric, outcome),
        "rtt_ms": {
            "p50": percentile(pings["times_ms"], 50),
            "p99": percentile(pings["times_ms"], 99),
            "max": max(pings["times_ms"], default=None),
        },
        "pings": {"sent": pings["sent"], "lost": pings["lost"]},
        "longest_stall_ms": round(max(stalls), 2),
        "unseen_ms": round(programs.unseen_ns(from_ns, until_ns) / 1e6, 2),
        "two_rounds_ms": longest_ms,
    }


def verdict(runs: list[dict[str, Any]]) -> str:
    """Which program stalled, under which policy of Baton's, in a sentence."""
    judged = [run for run in runs if run["policy"] not in ("uncoordinated", "free")]
    if not judged:
        return "Measured; stalls are judged under policies of Baton, of which none ran."
    stalled = [
        f"{flow['kind']} from {flow['source']} {flow['longest_stall_ms']:g} ms under {run['policy']}"
        for run in judged
        for flow in run["flows"]
        if flow["longest_stall_ms"] > run["two_rounds_ms"]
    ]
    limit = f"two rounds of slots ({runs[0]['two_rounds_ms']:g} ms)"
    return f"Stalled longer than {limit}: {', '.join(stalled)}." if stalled else f"No program stalled longer than {limit}."
