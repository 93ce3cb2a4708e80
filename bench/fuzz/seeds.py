"""One valid message of every type, from which the fuzzers start."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from protocol import messages as m
from protocol.bodies import host_control as host
from protocol.bodies import host_state as health
from protocol.bodies import pfc
from protocol.bodies.flows.coflow_report import CoflowReport
from protocol.bodies.flows.guest_marks import GuestMarks
from protocol.bodies.flows.losses import Losses
from protocol.bodies.groups import GroupRow, GroupsChange, GroupsRequest, Way
from protocol.bodies.host_link import HostLink
from protocol.bodies.keys import KeyState, KeyStep, RotationStep

ADDRESSES = (IPv4Address("10.0.0.1"), IPv6Address("fd00::1"))
SEEDS: tuple[m.Message, ...] = (
    m.Register("host", 1, 10**9, ADDRESSES, m.GateKind.TBF | m.GateKind.PLUG, "1"),
    m.Welcome(1, 16, 10**7, 5 * 10**7, 300_000, 10_000, 10**6, 10**8),
    m.DirectoryRequest(1),
    m.Directory(1, 0, 1, ((16, ADDRESSES), (17, ()))),
    GroupsChange(0, 2, 0, 1, (GroupRow(0, 0, Way.PART, 16, 4815), GroupRow(1, 0, Way.BEFORE, 16, 35))),
    GroupsChange(2, 3, 0, 1, (GroupRow(1, 0, Way.NONE, 0, 0), GroupRow(2, 0, Way.BEHIND, 36, 36))),
    GroupsRequest(2),
    m.DirectoryChange(1, 3, ((16, True, ADDRESSES), (17, False, ()))),
    m.Regulate(1, 0, 1, (16, 17)),
    m.Backlog(1, 0, 1, ((16, 60_000, 1514), (17, 1, 0))),
    m.Directive((m.Grant(16, 1, 1, 2, 24_224, 0), m.Grant(17, 2, 1, 2, 0, 10**8))),
    m.Yield(16, 1, 1, 1),
    m.Ack(1, 16, 1, 1),
    m.Report(10**8, 0, 1, (m.FlowReport(16, 1, 1),), ((5, 1),), 1),
    m.Heartbeat(m.Override.COORDINATE, 1, 1),
    m.Ping(1),
    m.Pong(1, 2, 3),
    m.Leave("stopped"),
    m.Error(m.ErrorCode.UNKNOWN_SENDER, 1, "register first"),
    m.SizeReport(1, 10**10, b"\2\x40\0\0\0\1" + (1 << 20).to_bytes(8, "big")),
    m.Thresholds(1, 10**10, 3, 2, (20_000, 10**6), (10_000, 10**5)),
    m.Coflows(4, 0, 1, ((7, 1), (9, 2))),
    m.ThresholdsRequest(1),
    m.Paths(1, 0, 1, 10**10, 30_000, ((16, 10**9, 20_000),)),
    m.Conditions(1, 0, 1, (host.QueueCondition(3, 1), host.QueueCondition(16, 2, 5, 10, 10**6))),
    m.Week(1, 10**9, 10**6, 10**5, 10**8, host.WeekKey(1), host.Transport(1), (16, 17), (1, 2)),
    m.ClockReport(-5, 5),
    m.PfcSettings(pfc.Action(1), (10**8,) * 8, (10**8,) * 8, (bytes(6),), ((16, 3),)),
    m.PfcPause(1, 3, 10**6),
    m.PfcReport(1, pfc.PauseResult.DONE, pfc.Mode.SOFTWARE, 0, 0, 0, 0, (pfc.PfcClass(1, 1, 0, 1, 0),) * 8),
    CoflowReport(((7, 16, 30_000),)),
    Losses(((16, 9, 30_000),)),
    GuestMarks(3, 20, 10, 1, 2),
    HostLink(10**10, 2 * 10**9, 1500, 60, 0, 1),
    health.HostState(0, 1, 2, 3, 0, 0, "6.18", ("none",)),
    KeyStep(RotationStep.ACCEPT, 1, 2),
    KeyState(1, 2),
)
