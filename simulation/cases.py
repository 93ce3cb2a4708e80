"""A case: one run with all that determines its result, but for the code. Pure.

A case is what a sweep computes once and keeps: `key` begins the name of its result's file.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from controller.priorities.completion_model import Thresholds
from controller.priorities.flow_sizes import FlowSizes
from simulation.admission import Admission
from simulation.fabric import SpineLeaf
from simulation.flows import Flow, Mixture, poisson
from simulation.schemes import SCHEMES, Settings, case_text, program_settings, thresholds


@dataclass(frozen=True, slots=True)
class Case:
    """One scheme under one list of flows. Cases that differ in scheme or settings alone have the same flows.

    `margin`: the part of the flows, first at the beginning and then at the end, that load the fabric and are not counted.

    Raises:
        ValueError: a value is out of its range; names it.
    """

    scheme: str
    workload: str
    load: float
    flows: int
    seed: int = 1
    fabric: SpineLeaf = field(default_factory=SpineLeaf)
    mixture: Mixture = field(default_factory=Mixture)
    settings: Settings = field(default_factory=Settings)
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme {self.scheme!r} is unknown; choose one of {', '.join(SCHEMES)}")
        if not 0 < self.load < 1:
            raise ValueError(f"load is {self.load}; give a share of the hosts' links, above 0 and below 1")
        if not 0 <= self.margin < 0.5:
            raise ValueError(f"margin is {self.margin}; give a part of the flows, 0 or more and below 0.5")

    @property
    def key(self) -> str:
        """A name that no other case has."""
        text = json.dumps(asdict(self), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return f"{self.scheme}-{self.workload}-{self.load:g}-{self.flows}-{self.seed}-{digest}"

    def scheduled(self, sizes: FlowSizes) -> tuple[Flow, ...]:
        """The flows; `sizes` is the workload's distribution."""
        return poisson(sizes, self.fabric, load=self.load, count=self.flows, mixture=self.mixture, seed=self.seed)

    def sent(self, flows: tuple[Flow, ...], refused: Mapping[int, int]) -> tuple[Flow, ...]:
        """The flows as hosts send them, when those at these positions are refused their deadlines at first."""
        return self._admission.sent(flows, refused) if self.settings.admit else flows

    def program_input(self, sent: tuple[Flow, ...]) -> tuple[str, Thresholds]:
        """What the program reads, and the thresholds in it."""
        cuts = thresholds(self.scheme, sent, self.load)
        return case_text(program_settings(self.scheme, self.fabric, cuts, self.settings, self.seed), sent), cuts

    def refused(self, flows: tuple[Flow, ...]) -> dict[int, int]:
        """The flows whose deadlines are refused at first, as `Admission.refused`."""
        return self._admission.refused(flows, self.fabric.host_bps) if self.settings.admit else {}

    @property
    def _admission(self) -> Admission:
        given = self.settings
        return Admission(given.admit, given.admit_from_bytes, given.admit_delay_ns, given.aim)

    @property
    def counted(self) -> slice:
        """The positions of the flows that count: all that start between the margins."""
        margin = int(self.margin * self.flows)
        return slice(margin, self.flows - margin)

    def described(self) -> dict[str, Any]:
        """The case for a result's file."""
        return asdict(self)


def grid(
    schemes: Sequence[str], workloads: Sequence[str], loads: Sequence[float], seeds: Iterable[int], **rest: Any  # noqa: ANN401
) -> list[Case]:
    """All cases of a sweep, each once, those of one list of flows together; `rest` as in `Case`."""
    given = itertools.product(workloads, loads, seeds, schemes)
    return list(dict.fromkeys(Case(scheme, workload, load, seed=seed, **rest) for workload, load, seed, scheme in given))
