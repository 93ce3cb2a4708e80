"""How many events one host may cause, so that it cannot push those of others out of the stream. Pure."""

from __future__ import annotations

from protocol.units import SECOND_NS

MOST = 20
"""Events of one host in a period."""
PERIOD_NS = 60 * SECOND_NS


class EventBudget:
    """Counts each host's events, period by period."""

    def __init__(self) -> None:
        self._periods: dict[str, tuple[int, int]] = {}
        """By host: when its period began, and how many events it caused since."""

    def spend(self, host: str, now_ns: int) -> int | None:
        """An event that this host causes. None: it had its share, so the event is counted and not told. Else it is told; the
        number is how many were left out before it, in the host's last period."""
        begun_ns, count = self._periods.get(host, (now_ns, 0))
        left_out = 0
        if now_ns - begun_ns >= PERIOD_NS:
            left_out = max(0, count - MOST)
            begun_ns, count = now_ns, 0
            self._forget(now_ns)
        self._periods[host] = begun_ns, count + 1
        return left_out if count < MOST else None

    def text(self, host: str, text: str, now_ns: int) -> str | None:
        """As `spend`: the event's text, with how many were left out before it; None: it is not told."""
        if (left_out := self.spend(host, now_ns)) is None:
            return None
        return f"{text} ({left_out} events of this host are left out)" if left_out else text

    def _forget(self, now_ns: int) -> None:
        """Forgets hosts that have caused nothing for a while and owe no number."""
        self._periods = {
            host: (begun_ns, count)
            for host, (begun_ns, count) in self._periods.items()
            if now_ns - begun_ns < PERIOD_NS or count > MOST
        }
