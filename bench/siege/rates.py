"""What a siege sends, and how often. Pure.

The defaults are for two processors, which the emulated switch shares with all hosts, Baton and the attackers: about 600 frames
a second, each of which costs the switch some 60 us, so 4 % of a processor beside the load's 8,000 frames a second.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

STRANGER: Mapping[str, float] = {"lldp": 60, "sources": 60, "macs": 80, "theft": 20, "control": 100}
"""Frames a second of a stranger at a switch port: forged LLDP; IPv4 and IPv6 packets with forged sources to a member; new MAC
addresses; other hosts' and the coordinator's MAC address as source; control frames: random, with a forged tag, cut."""
TENANT: Mapping[str, float] = {"tenant": 100}
"""Packets a second of a tenant of a host with an agent, with forged sources, through that agent's queues to a member."""
KEYED: Mapping[str, float] = {
    "epochs": 40, "sequence": 20, "registers": 40, "pages": 40, "names": 20, "addresses": 10, "nonsense": 20,
}  # fmt: skip
"""Frames a second of a host with the key: epochs that are years ahead, also in the leader's name; the sequence number 2^64-1 in
another host's name; registrations of made-up hosts; first pages of messages that never end; escape codes in its name; changes
of its addresses; messages that make no sense."""
CLIENTS: Mapping[str, float] = {"openflow": 10, "logins": 4}
"""Connections a second to the OpenFlow port (malformed, or half open), and logins a second with a wrong password."""
OPENFLOW_HELD, HTTP_CONNECTIONS = 64, 200
"""How many half-open connections to the OpenFlow port are held, and how many hostile ones to the web server."""
HTTP = "http"
KINDS = (*STRANGER, *TENANT, *KEYED, *CLIENTS, HTTP)


def scaled(rates: Mapping[str, float], factor: float, kinds: Collection[str] = KINDS) -> dict[str, float]:
    """Those of `kinds`, `factor` times as often."""
    return {kind: rate * factor for kind, rate in rates.items() if kind in kinds}


def harmless(rates: Mapping[str, float]) -> dict[str, float]:
    """As many frames a second as these, all of one kind that does no harm: the control group."""
    return {"harmless": sum(rates.values())}
