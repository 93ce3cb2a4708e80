"""The calls of a compiled policy once more, for `baton bench scale`: one directly after the other, to a new policy of its kind.

Between two calls the simulation of hosts goes through arrays of some ten megabytes, which takes what the core needs out of the
caches. The coordinator's loop of slots (controller/frames/loop.h) calls the core from C, and takes frames and sends directives
in between. What these take of the caches is not here: so this is a lower bound of what the coordinator pays.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.policies.compiled.batches import MOST, RETURNED, Batched


@dataclass(slots=True)
class Turn:
    """What a policy was told and asked at one time. None: that call was not made."""

    now_ns: int
    returned: NDArray[np.void] | None = None
    backlogs: tuple[NDArray[Any], ...] | None = None
    """nodes, offsets, destinations."""
    sizes: NDArray[np.int64] | None = None
    horizon_ns: int | None = None
    grants: int = 0
    """How many slots it granted then."""
    attended: bool = False
    """It chose between turns and rates."""


@dataclass(slots=True)
class Calls:
    """The turns of a policy, in their order; those from `measured` on count."""

    turns: list[Turn] = field(default_factory=list)
    measured: int = 0

    def begin(self) -> None:
        """The turns from here on count."""
        self.measured = len(self.turns)

    def again(self, policy: Batched) -> dict[str, float]:
        """{"ns": all calls together, "plan_max_us"}, in processor time. The policy has its network and regulated pairs.

        Raises ValueError: it grants other numbers of slots than the one before.
        """
        took_ns = longest_ns = 0
        for number, turn in enumerate(self.turns):
            began_ns = time.thread_time_ns()
            if turn.returned is not None:
                policy.give_back(turn.returned, now_ns=turn.now_ns)
            if turn.backlogs is not None:
                nodes, offsets, destinations = turn.backlogs
                policy.backlogs(nodes, offsets, destinations, now_ns=turn.now_ns, sizes=turn.sizes)
            if turn.attended:
                policy.attend(now_ns=turn.now_ns)
            told_ns = time.thread_time_ns()
            if turn.horizon_ns is not None:
                grants, _ = policy.plan_arrays(now_ns=turn.now_ns, horizon_ns=turn.horizon_ns)
                policy.next_event_ns()
                if len(grants) != turn.grants:
                    raise ValueError(f"the same calls lead to {len(grants)} slots, and led to {turn.grants}")
            ended_ns = time.thread_time_ns()
            if number >= self.measured:
                took_ns += ended_ns - began_ns
                longest_ns = max(longest_ns, ended_ns - told_ns)
        return {"ns": took_ns, "plan_max_us": round(longest_ns / 1e3, 1)}


def begun(nodes: NDArray[Any], destinations: NDArray[Any], sizes: NDArray[np.int64] | None) -> NDArray[np.void]:
    """Pairs that begin to wait as the loop of slots has them: slots that nobody has are given back (`BatchPolicy.begin`)."""
    told = np.zeros(len(nodes), RETURNED)
    told["node"], told["destination"], told["backlog"] = nodes, destinations, MOST if sizes is None else sizes
    return told
