"""Turns or rates for one group of contended links: what was measured there goes in, the choice and its reason come out. Pure.

*Turns* keep queues empty and give the whole link to whoever can use it, but cost as much of it as an owner waits for answers in
its slot: a flow whose round trip is a large part of a slice has sent its window long before the slot's end. *Rates* let
everybody send at once, whatever the round trip, at the price of a burst of every sender in the switch's buffer, and of a few
packets' queue.

So turns are chosen where hosts answer within a small part of a slice, where a round of all senders is short, where one link
decides for each flow, and where senders used the slots that they had. Between the limits of choosing turns and of giving them
up there is a gap, a choice stays in force for `DWELL_NS`, and turns that were given up because they were not used are not tried
again for a time that doubles: a choice does not flap.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from protocol.units import MILLISECOND_NS as MS
from protocol.units import SECOND_NS

TURNS, RATES = "turns", "rates"
CHOOSE_PART, LEAVE_PART = 8, 4
"""Turns are chosen where an answer takes at most this part of a slice, and given up where it takes more than that one."""
LONGEST_ROUND_NS = 50 * MS
"""In a longer round a flow waits too long for its turn."""
DWELL_NS = 2 * SECOND_NS
LEAST_USED = 0.98
"""Turns are given up where senders, all in all, give back more than the rest of what they were granted."""
AGAIN_NS, AGAIN_AT_MOST_NS = 10 * SECOND_NS, 600 * SECOND_NS
LINKS_NAMED, REASONS_NAMED = 8, 32
"""Of the links with one mode and one reason, and of these, so many are told."""


class Measured(NamedTuple):
    """What is known of a group of links that share senders."""

    senders: int
    """On the link with most of them."""
    answer_ns: int | None
    """The longest way from the coordinator to a sender and back; None: not known of any of them."""
    one_link: bool
    """No sender crosses two of the links."""
    used: float | None
    """Of the bytes granted in turns since the last choice, and of late, the part that was used; None: too few to say."""


@dataclass(slots=True)
class Choice:
    """What is in force for a group, and why."""

    mode: str = RATES
    why: str = "nothing is measured yet"
    since_ns: int | None = None
    """None: it was never changed."""
    not_before_ns: int = 0
    """When turns may be tried again."""
    again_ns: int = AGAIN_NS

    def update(self, measured: Measured, slice_ns: int, now_ns: int) -> bool:
        """Chooses by what was measured; returns whether the mode changed."""
        mode, why = self._wish(measured, slice_ns, now_ns)
        if mode == self.mode:
            self.why = why
            return False
        wasted = mode == RATES and measured.used is not None and measured.used < LEAST_USED
        settled = self.since_ns is None or now_ns - self.since_ns >= DWELL_NS
        if measured.one_link and not settled and not wasted:
            return False
        if wasted:
            self.not_before_ns = now_ns + self.again_ns
            self.again_ns = min(2 * self.again_ns, AGAIN_AT_MOST_NS)
        self.mode, self.why, self.since_ns = mode, why, now_ns
        return True

    def _wish(self, measured: Measured, slice_ns: int, now_ns: int) -> tuple[str, str]:
        senders, answer_ns, one_link, used = measured
        if not one_link:
            return RATES, "flows cross several contended links"
        if answer_ns is None:
            return RATES, "no host's answer time is known yet"
        part = LEAVE_PART if self.mode == TURNS else CHOOSE_PART
        answer = f"hosts answer within {answer_ns / MS:.2g} ms, slices are {slice_ns / MS:.3g} ms"
        if answer_ns > slice_ns // part:
            return RATES, answer
        if senders * slice_ns > LONGEST_ROUND_NS:
            return RATES, f"a round of {senders} senders takes {senders * slice_ns / MS:.0f} ms"
        if self.mode == TURNS and used is not None and used < LEAST_USED:
            return RATES, f"senders used {used:.0%} of their turns"
        if self.mode == RATES and now_ns < self.not_before_ns:
            wait_s = (self.not_before_ns - now_ns) / SECOND_NS
            return RATES, f"{self.why.partition(';')[0]}; turns are tried again in {wait_s:.0f} s"
        return TURNS, answer


def summary(choices: Iterable[tuple[Hashable, Choice]]) -> list[dict[str, Any]]:
    """What is in force for links: for each mode and reason {"mode", "why", "count", "links"}, with the number of links and the
    first of them, the most frequent one first. The last row counts the links of those that are left out; its mode is empty."""
    links: dict[tuple[str, str], list[Hashable]] = {}
    for link, choice in choices:
        links.setdefault((choice.mode, choice.why), []).append(link)
    by_count = sorted(links.items(), key=lambda reason: -len(reason[1]))
    rows: list[dict[str, Any]] = [
        {"mode": mode, "why": why, "count": len(its), "links": its[:LINKS_NAMED]}
        for (mode, why), its in by_count[:REASONS_NAMED]
    ]
    if left := by_count[REASONS_NAMED:]:
        count = sum(len(its) for _, its in left)
        rows.append({"mode": "", "why": f"{len(left)} other reasons", "count": count, "links": []})
    return rows
