"""Work conservation: five UDP flows into one link, three of them at 5 % of it.

Reference: XCo (HPDC 2010), Figure 21. Method: that of `bench.coordination.conservation`, whose flows these are: timeslices
once with yields, and once with a hysteresis so long that no agent gives an unused slot back before its end. Since slots are
as long as their owner used the last one, that costs little: the published gap between the two is not seen any more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.coordination.conservation import KEEPING, YIELDING, flows
from bench.record import Experiment, Tell
from bench.style import Series, bars, panels, save
from bench.xco.record import Case, Check, Layout, Options, Row, concluded, measure, published_for, select
from emulation.measuring.confidence import sure
from emulation.measuring.figures import POLICIES, STYLES
from emulation.stack.running import UnderPolicy
from emulation.stack.star import BOTTLENECK, SENDERS
from topology import shapes

PUBLISHED = {
    "result": "about 300 Mb/s without coordination, more than 500 with XCo, more than 800 with XCo and work conservation",
}
NO_YIELDS = "timeslice without yields"


def layout(options: Options) -> Layout:
    """The star of five senders and a receiver."""
    return Layout(shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=options.rate_bps), BOTTLENECK)


def run(options: Options, tell: Tell) -> Experiment:
    """Goodput without coordination, with rate limits, under `auto`, and with timeslices with and without yields."""
    seconds, warmup_s = options.seconds(1.5, 6.0), options.seconds(0.5, 1.0)
    both = Case({"given_back": True}, flows(options.rate_bps), seconds, warmup_s, policies=(*POLICIES, "auto"))
    never = Case({"given_back": False}, flows(options.rate_bps), seconds, warmup_s, policies=("timeslice",))
    found = layout(options)
    part = 4 / 5  # four of the five runs are on the first fabric
    measured = measure(found, [both], options, lambda what, done: tell(what, done * part), coordinator=YIELDING, more=_shares)
    measured = measured.extended(
        measure(
            found, [never], options, lambda what, done: tell(what, part + done * (1 - part)), coordinator=KEEPING, more=_shares
        )
    )
    runs = measured.runs
    with_it, without = (select(runs, policy="timeslice", given_back=early)["goodput_mbps"] for early in (True, False))
    nothing = select(runs, policy="uncoordinated")["goodput_mbps"]
    limited, chosen = (select(runs, policy=policy)["goodput_mbps"] for policy in ("rate_limit", "auto"))
    link, gain = options.rate_bps / 1e6, with_it - without
    ours = {"uncoordinated": nothing, "rate_limit": limited}
    early = {**ours, "timeslice": with_it, "auto": chosen}
    return concluded(
        "Work conservation: two fast UDP flows, three at 5 % of the link",
        PUBLISHED,
        measured,
        options,
        scale="UDP messages of 60 KB, the slow flows' of 1.4 KB, port buffer 100 packets",
        rows=[
            Row("goodput, slots given back, Mb/s", published_for("300", "", "over 800"), early),
            Row("goodput, slots kept, Mb/s", published_for("300", "", "over 500"), {**ours, "timeslice": without}),
        ],
        checks=[
            Check(f"without coordination less than half of the link is used ({nothing:.0f} Mb/s here)", nothing < 0.5 * link),
            Check(f"timeslices use more ({without:.0f} Mb/s)", without > nothing),
            Check(f"more than 0.8 of it if unused ones are given back early ({with_it:.0f} Mb/s)", with_it > 0.8 * link),
            Check(f"to give them back gains much ({gain:+.0f} Mb/s; published: some 300)", gain > 0.1 * link),
        ],
    )


def draw(found: Experiment, path: Path) -> None:
    """Draws a bar for each scheme, and each flow's share of it."""
    runs = found.record["runs"]
    figure, axes = panels(1, 2, width=6)
    names = [run["policy"].replace("_", " ") if run["given_back"] else NO_YIELDS for run in runs]
    colours = [STYLES[run["policy"]][0] if run["given_back"] else "#E69F00" for run in runs]
    totals = [
        Series(name, colour, [run["goodput_mbps"]], [sure(run)]) for name, colour, run in zip(names, colours, runs, strict=True)
    ]
    bars(axes[0][0], ["all flows"], totals)
    shares = [
        Series(name, colour, run["flows_mbps"], [sure(run)] * len(run["flows_mbps"]))
        for name, colour, run in zip(names, colours, runs, strict=True)
    ]
    bars(axes[0][1], ["fast", "fast", "5 %", "5 %", "5 %"], shares)
    for axis in axes.flat:
        axis.set(ylabel="goodput, Mb/s")
    axes[0][0].legend(frameon=False, fontsize=8, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    save(figure, found.record, path)


def _shares(_: Case, found: UnderPolicy) -> dict[str, Any]:
    return {"flows_mbps": [round(flow.goodput_mbps, 2) for flow in found.outcome.flows]}
