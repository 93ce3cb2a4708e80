"""Names of interfaces and addresses of an emulated fabric, and which fabrics can be emulated. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network

from topology.fabric import DirectedLink, Fabric, IPAddress
from topology.units import format_rate

NETWORK = IPv4Network("10.0.0.0/8")
MAX_INTERFACE_NAME = 15  # IFNAMSIZ and its closing zero
COORDINATOR_NODE = "coord"
MOST_SHAPED_BPS = 8 * (2**32 - 1)
"""HTB and TBF take rates in bytes a second, of 32 bits."""
_NAME = re.compile(r"\w[\w.-]*")


class EmulationError(RuntimeError):
    """The fabric cannot be emulated, or a program in it failed; one line that names what is wrong and the remedy."""


def check(fabric: Fabric, *, exact_links: bool) -> None:
    """Finds what no emulation can have. `exact_links`: packets leave at computed times, not by HTB and TBF.

    Raises:
        EmulationError: there is no host, or one has no link; a shell would not read a name as one word, or Baton itself has
        that name; a link is too fast.
    """
    if not fabric.hosts:
        raise EmulationError("the fabric has no host; add one")
    for name in (*fabric.switches, *fabric.hosts):
        if not _NAME.fullmatch(name):
            remedy = "give it one of letters, digits, '_', '.' and '-' that begins with a letter or a digit"
            raise EmulationError(f"{name!r} cannot be the name of a node here; {remedy}")
        if name == COORDINATOR_NODE:
            raise EmulationError(f"{name!r} is the coordinator's node; give this one another name")
        if not fabric.neighbours(name) and fabric.is_host(name):
            raise EmulationError(f"{name} has no link; join it to a switch, or leave it out")
    for link in () if exact_links else sorted(fabric.links):
        for one in link.directions:
            if fabric.capacity_bps(one) > MOST_SHAPED_BPS:
                most = format_rate(MOST_SHAPED_BPS // 10**9 * 10**9)
                problem = f"{'-'.join(one)}: {format_rate(fabric.capacity_bps(one))} is too fast for an emulated link"
                raise EmulationError(f"{problem}; write at most {most}, or emulate it in virtual time")


def interfaces(fabric: Fabric) -> Mapping[DirectedLink, str]:
    """The interface by which each directed link leaves its source: the fabric's name for it, else Mininet's.

    Raises:
        EmulationError: a name is too long, or does not end with a port number, or two ports of switches have one name, or two
        of one switch one number.
    """
    found: dict[DirectedLink, str] = {}
    taken: dict[tuple[str, str | int], str] = {}
    """The node that has a name or a number; all switches share a namespace, so the name of a switch's port is taken for all."""
    for name in (*fabric.switches, *fabric.hosts):
        first = 0 if fabric.is_host(name) else 1
        for number, peer in enumerate(fabric.neighbours(name), first):
            interface = fabric.port((name, peer)) or f"{name}-eth{number}"
            if len(interface.encode()) > MAX_INTERFACE_NAME or not re.fullmatch(r"\w[\w.-]*[0-9]", interface):
                raise EmulationError(
                    f"{name}: {interface!r} cannot be an interface here; give it a name of at most {MAX_INTERFACE_NAME} "
                    "letters, digits, '_', '.' and '-' that ends with its port number"
                )
            for key in () if fabric.is_host(name) else (("", interface), (name, port_number(interface))):
                if (other := taken.setdefault(key, f"{name}-{peer}")) != f"{name}-{peer}":
                    what = "name" if key[0] == "" else "number"
                    raise EmulationError(
                        f"{name}-{peer}: {interface!r} has the {what} of the port for {other}; name all ports of switches, "
                        "or none, and no two alike, nor two of a switch with the same number at the end"
                    )
            found[DirectedLink(name, peer)] = interface
    return found


def port_number(interface: str) -> int:
    """The port number that an interface's name ends with."""
    return int(interface[len(interface.rstrip("0123456789")) :])


def mac_address(vm: int, host: int) -> str:
    """The MAC address of a host's interface (`vm` 0), or of one of its VMs', by their numbers."""
    return f"02:00:{vm & 0xFF:02x}:{vm >> 8:02x}:{host >> 8:02x}:{host & 0xFF:02x}"


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
