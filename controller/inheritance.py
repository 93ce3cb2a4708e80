"""What an application that takes over can know before it has seen a frame: the hosts that the one before it had learned. Pure.

Without them every frame would be flooded, and its first bytes sent to the controller, until each host has been learned anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from controller.openflow.discovery import PortRef, View


class Inherited(NamedTuple):
    """A host at a port; the address is None where it can't be told which of several machines has it."""

    at: PortRef
    mac: str
    address: str | None


def inherited_hosts(document: Mapping[str, Any] | None, view: View) -> Iterator[Inherited]:
    """Of a fabric document's "hosts" (see `controller.openflow.learned.Fabrics.learn`), those at ports that this view has."""
    ports = {
        (switch.name, port.name): PortRef(switch.dpid, port.number)
        for switch in view.switches.values()
        for port in switch.ports.values()
    }
    for host in (document or {}).get("hosts", ()):
        at = ports.get((host["switch"], host["port"]))
        if at is None:
            continue
        for mac in host["macs"]:
            addresses = host["addresses"] if len(host["macs"]) == 1 else ()
            for address in addresses or (None,):
                yield Inherited(at, mac, address)
