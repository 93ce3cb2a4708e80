"""Mininet's nodes as an emulated fabric needs them, and the network stack of a host. An edge: processes, sysctls, routes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_interface

from mininet.node import OVSSwitch, RemoteController
from mininet.util import errRun

from emulation.fabric.naming import NETWORK, EmulationError
from emulation.fabric.ovs import STOP_TIMEOUT_S
from emulation.fabric.ports import noop_qos
from topology.fabric import IPAddress

REASSEMBLY_BYTES = 256 << 20
NO_IPV6 = {"net.ipv6.conf.all.disable_ipv6": 1, "net.ipv6.conf.default.disable_ipv6": 1}

Run = Callable[..., str]
"""Runs a program in a node's namespaces, as `EmulatedFabric.run_in` does."""


class BridgeSwitch(OVSSwitch):  # type: ignore[misc]  # Mininet is untyped
    """A bridge whose ports are added with the QoS by which Open vSwitch leaves their queues alone."""

    def intfOpts(self, intf: object) -> str:
        return f"{super().intfOpts(intf)} -- {' '.join(noop_qos(str(intf)))}"

    @classmethod
    def batchShutdown(cls, switches: list[OVSSwitch], run: Callable[[str], object] = errRun) -> list[OVSSwitch]:
        """Mininet's own, with a timeout: without one it would wait forever for an Open vSwitch that has ended."""
        shut: list[OVSSwitch] = super().batchShutdown(
            switches, run=lambda command: run(command.replace("ovs-vsctl ", f"ovs-vsctl --timeout={STOP_TIMEOUT_S} "))
        )
        return shut


class LateController(RemoteController):  # type: ignore[misc]  # Mininet is untyped
    """A controller that may start later: Mininet's own would probe for it with telnet."""

    def checkListening(self) -> None:
        return

    def stop(self, *_: object, **__: object) -> None:
        """Ends the node's shell, which Mininet's own leaves running."""
        self.terminate()


def sysctl(pid: int | None, settings: Mapping[str, int | str]) -> None:
    """Writes settings in the network namespace of a process; None: in ours. Raises EmulationError."""
    enter = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]
    values = [f"{name}={value}" for name, value in settings.items()]
    # -e: ignores settings that this kernel does not have (br_netfilter)
    done = subprocess.run([*enter, "sysctl", "-qew", *values], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EmulationError(f"sysctl: {done.stderr.strip()}")


def configure_stack(pid: int, address: IPAddress | None) -> None:
    """The settings of TCP, of reassembly and of IPv6 in a node that has this address."""
    settings: dict[str, int | str] = {
        "net.ipv4.tcp_no_metrics_save": 1,  # or a run would start with the congestion window of the last one
        # A receiver keeps incomplete datagrams for 30 s, and refuses new ones while it keeps 4 MB of them: after a second
        # of lost fragments it would receive nothing, in the next run too. So that only the fabric's losses count:
        "net.ipv4.ipfrag_time": 1,
        "net.ipv4.ipfrag_high_thresh": REASSEMBLY_BYTES,
        "net.ipv6.conf.all.disable_ipv6": int(address is None or address.version == 4),
    }
    sysctl(pid, settings)


def route_by(run: Run, device: str, address: IPAddress, congestion_control: str) -> None:
    """Has a node reach the fabric by this interface and address, and TCP use this congestion control there."""
    if address.version == 6:
        run("ip", "addr", "add", f"{address}/64", "dev", device, "nodad")
    # By route: a namespace's sysctl accepts only what the machine's tcp_allowed_congestion_control lists.
    network = ip_interface(f"{address}/64").network if address.version == 6 else NETWORK
    route = (str(network), "dev", device, "src", str(address), "congctl", congestion_control)
    run("ip", f"-{address.version}", "route", "replace", *route)


def add_neighbours(popen: Callable[..., subprocess.Popen[str]], device: str, macs: Mapping[IPAddress, str]) -> None:
    """Tells a node the MAC addresses of others at an interface, for good. Raises EmulationError."""
    lines = [f"neigh replace {address} lladdr {mac} dev {device} nud permanent" for address, mac in macs.items()]
    process = popen(["ip", "-batch", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _, error = process.communicate("\n".join(lines))
    if process.returncode:
        raise EmulationError(f"{device}: static neighbours: {error.strip()}")


def bridge(pid: int, run: Run, interfaces: Iterable[str]) -> None:
    """Joins interfaces of a host by a Linux bridge, br0."""
    run("ip", "link", "add", "br0", "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
    # Or the bridge would free a datagram from its sender's socket buffer, and the host's link would not hold back a VM
    # that floods.
    sysctl(pid, {f"net.bridge.bridge-nf-call-{tables}": 0 for tables in ("iptables", "ip6tables", "arptables")})
    for bridged in interfaces:
        run("ip", "link", "set", bridged, "master", "br0", "up")
    run("ip", "link", "set", "br0", "up")
