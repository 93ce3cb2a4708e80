"""What the captured control frames say of who granted: how many directives, of which epoch, accepted by whom. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from emulation.stack.control_capture import CapturedFrame
from protocol.messages import Directive


def directives(frames: Sequence[CapturedFrame]) -> list[CapturedFrame]:
    """The directives among captured frames."""
    return [frame for frame in frames if isinstance(frame.message, Directive)]


def directives_per_s(frames: Sequence[CapturedFrame], from_ns: int, until_ns: int) -> float:
    """Directives per second at all hosts together, between two instants."""
    count = sum(from_ns <= frame.at_ns < until_ns for frame in directives(frames))
    return round(count / ((until_ns - from_ns) / 1e9), 1)


def by_epoch(frames: Sequence[CapturedFrame]) -> dict[str, Any]:
    """Shows that no two leaders granted at once, or that they did.

    Returns:
        "epochs" and "directives_accepted" of each; "accepted_from_two_at_once": how often an agent accepted a directive of an
        epoch after one of a higher epoch; "between_last_and_first_directive_ms": over all agents together, from the last
        accepted directive of an epoch to the first of the next, negative if they overlap.
    """
    accepted = [frame for frame in directives(frames) if frame.refused is None]
    newest: dict[str, int] = {}
    fell_back = 0
    for frame in accepted:
        fell_back += frame.epoch < newest.get(frame.host, 0)
        newest[frame.host] = max(newest.get(frame.host, 0), frame.epoch)
    epochs = sorted({frame.epoch for frame in accepted})
    gaps = []
    for before, after in pairwise(epochs):
        last = max(frame.at_ns for frame in accepted if frame.epoch == before)
        first = min(frame.at_ns for frame in accepted if frame.epoch == after)
        gaps.append(round((first - last) / 1e6, 2))
    return {
        "epochs": epochs,
        "directives_accepted": [sum(frame.epoch == epoch for frame in accepted) for epoch in epochs],
        "accepted_from_two_at_once": fell_back,
        "between_last_and_first_directive_ms": gaps,
    }
