"""The body of HOST_LINK: a host's own link, and the traffic that no agent classified; operators are warned by it. Pure.

Bytes are counted by the host's interface, whatever their protocol, so they are compared over seconds and with a margin.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.wire import Layout

HOST_LINK = Layout(
    link_bps="Q", period_ns="Q", received_bytes="Q", unclassified_bytes="Q", left_out="H", unknown_stations="H"
)
COUNT_MAX = (1 << 16) - 1


@dataclass(frozen=True, slots=True)
class HostLink:
    """Member to leader, every few seconds.

    `link_bps` is the rate that the link itself tells (0: it tells none). In the last `period_ns` the interface received
    `received_bytes`, and `unclassified_bytes` left it for addresses that belong to no member. `left_out` addresses did not
    fit into REGISTER; of `unknown_stations` behind the host's bridge the agent knows the MAC address and no IP address.
    """

    link_bps: int
    period_ns: int
    received_bytes: int
    unclassified_bytes: int
    left_out: int
    unknown_stations: int
