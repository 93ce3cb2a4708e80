"""Which of several marks of guests' flows the tagger takes, by running its program on packets (BPF_PROG_TEST_RUN)."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from agents.bpf.build import object_path
from agents.guests.flows import Flows
from agents.guests.guest_map import GuestMap
from agents.priorities.tagger import RunOptions
from agents.queues.classifier import Address
from ebpf.libbpf import BpfMap, BpfObject
from protocol.flowmark import FlowMark

SECOND = 10**9
GUEST, SERVER, PORT = ip_address("10.0.0.5"), ip_address("10.0.0.9"), 3
SOURCE_PORT, TARGET_PORT = 4000, 9000
SIZES = tuple(1024 * 2**bits for bits in range(8))
DSCP = (56, 48, 40, 32, 24, 16, 8, 1)
TOP = FlowMark(deadline_ms=4000).encode()


class Program:
    """The tagger's program and tables, at no interface; its bands are 1 KiB, 2 KiB, and so on."""

    def __init__(self) -> None:
        self._object = BpfObject(object_path("tagger"))
        self._object.map("settings", 4, 48)[bytes(4)] = struct.pack("=QQQQII8s", SECOND, 0, SECOND, 0, 2, 2, bytes(DSCP))
        self._object.map("thresholds", 4, 104)[bytes(4)] = struct.pack("=II12Q", 1, 6, *SIZES[:6], *[SECOND] * 6)
        self.marks = GuestMap(self)

    def map(self, name: str, key_bytes: int, value_bytes: int) -> BpfMap:
        return self._object.map(name, key_bytes, value_bytes)

    def dscp(self, flows: Flows, *, port: int = PORT, mark: int = 0, tcp: bool = False) -> int:
        """The DSCP that a packet of a flow has after the program; it came at this interface (0: from this host)."""
        ends = {"src": str(flows.source), "dst": str(flows.target)}
        network = IP(**ends) if flows.source.version == 4 else IPv6(**ends)
        ports = {"sport": flows.source_port, "dport": flows.target_port}
        transport = TCP(**ports) if tcp else UDP(**ports)
        frame = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / network / transport / Raw(b"x"))
        context = bytearray(192)  # struct __sk_buff
        struct.pack_into("=I", context, 8, mark)
        struct.pack_into("=I", context, 36, port)
        out = ctypes.create_string_buffer(len(frame))
        options = RunOptions(sz=ctypes.sizeof(RunOptions), data_in=frame, data_size_in=len(frame), repeat=1)
        options.data_out, options.data_size_out = ctypes.addressof(out), len(frame)
        options.ctx_in, options.ctx_size_in = bytes(context), len(context)
        library = self._object._library
        program = library.bpf_program__fd(library.bpf_object__find_program_by_name(self._object._object, b"tag"))
        assert library.bpf_prog_test_run_opts(program, ctypes.byref(options)) == 0
        tos = out.raw[15] if flows.source.version == 4 else int.from_bytes(out.raw[14:16], "big") >> 4 & 0xFF
        return tos >> 2

    def close(self) -> None:
        self._object.close()


@pytest.fixture
def program() -> Iterator[Program]:
    made = Program()
    yield made
    made.close()


def later() -> int:
    return time.monotonic_ns() + 60 * SECOND


def left_open(shape: int, source: Address = GUEST, target: Address = SERVER) -> Flows:
    """What a mark of a shape names of the flow from port 4000 to port 9000."""
    return Flows(
        source, target, 0 if shape & 2 else SOURCE_PORT, 0 if shape & 4 else TARGET_PORT, 0 if shape & 1 else PORT
    )


FLOW = left_open(0)


@pytest.mark.parametrize(("source", "target"), [("10.0.0.5", "10.0.0.9"), ("fd00::5", "fd00::9")])
@pytest.mark.parametrize("tcp", [False, True])
def test_of_several_marks_the_one_that_names_most_counts_and_the_next_when_it_is_gone(
    program: Program, source: str, target: str, tcp: bool
) -> None:
    ends = ip_address(source), ip_address(target)
    flow = left_open(0, *ends)
    shapes = range(6)  # as many as there are bands below the last
    for shape in shapes:
        program.marks.set(left_open(shape, *ends), FlowMark(SIZES[shape]).encode(), later())
    for shape in shapes:
        assert program.dscp(flow, tcp=tcp) == DSCP[1 + shape]
        program.marks.remove(left_open(shape, *ends))
    program.marks.set(left_open(7, *ends), TOP, later())
    assert program.dscp(flow, tcp=tcp) == DSCP[0]
    program.marks.set(left_open(6, *ends), FlowMark(SIZES[2]).encode(), later())
    assert program.dscp(flow, tcp=tcp) == DSCP[3]


@pytest.mark.parametrize("shape", range(8))
def test_a_mark_is_for_what_it_names_and_nothing_else(program: Program, shape: int) -> None:
    program.marks.set(left_open(shape), TOP, later())
    assert program.dscp(FLOW) == DSCP[0]
    assert (program.dscp(Flows(GUEST, SERVER, 4001, TARGET_PORT)) == DSCP[0]) == bool(shape & 2)
    assert (program.dscp(Flows(GUEST, SERVER, SOURCE_PORT, 9001)) == DSCP[0]) == bool(shape & 4)
    assert (program.dscp(FLOW, port=4) == DSCP[0]) == bool(shape & 1)
    assert program.dscp(Flows(ip_address("10.0.0.6"), SERVER, SOURCE_PORT, TARGET_PORT)) == DSCP[1]
    assert program.dscp(Flows(GUEST, ip_address("10.0.0.8"), SOURCE_PORT, TARGET_PORT)) == DSCP[1]
    assert program.dscp(Flows(SERVER, GUEST, TARGET_PORT, SOURCE_PORT)) == DSCP[1]


def test_it_is_not_for_packets_of_the_host_itself_and_a_mark_of_a_packets_own_counts_more(program: Program) -> None:
    program.marks.set(left_open(7), TOP, later())
    assert program.dscp(FLOW, port=0) == DSCP[1]
    assert program.dscp(FLOW, mark=FlowMark(SIZES[3]).encode()) == DSCP[4]


def test_a_mark_that_is_over_or_taken_away_leaves_a_flow_without_a_mark(program: Program) -> None:
    program.marks.set(left_open(6), TOP, time.monotonic_ns() + SECOND // 5)
    assert program.dscp(FLOW) == DSCP[0]
    time.sleep(0.3)
    assert program.dscp(FLOW) == DSCP[1], "the tagger needs nobody to remove it"
    program.marks.set(left_open(6), TOP, later())
    assert program.dscp(FLOW) == DSCP[0]
    program.marks.remove(left_open(6))
    assert program.dscp(FLOW) == DSCP[1]
