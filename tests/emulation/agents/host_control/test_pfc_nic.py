"""On an interface that does PFC itself, packets take the priority of their destination, and still wait at its gate."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from ipaddress import IPv4Address
from pathlib import Path

from agents.bpf.build import object_path
from agents.host_control.nic_classes import NicClasses
from agents.kernel.snapshot import NIC_CLASS_PREFERENCE
from agents.queues.classifier import NewFlow
from agents.queues.host import Host
from ebpf.libbpf import BpfObject
from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.hosts import Master
from tests.emulation.namespaces import inside, pair, run

RIGHT, OTHER, UNMAPPED = (IPv4Address(f"10.9.0.{last}") for last in (2, 3, 4))
NO_MEMBER = IPv4Address("10.9.0.5")
NODES = {16: [RIGHT], 17: [OTHER], 18: [UNMAPPED]}
COUNTED_AT = NIC_CLASS_PREFERENCE + 1


def test_packets_have_their_destinations_priority_and_its_queue(tmp_path: Path) -> None:
    with pair() as ends:
        before = ends.found()
        with inside(ends.left):
            host = Host("eth0", 100_000_000, gate_kind="tbf", run_dir=tmp_path)
            classes = NicClasses("eth0", (3, 5, 7))
            counter = BpfObject(object_path("count_priority", Path(__file__).parent))
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        counts = counter.map("priorities", 4, 4)

        def counted() -> dict[int, int]:
            values = {priority: counts.get(priority.to_bytes(4, "little")) or b"" for priority in range(16)}
            return {priority: int.from_bytes(value, "little") for priority, value in values.items() if any(value)}

        def send(count: int) -> None:
            for target in (RIGHT, OTHER, UNMAPPED):
                for _ in range(count):
                    sender.sendto(bytes(1000), (str(target), 9))

        try:
            with inside(ends.left):
                classes.install()
                counter.attach_egress("count_priority", socket.if_nametoindex("eth0"), COUNTED_AT)
            host.flows.set_directory(NODES)
            send(1)
            time.sleep(0.05)
            for event in host.flows.events():
                if isinstance(event, NewFlow):
                    host.queues.ensure_flow(event.source, event.target, event.destination)
            classes.assign({16: 3, 17: 5})
            first = counted()
            send(20)
            time.sleep(0.1)
            assert {priority: count - first.get(priority, 0) for priority, count in counted().items() if priority != 6} == {
                0: 20, 3: 20, 5: 20,
            }  # fmt: skip
            passed = {entry["handle"]: entry["packets"] for entry in ends.tc("qdisc", "show", "dev", "eth0")}
            assert all(passed[f"{node:x}:"] >= 20 for node in NODES), passed

            host.close_gate(16)
            host.link.send(2 * host.link.address + b"\x88\xb5" + bytes(46))
            control = counted().get(6, 0)
            assert control >= 1, "control frames have a priority without PFC"
            others = {priority: count for priority, count in counted().items() if priority != 6}
            for priority in (0, 3):
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
                sender.sendto(bytes(1000), (str(NO_MEMBER), 9))
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)
            time.sleep(0.05)
            assert counted()[6] >= control + 2, "packets to no member, too"
            assert {priority: count for priority, count in counted().items() if priority != 6} == others

            assert classes.repair() == []
            with inside(ends.left):
                host.queues.install()
            assert classes.repair() == ["the filter that finds packets' classes was missing"]
            with inside(ends.left):
                run("tc", "filter", "del", "dev", "eth0", "egress", "pref", str(NIC_CLASS_PREFERENCE))
                assert classes.repair() == ["the filter that gives packets the interface's classes was missing"]
                assert classes.repair() == []
            classes.assign({16: 5})
            at_start = counted()
            send(5)
            assert {p: n - at_start.get(p, 0) for p, n in counted().items() if n != at_start.get(p, 0)} == {5: 5, 0: 10}
        finally:
            with inside(ends.left):
                subprocess.run(
                    ("tc", "filter", "del", "dev", "eth0", "egress", "pref", str(COUNTED_AT)), check=True, capture_output=True
                )
                classes.close()
                host.close()
            counter.close()
            sender.close()
        assert ends.found() == before, "the interface is not as it was found"


def test_an_interface_without_pfc_is_an_error_with_a_remedy_and_is_not_touched(tmp_path: Path) -> None:
    key = tmp_path / "key"
    host_file.save(Master(Key(b"m" * 32)).enroll("host"), key)
    with pair() as ends:
        before = ends.found()
        command = (
            "ip", "netns", "exec", ends.left, sys.executable, "-m", "cli.main", "agent", "--interface", "eth0",
            "--rate", "1gbit", "--key", str(key), "--run-dir", str(tmp_path), "--pfc", "nic",
        )  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("baton agent: --pfc nic: ")
        assert line.endswith("use --pfc software")
        assert ends.found() == before
