"""Mean flow completion time under strict priority bands with sieved flows: the model that thresholds are computed by. Pure.

*System.* One link of rate C carries three types of flows (Karuna, SIGCOMM 2016). Type 1 has deadlines and the top priority;
its senders are paced, so it is a fluid that takes the share rho_1 of the link and delays no flow otherwise. Types 2 and 3
arrive as Poisson processes with lambda_2 and lambda_3 flows per unit of time and share K bands of strict, preemptive
priorities. A type 2 flow is in band j while beta_{j-1} < r <= beta_j, where r is what it has left to send, so it rises. A type
3 flow sends its bytes from alpha_{l-1} to alpha_l in band l, so it sinks. Inside a band flows are served in the order in which
they arrived at the link.

*Units.* Sizes in bytes, time in bytes too: the time in which the link carries so many (multiply by 8/C for seconds).
So lambda E[S] is a load without unit, and everything below is consistent; all scales with the sizes.

*Derivation.* Let T_j be the traffic truncated to the bands 1..j: type 1, type 2 flows of at most beta_j, the last beta_j bytes
of larger ones, and of every type 3 flow the first alpha_j bytes. The bands below do not disturb it, and it is served whenever
there is any of it. All of it comes as Poisson processes, but for the ends of larger type 2 flows: such a flow rises to band j
only while it is served, so when nothing else of T_j is there. For the mean of the unfinished work W it does not matter that
work comes to an empty system (rate conservation: the mean of W^2 is constant), so both parts count alike (Pollaczek and
Khinchine), but only what comes at any time slows the others:

    sigma_j = rho_1 + lambda_2 E[S2; S2 <= beta_j]   + lambda_3 E[min(S3, alpha_j)]
    V_j     =         lambda_2 E[min(S2, beta_j)^2]  + lambda_3 E[min(S3, alpha_j)^2]
    U_j     = V_j / (2 (1 - sigma_j))

A type 3 flow of size x that ends in band j waits for the work U_j that it finds (Poisson arrivals see averages) and for its
own x bytes, and meanwhile only what arrives in the bands above j comes first, which slows the clock by 1 - sigma_{j-1}. A type
2 flow that begins in band j waits for as much; of its own bytes it sends those beyond beta_{i-1} while the bands above i slow
it:

    type 3:  T(x) = (U_j + x) / (1 - sigma_{j-1})
    type 2:  T(x) = U_j / (1 - sigma_{j-1}) + sum_{i=1..j} [ min(x, beta_i) - beta_{i-1} ] / (1 - sigma_{i-1})

For type 2 alone this is the least remaining work first, in bands (Schrage and Miller 1966, where every size is a band of its
own), for type 3 alone Kleinrock's multilevel processor sharing with first come first served levels (Queueing Systems II, 4.7).
With N_j the share of flows that begin (type 2) or end (type 3) in the bands 1..j, and B_j the mean bytes that count there,
E[min(S2, beta_j)] and E[S3; S3 <= alpha_j] weighted by the types' shares of the flows, the mean over all flows of both types is

    T = sum_{j=1..K} [ (N_j - N_{j-1}) U_j + (B_j - B_{j-1}) ] / (1 - sigma_{j-1})

*What is not used, and why.* Karuna splits type 2 by the whole size, and by what is left only after timeouts; by what is left
throughout, the mean is lower and nobody starves more (docs/karuna.md). Karuna's and PIAS' printed objectives put the
distribution of flow counts where loads belong, and their relaxations have degenerate optima. The tandem M/M/1 of PIAS (ToN
2017) adds one packet's delay per band, whatever the flow sends there. Processor sharing inside bands at the reduced rate
1 - sigma_{j-1} makes T a function of the sigma_j alone, so that large flows before small ones would do as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.priorities.flow_sizes import Floats, FlowSizes
from protocol.units import COUNT_MAX


@dataclass(frozen=True, slots=True)
class Thresholds:
    """K - 1 splitting thresholds beta (type 2, what is left) and demotion thresholds alpha (type 3, bytes sent), never falling.

    Two equal thresholds leave the band between them empty. The last band has no upper end.

    Raises:
        ValueError: unequal numbers, a negative threshold, or a falling one; names it.
    """

    beta: tuple[int, ...]
    alpha: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.beta) != len(self.alpha):
            raise ValueError(f"beta has {len(self.beta)} thresholds and alpha {len(self.alpha)}; both need bands - 1")
        for name, cuts in (("beta", self.beta), ("alpha", self.alpha)):
            for at, cut in enumerate(cuts):
                if cut < (cuts[at - 1] if at else 0):
                    raise ValueError(f"{name}[{at}] is {cut}, below the one before; thresholds never fall")

    @property
    def bands(self) -> int:
        return len(self.beta) + 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """The load of each type, as a share of the link, and the sizes of the flows of types 2 and 3.

    The sizes of a type without load are None, or ignored.

    Raises:
        ValueError: a negative load, 1 or more in sum, neither type 2 nor type 3, or a load without sizes.
    """

    load_1: float
    load_2: float
    load_3: float
    sizes_2: FlowSizes | None
    sizes_3: FlowSizes | None

    def __post_init__(self) -> None:
        loads = (self.load_1, self.load_2, self.load_3)
        for number, load in enumerate(loads, 1):
            if not 0 <= load < 1:
                raise ValueError(f"load_{number} is {load}; it is a share of the link from 0 to below 1")
        if sum(loads) >= 1:
            raise ValueError(f"the loads sum to {sum(loads)}; below 1 no queue grows without end")
        if not self.load_2 + self.load_3 > 0:
            raise ValueError("load_2 and load_3 are 0; without such flows there is nothing to sieve")
        for number, load, sizes in ((2, self.load_2, self.sizes_2), (3, self.load_3, self.sizes_3)):
            if load > 0 and sizes is None:
                raise ValueError(f"sizes_{number} is missing, but load_{number} is {load}")

    def flows_2(self) -> float:
        """lambda_2: arrivals while the link carries one byte."""
        return self.load_2 / self.sizes_2.mean() if self.load_2 > 0 and self.sizes_2 is not None else 0.0

    def flows_3(self) -> float:
        """lambda_3: arrivals while the link carries one byte."""
        return self.load_3 / self.sizes_3.mean() if self.load_3 > 0 and self.sizes_3 is not None else 0.0

    def flows(self) -> float:
        """lambda_2 + lambda_3: arrivals while the link carries one byte."""
        return self.flows_2() + self.flows_3()

    def split(self, cut: Floats) -> Floats:
        """The contribution of the last `cut` bytes of type 2 flows: rows N, B, V and sigma, over the axes of `cut`."""
        if not self.flows_2() or self.sizes_2 is None:
            return np.zeros((4, *cut.shape))
        part = self.sizes_2.partial(cut)
        rest = np.maximum(1 - part.finished, 0.0)
        capped = np.minimum(cut, self.sizes_2.sizes[-1])
        share = self.flows_2() / self.flows()
        square, last = part.square + capped**2 * rest, part.below + capped * rest
        return np.stack([part.finished * share, last * share, square * self.flows_2(), part.below * self.flows_2()])

    def demote(self, cut: Floats) -> Floats:
        """The contribution of the first `cut` bytes of type 3 flows: rows N, B, V and sigma, over the axes of `cut`."""
        if not self.flows_3() or self.sizes_3 is None:
            return np.zeros((4, *cut.shape))
        part = self.sizes_3.partial(cut)
        rest = np.maximum(1 - part.finished, 0.0)
        capped = np.minimum(cut, self.sizes_3.sizes[-1])
        share = self.flows_3() / self.flows()
        square, load = part.square + capped**2 * rest, part.below + capped * rest
        return np.stack([part.finished * share, part.below * share, square * self.flows_3(), load * self.flows_3()])

    def mean_fct(self, thresholds: Thresholds) -> float:
        """T of the module's docstring for types 2 and 3 together, in bytes of the link's time."""
        beta, alpha = (np.array([0, *cuts, np.inf]) for cuts in (thresholds.beta, thresholds.alpha))
        states = self.split(beta) + self.demote(alpha)
        return float(step(self.load_1, states[:, :-1], states[:, 1:]).sum())


def step(load_1: float, above: Floats, band: Floats) -> Floats:
    """One band's summand of T, between states with rows N, B, V and sigma (without type 1)."""
    work = band[2] / (2 * (1 - load_1 - band[3]))
    return np.asarray(((band[0] - above[0]) * work + band[1] - above[1]) / (1 - load_1 - above[3]))


def equal_split(traffic: Traffic, bands: int) -> Thresholds:
    """The fallback: bands with equal numbers of flows of each type (percentiles 100 i / K)."""
    at = np.arange(1, bands) / bands
    beta, alpha = (None if sizes is None else sizes.quantile(at) for sizes in (traffic.sizes_2, traffic.sizes_3))
    return whole(beta if beta is not None else alpha, alpha if alpha is not None else beta)


def whole(beta: Sequence[float] | Floats | None, alpha: Sequence[float] | Floats | None) -> Thresholds:
    """Thresholds in whole bytes, which 64 bits hold: the upper end of the last bin is 2**64."""
    assert beta is not None and alpha is not None
    return Thresholds(*(tuple(min(COUNT_MAX, round(float(cut))) for cut in cuts) for cuts in (beta, alpha)))
