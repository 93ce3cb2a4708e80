"""How long it takes to add up a period's size reports of 10,000 hosts, on one processor.

Method: every host reports flows of web search and data mining sizes (types 2 and 3) and of 64 KB with a deadline, as many as
give it `ROWS` rows. The benchmark times four steps, each over a whole period of all hosts, and takes the median of `ROUNDS`
times:

* decode: frames to messages, their tag verified (in the coordinator's loop, spread over the period as the reports come)
* lines: the coordinator's line to the tuner and back (likewise spread)
* aggregate: all reports into one set of counts (in the tuner)
* traffic: from the counts what thresholds are computed for, loads and distributions (in the tuner)

`python -m bench.computing.aggregation`.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from typing import Any

import numpy as np

from controller.priorities.flow_reports import FlowCounts, Reported
from emulation import cdfs
from protocol.bodies.flows.priorities import ROWS_MAX, SIZE_ROW, SizeCount, size_reports
from protocol.bodies.flows.size_bins import EDGES, bin_of
from protocol.key import Key
from protocol.messages import SizeReport, decode, encode

HOSTS = 10_000
FLOWS = 400
ROUNDS = 7
PERIOD_NS = 10_000_000_000
RATE_BPS = 10_000_000_000
LIMIT_MS = 100.0


def run() -> dict[str, Any]:
    """{"hosts", "rows_per_host", "decode_ms", "lines_ms", "aggregate_ms", "traffic_ms", "within_limit", ...}."""
    key = Key(bytes(range(32)))
    reports = _reports()
    frames = [
        encode(report, key=key, destination=bytes(6), source=bytes(6), sender=16 + host, epoch=1, sequence=1)
        for host, report in enumerate(reports)
    ]
    decode_ms, messages = _timed(lambda: [decode(frame, key).message for frame in frames])
    lines_ms, values = _timed(lambda: [json.loads(_line(report)) for report in reports])
    taken = [Reported(rate, period, bytes.fromhex(rows)) for rate, period, rows in values]
    aggregate_ms, counts = _timed(lambda: FlowCounts.of(taken))
    traffic_ms, traffic = _timed(lambda: counts.traffic(0.7))
    return {
        "hosts": HOSTS,
        "rows_per_host": round(statistics.fmean(len(report.rows) for report in reports) / SIZE_ROW.size, 1),
        "frame_bytes": round(statistics.fmean(map(len, frames))),
        "decode_ms": decode_ms,
        "lines_ms": lines_ms,
        "aggregate_ms": aggregate_ms,
        "traffic_ms": traffic_ms,
        "decode_and_aggregate_ms": round(decode_ms + aggregate_ms, 1),
        "limit_ms": LIMIT_MS,
        "within_limit": aggregate_ms + traffic_ms < LIMIT_MS,
        "loads": [round(load, 3) for load in (traffic.load_1, traffic.load_2, traffic.load_3)],
        "all_decoded": messages == reports,
        "method": f"median of {ROUNDS} rounds, one processor",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _reports() -> list[SizeReport]:
    """One report of each host, drawn with a fixed seed."""
    random = np.random.default_rng(1)
    sizes = [cdfs.load(name) for name in ("web_search", "data_mining")]
    reports = []
    for _ in range(HOSTS):
        counts: dict[tuple[int, int], tuple[int, int]] = {(1, bin_of(65_536)): (20, 20 * 65_536)}
        for flow_type, workload in zip((2, 3), sizes, strict=True):
            at = np.searchsorted(_EDGES, workload.quantile(random.random(FLOWS // 2)), side="right") - 1
            for where, flows in zip(*np.unique(at, return_counts=True), strict=True):
                counts[flow_type, int(where)] = int(flows), int(flows) * EDGES[where]
        rows = [SizeCount(*cell, *amounts) for cell, amounts in counts.items()][:ROWS_MAX]
        reports += size_reports(1, PERIOD_NS, rows)
    return reports


_EDGES = np.array(EDGES, dtype=np.float64)


def _line(report: SizeReport) -> str:
    return json.dumps((RATE_BPS, report.period_ns, report.rows.hex()), separators=(",", ":"))


def _timed(work: Any) -> tuple[float, Any]:  # noqa: ANN401 -- any callable
    taken_ms = []
    for _ in range(ROUNDS):
        begin_ns = time.perf_counter_ns()
        result = work()
        taken_ms.append((time.perf_counter_ns() - begin_ns) / 1e6)
    return round(statistics.median(taken_ms), 1), result


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
