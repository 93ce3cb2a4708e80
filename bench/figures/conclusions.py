"""What a record shows beside the published values, and a verdict in a sentence.

A record that states both itself (`compared`, `verdict`) is taken at its word. The others are compared here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.figures.catalogue import FASTER
from bench.style import LABELS as SCHEMES
from bench.xco.record import Check, Row, verdict
from emulation.measuring.figures import LABELS as POLICIES


class Conclusion(NamedTuple):
    """A figure's values beside the published ones, and its verdict."""

    compared: Sequence[Row]
    verdict: str


Record = Mapping[str, Any]


def conclude(name: str, record: Record) -> Conclusion:
    """The conclusion of the record of the figure of this name in the catalogue. Raises KeyError: the record lacks a value."""
    if "verdict" in record:
        rows = [Row(row["what"], row["published"], row["ours"]) for row in record.get("compared", ())]
        return Conclusion(rows, record["verdict"])
    if name not in COMPARE:
        return Conclusion((), "Measured; this figure has no published values to compare with.")
    compared, found = COMPARE[name](record)
    return Conclusion(compared, found if isinstance(found, str) else verdict(found))


def column(name: str) -> str:
    """A column's heading: the name of a policy or a scheme in words."""
    return POLICIES.get(name) or SCHEMES.get(name) or name.replace("_", " ")


Found = tuple[Sequence[Row], Sequence[Check] | str]
"""The compared values; and the checks that give the verdict, or the verdict itself, where the set-ups differ in kind."""


