"""A fabric of `topology` made real on this machine with Mininet's Python API. An edge: namespaces, processes, netlink.

    with EmulatedFabric(shapes.star(hosts=6)) as emulated:
        emulated.run_in("h1", "ping", "-c", "1", "10.0.0.6")

Only inside a box (`emulation.box`), so that nothing can be left behind.

Every host is a network namespace with an interface of the link's rate (a TBF, until an agent puts its own queues there).
A host with several addresses is a machine with VMs: each address is in a namespace of its own (h1v1, h1v2, ...) behind a Linux
bridge in the host; an agent manages the host's interface to the fabric. Switches are Open vSwitch bridges whose ports have the
link's rate and a finite buffer (`emulation.fabric.ports`). One more namespace, `coord`, is for the coordinator, at a port
without a rate.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from mininet.cli import CLI
from mininet.link import Link as VethLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host as MininetHost
from pyroute2 import IPRoute

from agents.kernel.netlink import Netlink
from controller.switch_queues.model import QueueCounters, SwitchQueues
from emulation import box
from emulation.fabric import nodes
from emulation.fabric.arrivals import release_senders
from emulation.fabric.cpu_shares import CpuShares, shares_of, wanted
from emulation.fabric.host_port import HostPort
from emulation.fabric.naming import COORDINATOR_NODE as COORDINATOR_NODE
from emulation.fabric.naming import EmulationError as EmulationError  # with the fabric that raises it
from emulation.fabric.naming import check, interfaces, mac_address, port_number, with_prefix
from emulation.fabric.ovs import OpenVSwitch
from emulation.fabric.ports import PortCounters, SwitchPort
from emulation.fabric.priority_ports import make_host_port, make_port
from emulation.fabric.qdisc_stats import QdiscReader
from emulation.fabric.spacing_recorder import SpacingRecorders
from emulation.fabric.wires import Wire, WireLink, join, wire_of
from emulation.measuring.fidelity import SYSCTLS, environment
from emulation.netns import network_of
from emulation.resource import Resource
from protocol import virtual_time
from topology.fabric import DirectedLink, Fabric, IPAddress

COORDINATOR_MAC = "02:00:00:ff:ff:01"
OFFLOADS_OFF = ("tx", "off", "sg", "off", "tso", "off", "gso", "off", "gro", "off")


class EmulatedFabric(Resource):
    """A running fabric; use as a context manager."""

    def __init__(
        self,
        fabric: Fabric,
        *,
        buffer_packets: int = 100,
        controller: tuple[str, int] | None = None,
        coordinator_switch: str | None = None,
        congestion_control: str = "cubic",
        static_arp: bool = False,
        rstp: bool | None = None,
        queues: SwitchQueues | None = None,
        host_priorities: bool = False,
        exact_links: bool | None = None,
        cpu_shares: float | Mapping[str, float] | None = None,
        round_trip_ns: int = 0,
    ) -> None:
        """Checks the names; the fabric is made when the block is entered.

        Args:
            buffer_packets: the buffer of every shaped switch port.
            controller: its address and TCP port; None for switches that learn MAC addresses by themselves.
            coordinator_switch: the switch to which the coordinator is attached; the first one unless given.
            static_arp: every host knows every MAC address from the start.
            rstp: whether switches without a controller run 802.1w; None: if the fabric has a loop.
            queues: eight priorities, ECN and a buffer for every shaped switch port; None: one data queue.
            host_priorities: whether hosts' interfaces serve the same eight priorities, without a mark and a drop.
            exact_links: whether packets leave at computed times (`emulation.fabric.exact_ports`); None: in virtual time.
            cpu_shares: the share of a processor that each host's traffic programs may use, or those of some hosts; agents
                have no limit. None: as the environment says (`cpu_shares.WANTED`), else none. In virtual time, where
                computing takes no time, there is no limit.
            round_trip_ns: between any two hosts, and between a host and the coordinator, in an idle fabric: every host's link,
                and the coordinator's, takes a quarter of it in each direction. 0: as fast as this kernel is.

        Raises:
            EmulationError: not in a box; the fabric cannot be emulated (`naming.check`), or a name not be an interface's; hosts
            ask for more processors than there are.
        """
        if not box.inside():
            raise EmulationError("emulation: not in a box; run this by `python -m emulation.box -- COMMAND`")
        self.exact_links = virtual_time.inside() if exact_links is None else exact_links
        check(fabric, exact_links=self.exact_links)
        self.fabric = fabric
        self.buffer_packets = buffer_packets if queues is None else queues.buffer_packets
        self.queues = queues
        self.host_priorities = host_priorities
        self.controller = controller
        self.coordinator_switch = coordinator_switch or fabric.switches[0]
        self.congestion_control = congestion_control
        self.static_arp = static_arp
        has_loop = len(fabric.links) >= len(fabric.switches) + len(fabric.hosts)
        self.rstp = controller is None and (has_loop if rstp is None else rstp)
        self.ovs = OpenVSwitch()
        shares = None if virtual_time.inside() else wanted() if cpu_shares is None else cpu_shares
        self.shares = None if shares is None else CpuShares(shares_of(fabric.hosts, shares))
        self.round_trip_ns = round_trip_ns
        self._wires: list[Wire] = []
        self.net: Any = None
        self.ports: dict[DirectedLink, SwitchPort] = {}
        self.host_ports: dict[str, HostPort] = {}
        self.recorders = SpacingRecorders()
        self.interfaces = interfaces(fabric)
        self.coordinator_interface = f"{COORDINATOR_NODE}-eth0"
        self.coordinator_port = f"{self.coordinator_switch}-eth{self._free_port(self.coordinator_switch)}"
        self._reader: QdiscReader | None = None

    # Names and interfaces

    def node(self, name: str) -> Any:  # noqa: ANN401 -- Mininet is untyped
        """Mininet's node of a host, a VM, a switch or the coordinator."""
        return self.net[name]

    def vms(self, host: str) -> tuple[str, ...]:
        """The names of a host's VMs; empty if the host has at most one address, which is then its own."""
        addresses = self.fabric.addresses(host)
        return tuple(f"{host}v{number}" for number in range(1, len(addresses) + 1)) if len(addresses) > 1 else ()

    def endpoints(self) -> dict[str, IPAddress]:
        """The nodes in which traffic programs can run, with their addresses: hosts without VMs, and VMs."""
        found: dict[str, IPAddress] = {}
        for host in self.fabric.hosts:
            found.update(zip(self.vms(host) or (host,), self.fabric.addresses(host), strict=False))
        return found

    def interface(self, host: str) -> str:
        """A host's interface to the fabric, which an agent manages. Raises KeyError: the host has no link."""
        attached = self.fabric.attachment(host)
        if attached is None:
            raise KeyError(f"{host} has no link")
        return self.interfaces[DirectedLink(host, attached)]

    # Running programs and changing links

    def popen(self, name: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401
        """Starts a program in a node's namespaces; `options` are those of subprocess.Popen."""
        process: subprocess.Popen[Any] = self.node(name).popen(list(argv), **options)
        return process

    def popen_limited(self, name: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401
        """As `popen`, for a traffic program: within its host's share of a processor, if hosts have one."""
        host = next((host for host in self.fabric.hosts if name in self.vms(host)), name)
        enter = None if self.shares is None else self.shares.enter(host)
        return self.popen(name, argv, **options, preexec_fn=enter)

    def run_in(self, name: str, *argv: str) -> str:
        """Runs a program in a node's namespaces; what it printed.

        Raises:
            EmulationError: the program failed.
        """
        process = self.popen(name, argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, error = process.communicate()
        if process.returncode:
            raise EmulationError(f"{name}: {' '.join(argv)}: {error.strip() or process.returncode}")
        return str(out)

    def set_link(self, a: str, b: str, *, up: bool) -> None:
        """Plugs or unplugs the cable between two neighbours: both ends lose their carrier."""
        for link in (DirectedLink(a, b), DirectedLink(b, a)):
            # Only the switches' ends: a host's interface would lose its routes, which an unplugged host keeps.
            if not self.fabric.is_host(link.source):
                self.run_in(link.source, "ip", "link", "set", self.interfaces[link], "up" if up else "down")

    def connect_switches(self, timeout_s: float = 10) -> None:
        """Makes the switches connect to their controller, and returns when all are connected.

        Raises:
            EmulationError: they are not connected within `timeout_s`.
        """
        if count := self.ovs.reconnect(self.fabric.switches, timeout_s):
            raise EmulationError(f"{count} switches are not connected to {self.controller} after {timeout_s} s; is it up?")

    def prompt(self) -> None:
        """Runs an interactive Mininet prompt until the user leaves it."""
        setLogLevel("info")
        CLI(self.net)

    # Counters and verification

    def counters(self, link: tuple[str, str]) -> PortCounters:
        """Reads the counters of the switch port that sends into a directed link."""
        assert self._reader is not None, "entered"
        return self.ports[DirectedLink(*link)].counters(self._reader)

    def drops(self) -> dict[DirectedLink, int]:
        """The packets that each switch port has dropped since it was shaped, by the link into which it sends."""
        return {link: self.counters(link).drops for link in self.ports}

    def queue_counters(self, link: tuple[str, str]) -> tuple[QueueCounters, ...]:
        """Reads the counters of each data queue of that port; empty if the port has only one data queue."""
        return self.ports[DirectedLink(*link)].queue_counters()

    def verify(self, *, hosts: bool = True) -> list[str]:
        """Restores every port that has changed since the fabric was built; the changes, one line each.

        Args:
            hosts: whether to check the hosts' interfaces too; False while agents have their queues there.
        """
        checked: list[SwitchPort | HostPort] = [*self.ports.values(), *(self.host_ports.values() if hosts else ())]
        drifts = [drift for port in checked for drift in port.verify()]
        for host_port in () if hosts else self.host_ports.values():
            host_port.lend()
        self.recorders.restore()
        self.ovs.widen_packet_sockets()
        return drifts

    def environment(self) -> dict[str, Any]:
        """The machine, and the settings of this fabric's hosts and ports, for the record of a result."""
        host, link = next(iter(self.host_ports)), next(iter(self.ports))
        settings = self.run_in(host, "sysctl", "-e", *(name.replace("/", ".") for name in SYSCTLS))
        queues = {
            "host": self.run_in(host, "tc", "-j", "qdisc", "show", "dev", self.interface(host)),
            "switch_port": self.run_in(link.source, "tc", "-j", "qdisc", "show", "dev", self.ports[link].name),
        }
        return environment(
            datapath=self.ovs.datapath_type,
            buffer_packets=self.buffer_packets,
            exact_links=all(port.exact for port in self.ports.values()),
            links_unrecorded=self.recorders.refused,
            cpu_shares=self.shares and dict(self.shares.shares),
            round_trip_ns=self.round_trip_ns,
            marking_threshold_bytes=self.queues and self.queues.marking_threshold_bytes,
            congestion_control=self.congestion_control,
            host_sysctl=dict(line.split(" = ", 1) for line in settings.splitlines() if " = " in line),
            qdiscs={where: [queue["kind"] for queue in json.loads(shown)] for where, shown in queues.items()},
        )

    # Building the fabric

    def _start(self, stack: ExitStack) -> None:
        if self.shares is not None:
            stack.enter_context(self.shares)
        setLogLevel("warning")
        # Mininet's initialization would raise limits of the whole machine; this process's limits are enough.
        Mininet.inited = True
        self.ovs = stack.enter_context(OpenVSwitch())
        nodes.sysctl(None, nodes.NO_IPV6)
        self.net = Mininet(build=False, controller=None, waitConnected=False)
        stack.callback(self.net.stop)
        self._add_nodes()
        self._add_links()
        if self.controller is not None:
            self.net.addController("c0", controller=nodes.LateController, ip=self.controller[0], port=self.controller[1])
        self.net.build()
        self.net.start()
        join(self._wires, self.round_trip_ns // 4)
        netlink = stack.enter_context(IPRoute())
        self._reader = QdiscReader()
        stack.callback(self._reader.close)
        self._shape_switches(netlink, stack)
        if self.ovs.datapath_type != "netdev":
            facing = [self.interfaces[DirectedLink(str(self.fabric.attachment(host)), host)] for host in self.fabric.hosts]
            stack.callback(release_senders([wire.host_end for wire in self._wires] or facing).close)
        for name in (*self.fabric.hosts, COORDINATOR_NODE):
            self._configure_host(name, stack)
        stack.enter_context(closing(self.recorders))
        self._record_spacing(stack)
        if self.static_arp:
            macs = {address: self.node(name).MAC() for name, address in self.endpoints().items()}
            for name in self.endpoints():
                nodes.add_neighbours(partial(self.popen, name), self._own_interface(name), macs)
        self.ovs.warm_up(self.coordinator_switch, port_number(self.coordinator_port), COORDINATOR_MAC)

    def _add_nodes(self) -> None:
        taken = {dpid for name in self.fabric.switches if (dpid := self.fabric.switch(name).dpid) is not None}
        free = (number for number in range(1, 1 << 16) if number not in taken)
        datapath = "user" if self.ovs.datapath_type == "netdev" else "kernel"
        for name in self.fabric.switches:
            self.net.addSwitch(
                name,
                cls=nodes.BridgeSwitch,
                dpid=f"{self.fabric.switch(name).dpid or next(free):016x}",
                datapath=datapath,
                failMode="standalone" if self.controller is None else "secure",
                protocols=None if self.controller is None else "OpenFlow13",
            )
        for number, name in enumerate(self.fabric.hosts, 1):
            mac = self.fabric.mac(name) or mac_address(0, number)
            addresses = self.fabric.addresses(name)
            own = addresses[0] if len(addresses) == 1 else None
            self.net.addHost(name, cls=MininetHost, ip=with_prefix(own), mac=mac)
            for vm_number, (vm, address) in enumerate(zip(self.vms(name), addresses, strict=False), 1):
                self.net.addHost(vm, cls=MininetHost, ip=with_prefix(address), mac=mac_address(vm_number, number))
        self.net.addHost(COORDINATOR_NODE, cls=MininetHost, ip=None, mac=COORDINATOR_MAC)
        for host in self.net.hosts:
            # Before it has an interface, or its multicast listener reports would be counted as traffic.
            nodes.sysctl(host.pid, nodes.NO_IPV6)

    def _add_links(self) -> None:
        for a, b in self.fabric.links:
            self._veth(a, self.interfaces[DirectedLink(a, b)], b, self.interfaces[DirectedLink(b, a)])
        self._veth(COORDINATOR_NODE, self.coordinator_interface, self.coordinator_switch, self.coordinator_port)
        for host in self.fabric.hosts:
            for number, vm in enumerate(self.vms(host), 1):
                # Port numbers above those of the fabric, which has one link for each host.
                self._veth(vm, f"{vm}-eth0", host, f"{host}-v{number}", port=100 + number)

    def _veth(self, a: str, a_interface: str, b: str, b_interface: str, port: int | None = None) -> None:
        ends = {a: a_interface, b: b_interface}
        hosts = [name for name in ends if name in self.fabric.hosts or name == COORDINATOR_NODE]
        timed = bool(self.round_trip_ns and hosts and port is None)
        if timed:
            self._wires.append(wire_of(ends.pop(hosts[0]), *ends.values()))
        self.net.addLink(
            a,
            b,
            cls=WireLink if timed else VethLink,
            port1=port_number(a_interface),
            port2=port_number(b_interface) if port is None else port,
            intfName1=a_interface,
            intfName2=b_interface,
        )

    def _shape_switches(self, netlink: IPRoute, stack: ExitStack) -> None:
        hide = self.ovs.datapath_type == "netdev"
        for source in self.fabric.switches:
            if self.rstp:
                self.ovs.vsctl("set", "Bridge", source, "rstp_enable=true")
            for target in self.fabric.neighbours(source):
                link = DirectedLink(source, target)
                rate_bps = self.fabric.capacity_bps(link)
                name = self.interfaces[link]
                port = make_port(
                    netlink, name, rate_bps, self.buffer_packets, self.queues, hide_drops=hide, exact=self.exact_links
                )
                stack.callback(port.close)
                port.shape()
                self.ports[link] = port

    def _configure_host(self, name: str, stack: ExitStack) -> None:
        node = self.node(name)
        vms = self.vms(name) if name != COORDINATOR_NODE else ()
        for member in (name, *vms):
            self._configure_stack(member)
        if name == COORDINATOR_NODE:
            self.run_in(name, "ethtool", "-K", self.coordinator_interface, *OFFLOADS_OFF)
            return
        interface = self.interface(name)
        if vms:
            ports = (f"{name}-v{number}" for number in range(1, len(vms) + 1))
            nodes.bridge(node.pid, partial(self.run_in, name), (interface, *ports))
        for member, device in ((name, interface), *((vm, f"{vm}-eth0") for vm in vms)):
            self.run_in(member, "ethtool", "-K", device, *OFFLOADS_OFF)
            # TCP builds super-packets whatever ethtool says (since Linux 4.17): bursts of up to 43 frames at these rates.
            self.run_in(member, "ip", "link", "set", "dev", device, "gso_max_segs", "1")
        attached = self.fabric.attachment(name)
        assert attached is not None, "interface() has checked it"
        netlink = stack.enter_context(IPRoute(netns=f"/proc/{node.pid}/ns/net"))
        rate_bps = self.fabric.capacity_bps((name, attached))
        port = make_host_port(netlink, interface, rate_bps, node.pid, priorities=self.host_priorities, exact=self.exact_links)
        stack.callback(port.close)
        port.shape()
        self.host_ports[name] = port

    def _netlink(self, name: str) -> Netlink:
        """A netlink socket in a node's network namespace."""
        with network_of(self.node(name).pid):
            return Netlink()

    def _record_spacing(self, stack: ExitStack) -> None:
        root = Netlink()
        stack.callback(root.close)
        ends = {name: (self._netlink(name), port.index) for name, port in self.host_ports.items()}
        for netlink, _ in ends.values():
            stack.callback(netlink.close)
        for link, port in self.ports.items():
            far = self.interfaces[DirectedLink(link.target, link.source)]
            receiver = ends.get(link.target) or (root, socket.if_nametoindex(far))
            self.recorders.record(link, port.rate_bps, (root, port.index), receiver, exact=port.exact)

    def _configure_stack(self, name: str) -> None:
        address = self.endpoints().get(name)
        nodes.configure_stack(self.node(name).pid, address)
        if address is not None:
            nodes.route_by(partial(self.run_in, name), self._own_interface(name), address, self.congestion_control)

    def _own_interface(self, endpoint: str) -> str:
        return self.interface(endpoint) if endpoint in self.fabric.hosts else f"{endpoint}-eth0"

    def _free_port(self, switch: str) -> int:
        used = [port_number(self.interfaces[DirectedLink(switch, peer)]) for peer in self.fabric.neighbours(switch)]
        return max(used, default=0) + 1
