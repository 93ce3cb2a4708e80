"""Published distributions of flow sizes, as text files beside this one.

A line is a size and P(flow size <= size); `#` begins a comment; `unit N` says that sizes are in units of N bytes (default 1).
Two lines with the same size are a jump: flows of exactly that many units. A flow may fill its last unit in part, so `parse`
spreads the jump evenly over that unit.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from controller.priorities.flow_sizes import FlowSizes
from protocol.bodies.flows.size_bins import EDGES

HERE = Path(__file__).parent


def names() -> list[str]:
    """The names of the workloads."""
    return sorted(path.stem for path in HERE.glob("*.txt"))


def load(name: str) -> FlowSizes:
    """The distribution of a workload, in bytes.

    Raises:
        ValueError: the name is unknown, or a line is malformed; names the file and the line.
    """
    path = HERE / f"{name}.txt"
    if name not in names():
        raise ValueError(f"workload {name!r} is unknown; choose one of {', '.join(names())}")
    return parse(path.read_text(), path.name)


def reported(sizes: FlowSizes, flows: int, seed: int) -> FlowSizes:
    """The histogram that hosts would report after so many flows of these sizes."""
    drawn = sizes.quantile(np.random.default_rng(seed).random(flows))
    counts, _ = np.histogram(drawn, bins=np.array(EDGES, dtype=np.float64))
    return FlowSizes.from_histogram([float(edge) for edge in EDGES], counts.tolist())


def parse(text: str, source: str) -> FlowSizes:
    """The distribution in a file's text; errors name the file by `source`. Raises ValueError as `load` does."""
    unit, points = 1.0, list[tuple[float, float]]()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            if words[0] == "unit":
                (unit,) = map(float, words[1:])
            else:
                size, probability = map(float, words)
                points.append((size, probability))
        except ValueError:
            raise ValueError(f"{source}, line {number}: write a size and a probability, or `unit BYTES`") from None
    jumps = {size for (size, _), (after, _) in pairwise(points) if size == after}
    spread = []
    for at, (size, probability) in enumerate(points):
        lower = size in jumps and at + 1 < len(points) and points[at + 1][0] == size
        spread.append(((size - 1 if lower else size) * unit, probability))
    try:
        return FlowSizes(tuple(size for size, _ in spread), tuple(probability for _, probability in spread))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