def _demo(record: Record) -> Found:
    rate = float(record["environment"]["rate_mbps"])
    of = {(run["policy"], run["k"]): run for run in record["runs"]}
    ks = sorted({k for _, k in of})
    most, some = ks[-1], ks[len(ks) // 2]

    def by_policy(k: int, value: str) -> dict[str, float | None]:
        return {policy: of[policy, k][value] for policy in POLICIES if (policy, k) in of}

    pings = {policy: of[policy, most]["rtt_ms"]["max"] for policy in POLICIES if (policy, most) in of}
    full, shared = by_policy(most, "goodput_mbps"), by_policy(some, "tcp_mean_mbps")
    sliced = [of["timeslice", k]["goodput_mbps"] for k in ks]
    without = [of["uncoordinated", k]["goodput_mbps"] for k in ks]
    limited = full.get("rate_limit") or 0.0
    near = f"{rate:g} Mb/s"
    rows = [
        Row(
            f"goodput of all, K = {most}, Mb/s",
            {"uncoordinated": "falls with K", "rate_limit": "between", "timeslice": "near 1000 (of 1000)"},
            full,
        ),
        Row(f"goodput of a TCP flow, K = {some}, Mb/s", {"timeslice": "near 200 (of 1000)"}, shared),
        Row("longest ping, ms (figure 18)", {"uncoordinated": "20", "timeslice": "2"}, pings),
    ]
    fifth = shared.get("timeslice") or 0.0
    checks = [
        Check(f"with timeslices {min(sliced):.0f} to {max(sliced):.0f} of {near} for every K", min(sliced) >= 0.9 * rate),
        Check(f"without coordination {without[0]:.0f} Mb/s fall to {without[-1]:.1f}", without[-1] < 0.5 * without[0]),
        Check(f"rate limiting, {limited:.0f} Mb/s, above none", limited > without[-1]),
        Check(f"a TCP flow beside UDP gets {fifth:.0f} Mb/s, a fifth", abs(fifth - rate / 5) <= 0.1 * rate / 5),
    ]
    return rows, checks


def _smallest(run: Record) -> str:
    """The bin of the smallest flows."""
    return next(str(group) for group in run["completion"] if group != "all")


def _left_open(where: str, completions: Mapping[str, Record]) -> list[Check]:
    """By scheme or case, the `completion` of its flows: a property that fails for each that left flows open. These have no
    times, so that means and percentiles look too good.
    """
    return [
        Check(f"{where}, {column(name)}: all flows end ({found['incomplete']} of {found['flows']} do not)", False)
        for name, found in completions.items()
        if found.get("incomplete")
    ]


def _by_scheme(record: Record, take: Callable[[Record], float | None]) -> dict[str, float | None]:
    return {run["scheme"]["name"]: take(run) for run in record["runs"]}


NEAR_PACKETS, NEAR_PART = 2.0, 0.1
"""How far the median of DCTCP's queue may be from the threshold: as far as Mininet-HiFi's from hardware's, and on fast links a
tenth."""
FULL_PART = 0.8
"""Of the buffer: a queue as long as that at p99 fills it."""


def _microbench(record: Record) -> Found:
    p99 = _by_scheme(record, lambda run: run["queue_packets"]["p99"])
    middle = _by_scheme(record, lambda run: run["queue_packets"]["p50"])
    rates = _by_scheme(record, lambda run: run["goodput_mbps"])
    at, above, full = middle.get("dctcp") or 0.0, p99.get("dctcp") or 0.0, p99.get("cubic") or 0.0
    dctcp, cubic = (next(run for run in record["runs"] if run["scheme"]["name"] == name) for name in ("dctcp", "cubic"))
    threshold = dctcp["scheme"]["marking_packets"]
    near = abs(at - threshold) <= max(NEAR_PACKETS, NEAR_PART * threshold)
    rows = [
        Row("queue, median, packets", {"dctcp": "at 100 Mb/s about 20, within 2 of hardware"}, middle),
        Row("queue, p99, packets", {"cubic": "fills the buffer"}, p99),
        Row("goodput, Mb/s", {}, rates),
    ]
    checks = [
        Check(
            f"DCTCP keeps the queue near its threshold (median {at:.0f} packets, p99 {above:.0f}) at {rates['dctcp']:.0f} Mb/s",
            near and all(dctcp["meets"].values()),
        ),
        Check(f"CUBIC fills the buffer (p99 {full:.0f} packets)", full >= FULL_PART * cubic["buffer_packets"]),
    ]
    return rows, checks


def _deadlines(record: Record) -> Found:
    def worst(run: Record) -> float | None:
        return max((ratio for ratio in run["completion_over_deadline"] if ratio is not None), default=None)

    def least(run: Record) -> float | None:
        return min((ratio for ratio in run["completion_over_deadline"] if ratio is not None), default=None)

    def never(run: Record) -> float:
        return float(sum(ratio is None for ratio in run["completion_over_deadline"]))

    def of(text: str, scheme: str) -> str:
        return f"{text}, {open_[scheme]:.0f} never" if open_.get(scheme) else text

    late, early = _by_scheme(record, worst), _by_scheme(record, least)
    open_ = _by_scheme(record, never)
    left = _by_scheme(record, lambda run: run["background_of_what_is_left"])
    rows = [
        Row("earliest end, parts of the deadline", {"mcp": "just below 1", "edf": "as soon as it can"}, early),
        Row("latest end, parts of the deadline", {"mcp": "just below 1", "dctcp": "ignores deadlines"}, late),
        Row("flows that did not end", {"mcp": "none"}, open_),
        Row("the others' part of what is left", {"mcp": "almost all"}, left),
    ]
    mcp, dctcp, edf = (early.get("mcp"), late.get("mcp")), late.get("dctcp"), early.get("edf")
    between = "no flow" if None in mcp else f"flows at {mcp[0]:.2f} to {mcp[1]:.2f} of their deadline"
    in_time = mcp[0] is not None and mcp[1] is not None and mcp[0] >= 0.85 and mcp[1] <= 1
    checks = [
        Check(of(f"MCP ends {between}", "mcp"), in_time and not open_.get("mcp")),
        Check(f"it leaves others {left.get('mcp') or 0:.0%} of the rest", (left.get("mcp") or 0) >= 0.9),
        Check(of(f"DCTCP ends {_some(dctcp)}", "dctcp"), (dctcp or 0) > 1 or bool(open_.get("dctcp"))),
        Check(f"EDF takes the link from others: it ends {_some(edf)}", edf is not None and edf < 0.5),
    ]
    return rows, checks


def _some(ratio: float | None) -> str:
    return "none" if ratio is None else f"some at {ratio:.2f}"


def _sjf_edf(record: Record) -> Found:
    first = {run["scheme"]["name"]: run["responses"] for run in record["runs"] if run["figure"] == 1}
    second = [run for run in record["runs"] if run["figure"] == 2]
    shares = sorted({run["share"] for run in second})
    least, published, most = "1", "20", str(max(map(int, first["sjf"])))

    def missed(percentile: str) -> dict[str, float]:
        return {name: 100 * rows[percentile]["missed"] for name, rows in first.items()}

    def tail(share: float, value: str = "p99_ms") -> dict[str, float]:
        return {run["scheme"]["name"]: run["short"][value] for run in second if run["share"] == share}

    few, many = tail(shares[0]), tail(shares[-1])
    grows = {name: many[name] / few[name] for name in many}
    lost = {run["scheme"]["name"]: 100 * run["deadlines"]["missed"] for run in second if run["share"] == shares[-1]}
    small, large, largest = missed(least), missed(published), missed(most)
    rows = [
        Row("deadlines missed, responses of the 1st percentile, %", {"sjf": "0"}, small),
        Row("deadlines missed, responses of the 20th percentile, %", {"sjf": "above 40", "karuna": "below 5.8"}, large),
        Row(f"deadlines missed, responses of the {most}th percentile, %", {}, largest),
        Row("p99 of short flows, none with deadlines, ms", {}, few),
        Row(f"p99 of short flows, {shares[-1]:.0%} with deadlines, ms", {}, many),
        Row("growth of p99", {"edf": "about 5"}, grows),
        Row("p95 of short flows, none with deadlines, ms", {}, tail(shares[0], "p95_ms")),
        Row(f"p95 of short flows, {shares[-1]:.0%} with deadlines, ms", {}, tail(shares[-1], "p95_ms")),
        Row(f"deadlines missed, {shares[-1]:.0%} with deadlines, %", {"karuna": "below 5.8"}, lost),
    ]
    checks = [
        Check(f"SJF misses {small['sjf']:.1f} % of the deadlines of the smallest responses", small["sjf"] <= 1),
        Check(f"SJF misses {large['sjf']:.1f} % of those of the 20th percentile", large["sjf"] > 40),
        Check(f"Karuna misses {large['karuna']:.1f} % of those of the 20th percentile", large["karuna"] < 5.8),
        Check(f"EDF makes the tail of short flows {grows['edf']:.1f} times as long", 4 <= grows["edf"] <= 6),
        Check(f"under Karuna it grows less, {grows['karuna']:.1f} times", grows["karuna"] < grows["edf"]),
        *(
            check
            for share in (shares[0], shares[-1])
            for check in _left_open(
                f"short flows, {share:.0%} with deadlines",
                {run["scheme"]["name"]: run["short"] for run in second if run["share"] == share},
            )
        ),
    ]
    return rows, checks


def _throughput(record: Record) -> Found:
    def over(run: Record, flow: int) -> float | None:
        one = next(one for one in run["each"] if one["flow"] == flow)
        return None if one["fct_ms"] is None else round(one["fct_ms"] / one["deadline_ms"], 3)

    first, second = (_by_scheme(record, lambda run, flow=flow: over(run, flow)) for flow in (0, 1))  # type: ignore[misc]  # of a lambda with a default
    rows = [
        Row("first flow's end, parts of its deadline", {"karuna": "just below 1", "dctcp": "above 1"}, first),
        Row("second flow's end, parts of its deadline", {"karuna": "just below 1", "dctcp": "above 1"}, second),
    ]
    ends = {name: [found[name] for found in (first, second)] for name in ("karuna", "dctcp")}
    met = {name: all(end is not None and end <= 1 for end in found) for name, found in ends.items()}
    karuna, dctcp = (" and ".join("never" if end is None else f"{end:.2f}" for end in found) for found in ends.values())
    checks = [
        Check(f"Karuna's flows end at {karuna} of their deadlines", met["karuna"]),
        Check(f"DCTCP's at {dctcp}", not met["dctcp"]),
    ]
    return rows, checks


def _fct(record: Record) -> Found:
    rows, checks = list[Row](), list[Check]()
    for at in dict.fromkeys((run["workload"], run["load"]) for run in record["runs"]):
        runs = {run["scheme"]["name"]: run for run in record["runs"] if (run["workload"], run["load"]) == at}
        name = f"{at[0].replace('_', ' ')}, load {at[1]:g}"
        small = _smallest(runs["karuna"])
        means = {scheme: run["completion"]["all"]["mean_ms"] for scheme, run in runs.items()}
        tails = {scheme: run["completion"][small]["p95_ms"] for scheme, run in runs.items()}
        ends = {scheme: run["completion"]["all"]["p95_ms"] for scheme, run in runs.items()}
        lost = {scheme: 100 * (run["deadlines"]["missed"] or 0.0) for scheme, run in runs.items()}
        rows += [
            Row(f"{name}: mean of all, ms", {}, means),
            Row(f"{name}: p95 of flows of {small}, ms", {}, tails),
            Row(f"{name}: p95 of all without deadline, ms", {"karuna": "up to 47.8 % below pFabric's"}, ends),
            Row(f"{name}: deadlines missed, %", {"karuna": "below 5.8"}, lost),
        ]
        checks += [
            Check(
                f"{name}: Karuna misses {lost['karuna']:.1f} % of the deadlines, DCTCP {lost['dctcp']:.1f}",
                lost["karuna"] < 5.8 and lost["karuna"] <= lost["dctcp"],
            ),
            Check(f"small flows' p95 is {tails['karuna']:.1f}, not {tails['dctcp']:.1f} ms", tails["karuna"] < tails["dctcp"]),
            *_left_open(name, {scheme: run["completion"]["all"] for scheme, run in runs.items()}),
        ]
    return rows, checks


def _termination(record: Record) -> Found:
    load = max(run["load"] for run in record["runs"])
    rows, checks = list[Row](), list[Check]()
    for workload in dict.fromkeys(run["workload"] for run in record["runs"]):
        mine = [run for run in record["runs"] if (run["workload"], run["load"]) == (workload, load)]
        runs = {f"scheme {run['termination']}": run["deadlines"] for run in mine}
        gone = {name: 100 * (one["terminated"] or 0.0) for name, one in runs.items()}
        lost = {name: 100 * (one["missed"] or 0.0) for name, one in runs.items()}
        name = workload.replace("_", " ")
        rows += [
            Row(f"{name}: flows given up, load {load:g}, %", {"scheme 1": "more than 2", "scheme 3": "none"}, gone),
            Row(f"{name}: deadlines missed, load {load:g}, %", {"scheme 1": "fewer than 2"}, lost),
        ]
        first, second, third = ((gone[at], lost[at]) for at in ("scheme 1", "scheme 2", "scheme 3"))
        checks += [
            Check(f"{name}: scheme 1 gives up {first[0]:.1f} %, scheme 2 {second[0]:.1f}", first[0] > second[0]),
            Check(f"scheme 1 misses {first[1]:.1f} %, scheme 2 {second[1]:.1f}", first[1] < second[1]),
            Check(f"scheme 3 gives up none and misses {third[1]:.1f} %", third[0] == 0),
        ]
    return rows, checks


def _thresholds(record: Record) -> Found:
    def means(ecn: bool) -> dict[str, float]:
        runs = [run for run in record["runs"] if run["ecn"] is ecn]
        return {column_of(run["threshold_bytes"]): run["completion"][_smallest(run)]["mean_ms"] for run in runs}

    def column_of(cut: int | str) -> str:
        return "tuner's" if isinstance(cut, str) else f"{cut / 1e3:g} KB" if cut < 10**6 else f"{cut / 1e6:g} MB"

    marked, bare = means(True), means(False)
    fitting, wrong = "30 KB", ("20 KB", "2 MB")
    rows = [
        Row("small flows' mean with ECN, ms", {fitting: "ideal"}, marked),
        Row("small flows' mean without ECN, ms", {fitting: "ideal, 9 % lower than with"}, bare),
    ]
    without = bare[fitting] / marked[fitting]
    checks = list[Check]()
    for ecn, found in (("with", marked), ("without", bare)):
        best = found[fitting] <= min(found[cut] for cut in wrong)
        checks.append(Check(f"{ecn} ECN 30 KB is better than 20 KB and 2 MB ({found[fitting]:.2f} ms)", best))
    checks.append(Check(f"at 30 KB means without ECN are {without:.2f} times those with it", 0.86 <= without <= 0.96))
    for cut in wrong:
        checks.append(Check(f"at {cut} ECN helps ({marked[cut]:.2f} instead of {bare[cut]:.2f} ms)", marked[cut] < bare[cut]))
    for run in record["runs"]:
        where = f"{column_of(run['threshold_bytes'])}, {'with' if run['ecn'] else 'without'} ECN"
        checks += _left_open(where, {"small flows": run["completion"][_smallest(run)]})
    if "tuner's" in marked:
        near = marked["tuner's"] / marked[fitting]
        checks.append(Check(f"with the tuner's threshold means are {near:.2f} times those at 30 KB", near <= 1.1))
    return rows, checks


def _queues(record: Record) -> Found:
    means = {f"{run['queues']} queues": run["completion"]["all"]["mean_ms"] for run in record["runs"]}
    values = list(means.values())
    rows = [Row("completion time, mean of all, ms", {}, means)]
    counts = [run["queues"] for run in record["runs"]]
    said = f"{counts[-1]} queues instead of {counts[0]} shorten the mean from {values[0]:.1f} to {values[-1]:.1f} ms"
    found = {f"{run['queues']} queues": run["completion"]["all"] for run in record["runs"]}
    checks = [Check(said, values[-1] < values[0]), *_left_open("load 0.8", found)]
    return rows, verdict(checks, "Published in a picture only.")


def _starvation(record: Record) -> Found:
    def last(run: Record) -> float | None:
        times = [one["fct_ms"] for one in run["starved"]]
        return None if None in times else max(times) / 1e3

    found = {(run["ecn"], run["ageing"]): last(run) for run in record["runs"]}
    rows = [
        Row(f"the last starved flow is through, {'with' if ecn else 'without'} ECN, s", {},
                 {"ageing": found[ecn, True], "no ageing": found[ecn, False]})
        for ecn in (True, False)
    ]  # fmt: skip
    bare, never = found[False, True], found[False, False]
    ends = "no starved flow is left" if bare is not None else "some starved flows are left"
    slower = bare is not None and (never is None or bare < never)
    through = Check(f"with ageing {ends} at the end, also without ECN", bare is not None)
    return rows, verdict([through, Check("without ageing it takes longer", slower)], "No figure is published.")


def _host_control(record: Record) -> Found:
    every = [run for run in record["runs"] if run["kind"] == "delays"]
    runs = [run for run in every if run["size_bytes"] == 64]
    rows = []
    for flows in sorted({run["flows"] for run in runs}):
        here = {_way(run): run for run in runs if run["flows"] == flows}
        for name, title in (("off_us", "off"), ("on_us", "on")):
            published = {"NFP": PUBLISHED_64[flows][name]} if flows in PUBLISHED_64 else {}
            ours = {way: run[name].get("mean") for way, run in here.items()}
            rows.append(Row(f"{title} delay, {flows} flows of 64 B, mean, us", published, ours))
    def slowest(agent: str) -> str:
        found = [run["off_us"]["p50"] for run in every if run["agent"] == agent and run["off_us"]["samples"]]
        return f"{max(found):.0f} us" if found else "(not measured)"

    leaked = [run["packets_after_close"]["max"] for run in every if run["packets_after_close"]["samples"]]
    most = f"at most {max(leaked)} packets leak" if leaked else "so many packets leak: (not measured)"
    said = (
        f"A flow stops {slowest('none')} after a command to its gate, and {slowest('blocking')} after one to its "
        "agent (medians, of the slowest cases); published hardware and DPDK take 1 to 12 us. After a gate has closed "
        f"{most} (published: 1 to 2, from a ring)."
    )
    kept, shut = (sum(run.get(name, 0) for run in every) for name in ("never_closed", "never_opened"))
    return rows, f"{said} {kept} commands to close and {shut} to open had no effect." if kept or shut else said


PUBLISHED_64 = {
    2: {"off_us": "2.81", "on_us": "4.32"},
    4: {"off_us": "2.08", "on_us": "4.30"},
    8: {"off_us": "1.52", "on_us": "4.44"},
    16: {"off_us": "1.25", "on_us": "4.31"},
}
"""The thesis's tables 4.2 and 4.3, packets of 64 bytes, by the number of flows."""


def _way(run: Record) -> str:
    return f"{run['gate']} alone" if run["transport"] == "none" else f"{run['transport']}, {run['gate']}, {run['agent']}"


COMPARE: Mapping[str, Callable[[Record], Found]] = {
    "demo": _demo,
    **dict.fromkeys(("karuna-microbench", *(f"karuna-microbench-{rate}" for rate in FASTER)), _microbench),
    "karuna-deadlines": _deadlines,
    "karuna-sjf-edf": _sjf_edf,
    "karuna-throughput": _throughput,
    "karuna-fct": _fct,
    "karuna-termination": _termination,
    "karuna-thresholds": _thresholds,
    "karuna-queues": _queues,
    "karuna-starvation": _starvation,
    "host-control": _host_control,
}
