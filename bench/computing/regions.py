"""What one set of thresholds for the whole fabric costs, where regions of it differ in load, or in load and workload.

Method: the M/G/1 model of controller/priorities/completion_model.py, two regions, seven bands, flows of types 2 and 3. The one
set is what the tuner would compute: for the sizes of all flows together at the load of the busiest link. The result is the mean
FCT of a region's flows under it, over the best for that region alone, less 1; and the same for all flows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from controller.priorities.completion_model import Traffic
from controller.priorities.flow_sizes import FlowSizes
from controller.priorities.thresholds import optimise
from emulation import cdfs

BANDS = 7
REGIONS = (
    (("web_search", 0.2), ("web_search", 0.9)),
    (("web_search", 0.6), ("web_search", 0.9)),
    (("data_mining", 0.2), ("data_mining", 0.9)),
    (("data_mining", 0.6), ("data_mining", 0.9)),
    (("web_search", 0.3), ("data_mining", 0.3)),
    (("web_search", 0.5), ("data_mining", 0.8)),
    (("web_search", 0.8), ("data_mining", 0.5)),
    (("web_search", 0.8), ("data_mining", 0.8)),
)
"""Two regions with as many links each: workload and load."""


def run() -> dict[str, Any]:
    """{"cases": [{"regions": [(workload, load)], "costs": [by region], "cost": of all flows}]}."""
    return {"cases": [_case(regions) for regions in REGIONS]}


def _case(regions: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    sizes = [cdfs.load(workload) for workload, _ in regions]
    flows = [load / size.mean() for size, (_, load) in zip(sizes, regions, strict=True)]
    busiest = _traffic(max(load for _, load in regions), _together(sizes, flows))
    one = optimise(busiest, BANDS).thresholds
    own = [_traffic(load, size) for size, (_, load) in zip(sizes, regions, strict=True)]
    under_one = [traffic.mean_fct(one) for traffic in own]
    best = [optimise(traffic, BANDS, one).value for traffic in own]
    return {
        "regions": regions,
        "costs": [round(value / least - 1, 4) for value, least in zip(under_one, best, strict=True)],
        "cost": round(float(np.dot(flows, under_one) / np.dot(flows, best)) - 1, 4),
    }


def _traffic(load: float, sizes: FlowSizes) -> Traffic:
    return Traffic(0.0, load / 2, load / 2, sizes, sizes)


def _together(sizes: list[FlowSizes], flows: list[float]) -> FlowSizes:
    points = np.unique(np.concatenate([size.sizes for size in sizes]))
    cdf = sum(share * size.partial(points).finished for size, share in zip(sizes, np.array(flows) / sum(flows), strict=True))
    return FlowSizes(tuple(points.tolist()), (0.0, *np.asarray(cdf)[1:-1].tolist(), 1.0))
