"""The body of LOSSES: to which destinations a host's flows lost packets, where no switch may have counted them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.wire import BODY_MAX, Layout

LOSS = Layout(destination="I", segments="I", bytes="Q")
LOSSES_MAX = BODY_MAX // LOSS.size


@dataclass(frozen=True, slots=True)
class Losses:
    """Member to leader, with a REPORT, when there were any: (destination, segments, bytes) of the destinations that lost most.

    `segments` are those by which TCP showed in the report's period that something was lost on the way (they were sent again),
    or marked by ECN (they carry CWR); `bytes` are what large flows sent to the destination meanwhile.
    """

    entries: tuple[tuple[int, int, int], ...]


def pack_losses(message: Losses) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    if len(message.entries) > LOSSES_MAX:
        raise ValueError(f"Losses.entries: {len(message.entries)}, at most {LOSSES_MAX}")
    return LOSS.pack_rows("Losses.entries", message.entries)


def unpack_losses(body: bytes) -> Losses:
    """Raises ValueError or struct.error: not such a body."""
    return Losses(tuple(LOSS.struct.iter_unpack(body)))
