"""Names of interfaces and addresses of an emulated fabric. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network

from topology.fabric import DirectedLink, Fabric, IPAddress

NETWORK = IPv4Network("10.0.0.0/8")
MAX_INTERFACE_NAME = 15  # IFNAMSIZ and its closing zero


class EmulationError(RuntimeError):
    """The fabric cannot be emulated, or a program in it failed; one line that names what is wrong and the remedy."""


def interfaces(fabric: Fabric) -> Mapping[DirectedLink, str]:
    """The interface by which each directed link leaves its source: the fabric's name for it, else Mininet's.

    Raises:
        EmulationError: a name is too long, or does not end with a port number.
    """
    found: dict[DirectedLink, str] = {}
    for name in (*fabric.switches, *fabric.hosts):
        first = 0 if fabric.is_host(name) else 1
        for number, peer in enumerate(fabric.neighbours(name), first):
            interface = fabric.port((name, peer)) or f"{name}-eth{number}"
            if len(interface) > MAX_INTERFACE_NAME or not interface[-1].isdigit():
                raise EmulationError(
                    f"{name}: {interface!r} cannot be an interface here; give it a name of at most {MAX_INTERFACE_NAME} "
                    "characters that ends with its port number"
                )
            found[DirectedLink(name, peer)] = interface
    return found


def port_number(interface: str) -> int:
    """The port number that an interface's name ends with."""
    return int(interface[len(interface.rstrip("0123456789")) :])


def mac_address(vm: int, host: int) -> str:
    """The MAC address of a host's interface (`vm` 0), or of one of its VMs', by their numbers."""
    return f"02:00:{vm:02x}:00:{host >> 8:02x}:{host & 0xFF:02x}"


def with_prefix(address: IPAddress | None) -> str | None:
    """An IPv4 address with its prefix length, as Mininet takes it; None for no address and for IPv6, which Mininet lacks.

    Raises:
        EmulationError: the address is outside `NETWORK`.
    """
    if address is None or not isinstance(address, IPv4Address):
        return None
    if address not in NETWORK:
        raise EmulationError(f"{address} is not in {NETWORK}; give emulated hosts addresses of that network")
    return f"{address}/{NETWORK.prefixlen}"
