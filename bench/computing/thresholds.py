"""How long thresholds take, and how good they are: against a proven bound, the equal split and PIAS' published thresholds.

Method: published workloads, as published and as hosts report them after so many flows (histograms of
protocol/bodies/flows/size_bins.py); loads 0.5 to 0.9, 2 to 8 bands for flows of types 2 and 3; the load is carried in equal
parts by the types of a mix ("thirds": 1, 2 and 3; "unknown": all type 3, which is what PIAS knows). Values are mean FCT in the
model of controller/priorities/completion_model.py, in milliseconds at 10 Gb/s. PIAS' table (ToN 2017, ns-2) is for 8 bands;
its thresholds serve as alpha and as beta. Seconds are of the processor, the least of `REPEATS` calls. `python -m
bench.computing.thresholds`.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from controller.priorities.compiled.library import LIBRARY
from controller.priorities.completion_model import Thresholds, Traffic, equal_split
from controller.priorities.thresholds import optimise
from emulation import cdfs

WORKLOADS = ("web_search", "data_mining")
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
BANDS = tuple(range(2, 9))
MIXES = {"thirds": (1 / 3, 1 / 3, 1 / 3), "unknown": (0.0, 0.0, 1.0)}
FLOWS = (None, 20_000, 300)
"""Flows of each type that are reported; None: the distribution as published."""
REPEATS = 3
RATE_BPS = 10_000_000_000
PACKET_BYTES = 1460

PIAS_PACKETS = {
    "web_search": {
        0.9: (759, 1132, 1456, 1737, 2010, 2199, 2325),
        0.8: (909, 1329, 1648, 1960, 2143, 2337, 2484),
        0.7: (999, 1305, 1564, 1763, 1956, 2149, 2309),
        0.6: (956, 1381, 1718, 2028, 2297, 2551, 2660),
        0.5: (1059, 1412, 1643, 1869, 2008, 2115, 2184),
    },
    "data_mining": {
        0.9: (750, 1083, 1416, 13705, 14952, 21125, 28253),
        0.8: (745, 1083, 1391, 13689, 14936, 21149, 27245),
        0.7: (907, 1301, 1619, 12166, 12915, 21313, 26374),
        0.6: (840, 1232, 1617, 11950, 12238, 21494, 25720),
        0.5: (805, 1106, 1401, 10693, 11970, 21162, 22272),
    },
}
"""Thresholds as published with the simulation, by load, for 8 bands."""


def run() -> dict[str, Any]:
    """{"cases": [{"workload", "flows", "mix", "load", "bands", "seconds", "value_ms", "gap", ...}], "worst_...": ...}."""
    cases = [
        _case(workload, flows, mix, load, bands)
        for workload in WORKLOADS
        for flows in FLOWS
        for mix in MIXES
        for load in LOADS
        for bands in BANDS
    ]
    return {
        "cases": cases,
        "worst_seconds": max(case["seconds"] for case in cases),
        "worst_gap": max(case["gap"] for case in cases),
        "worst_gap_reported": max(case["gap"] for case in cases if case["flows"]),
        "never_worse_than_equal_split": all(case["value_ms"] <= case["equal_split_ms"] for case in cases),
        "never_worse_than_pias": all(case["value_ms"] <= case["pias_ms"] for case in cases if case["pias_ms"] is not None),
        "library_missing": LIBRARY.why_missing(),
        "numpy": np.__version__,
    }


def _case(workload: str, flows: int | None, mix: str, load: float, bands: int) -> dict[str, Any]:
    published_sizes = cdfs.load(workload)
    sizes = published_sizes if flows is None else cdfs.reported(published_sizes, flows, seed=1)
    load_1, load_2, load_3 = (load * share for share in MIXES[mix])
    traffic = Traffic(load_1, load_2, load_3, sizes, sizes)
    spent_ns = []
    for _ in range(REPEATS):
        start_ns = time.process_time_ns()
        found = optimise(traffic, bands)
        spent_ns.append(time.process_time_ns() - start_ns)
    published = tuple(packets * PACKET_BYTES for packets in PIAS_PACKETS[workload][load])
    pias = Thresholds(published, published) if bands == len(published) + 1 else None
    return {
        "workload": workload,
        "flows": flows,
        "mix": mix,
        "load": load,
        "bands": bands,
        "seconds": round(min(spent_ns) / 1e9, 4),
        "value_ms": _ms(found.value),
        "bound_ms": _ms(found.bound),
        "gap": round(found.gap, 5),
        "equal_split_ms": _ms(traffic.mean_fct(equal_split(traffic, bands))),
        "pias_ms": None if pias is None else _ms(traffic.mean_fct(pias)),
        "beta": found.thresholds.beta,
        "alpha": found.thresholds.alpha,
    }


def _ms(link_bytes: float) -> float:
    return round(link_bytes * 8e3 / RATE_BPS, 5)


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
