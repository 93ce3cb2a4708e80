"""Whether programs can be attached to an interface's egress. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def without_egress(kinds: Iterable[str]) -> str:
    """What an interface with qdiscs of these kinds has instead of a place for programs at its egress; empty: it has the place.

    Where an ingress qdisc is in clsact's place, the kernel takes programs for the egress and runs them on what comes in
    (net/sched/sch_ingress.c).
    """
    if "ingress" not in kinds:
        return ""
    return "has an ingress qdisc, where Baton needs clsact, whose ingress takes the same filters"
