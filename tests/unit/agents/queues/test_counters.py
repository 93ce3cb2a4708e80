"""What the classifier says of thousands of destinations by its counters in memory; the kernel's side is in tests/emulation."""

from __future__ import annotations

import mmap
import struct
from ipaddress import IPv4Address
from typing import Any

from agents.queues.classifier import MAX_NODES, FlowTable, packed

STRIDE = 16


class Table(dict[bytes, bytes]):
    """A map of the kernel; counts what is written and removed."""

    changes = 0

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.changes += 1
        super().__setitem__(key, value)

    def remove(self, key: bytes) -> None:
        self.changes += 1
        del self[key]


def table(nodes: int) -> Any:  # noqa: ANN401 -- a FlowTable with memory in place of the kernel's
    made: Any = FlowTable.__new__(FlowTable)
    made._nodes, made._members = mmap.mmap(-1, MAX_NODES * STRIDE), Table()
    made._entries, made._addresses, made._looked_at, made._busy, made._lost = {}, {}, b"", set(), {}
    made.set_directory({node: (IPv4Address(node),) for node in range(16, 16 + nodes)})
    return made


def send(made: Any, node: int, size: int) -> None:  # noqa: ANN401
    (before,) = struct.unpack_from("=Q", made._nodes, node * STRIDE)
    struct.pack_into("=Q", made._nodes, node * STRIDE, before + size)


def test_idle_destinations_are_told_once_and_busy_ones_as_long_as_they_are() -> None:
    made = table(4800)
    assert dict(made.sent_bytes()) == dict.fromkeys(range(16, 4816), 0)
    assert not dict(made.sent_bytes())
    send(made, 20, 1500)
    send(made, 4815, 3000)
    assert dict(made.sent_bytes()) == {20: 1500, 4815: 3000}
    send(made, 20, 10)
    assert dict(made.sent_bytes()) == {20: 10, 4815: 0}
    assert dict(made.sent_bytes()) == {20: 0} and not dict(made.sent_bytes())


def test_a_destination_that_leaves_and_comes_back_has_not_sent_all_of_its_bytes_again() -> None:
    made = table(4)
    send(made, 19, 5000)
    dict(made.sent_bytes())
    without = {node: its for node, its in made._entries.items() if node != 19}
    made.set_directory(without)
    assert 19 not in dict(made.sent_bytes())
    made.set_directory({**without, 19: (IPv4Address(19),)})
    assert dict(made.sent_bytes()) == {19: 0}


def test_arming_leaves_the_counters_alone() -> None:
    made = table(4)
    send(made, 17, 700)
    made.arm(17)
    assert struct.unpack_from("=QII", made._nodes, 17 * STRIDE) == (700, 1, 0)


def test_a_change_of_the_directory_writes_what_changed_and_moves_an_address() -> None:
    made = table(4800)
    made._members.changes = 0
    entries = {**made._entries, 20: (IPv4Address(20), IPv4Address(9999))}
    made.set_directory(entries)
    assert made._members.changes == 1
    moved = {**entries, 20: (IPv4Address(20),), 30: (IPv4Address(30), IPv4Address(9999))}
    made.set_directory(moved)
    assert made._members[packed(IPv4Address(9999))] == (30).to_bytes(4, "little") and made._members.changes == 2
    del moved[30]
    made.set_directory(dict(moved))
    assert packed(IPv4Address(9999)) not in made._members and packed(IPv4Address(30)) not in made._members
