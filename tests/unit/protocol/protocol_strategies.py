"""What every test of the protocol starts from: arbitrary valid messages, a key, and addresses."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from protocol import messages as m
from protocol.bodies import groups, keys, pfc
from protocol.bodies import host_control as host
from protocol.bodies import host_state as health
from protocol.bodies.flows.coflow_report import CoflowReport
from protocol.bodies.flows.guest_marks import GuestMarks
from protocol.bodies.flows.losses import Losses
from protocol.bodies.flows.priorities import SizeCount, size_reports
from protocol.bodies.flows.size_bins import BINS
from protocol.bodies.host_link import HostLink
from protocol.bodies.versions import NEWEST, Versions
from protocol.key import Key
from protocol.wire import BODY_MAX

KEY = Key(bytes(range(32)))
OTHER_KEY = Key(bytes(32))
HOST = bytes.fromhex("020000000001")
LEADER = bytes.fromhex("0200000000fe")

PROPERTY = settings(deadline=None)
"""No deadline: the machine may be busy."""

u8, u16, u32, u64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))
positive = st.integers(1, (1 << 64) - 1)
addresses = st.lists(st.ip_addresses(), max_size=60).map(tuple)
few_addresses = st.lists(st.ip_addresses(), max_size=8).map(tuple)
printable = st.characters(exclude_categories=["Cs"]).filter(str.isprintable)
text = st.text(printable, max_size=60)
versions = st.tuples(u8, u8).map(lambda ends: Versions(min(ends), max(ends)))
short = st.text(printable, max_size=40)


@st.composite
def grants(draw: st.DrawFn) -> m.Grant:
    start, end = sorted((draw(u64), draw(u64)))
    size, rate = draw(st.one_of(st.tuples(u32, st.just(0)), st.tuples(st.just(0), u64)))
    return m.Grant(draw(u32), draw(u64), start, end, size, rate)


@st.composite
def page_of(draw: st.DrawFn) -> tuple[int, int]:
    pages = draw(st.integers(1, (1 << 16) - 1))
    return draw(st.integers(0, pages - 1)), pages


def rows(row: st.SearchStrategy, size: int) -> st.SearchStrategy:
    """Tuples of rows of `size` bytes, up to what a page holds after its longest head."""
    return st.lists(row, max_size=(BODY_MAX - 32) // size).map(tuple)


def paged(build: object, *parts: st.SearchStrategy) -> st.SearchStrategy:
    """A message of (number, page, pages, *parts)."""
    return st.builds(lambda number, page, *rest: build(number, *page, *rest), u64, page_of(), *parts)


@st.composite
def directory_changes(draw: st.DrawFn) -> m.DirectoryChange:
    base, version = sorted(draw(st.lists(u64, min_size=2, max_size=2, unique=True)))
    here = st.tuples(u32, st.just(True), few_addresses)
    gone = st.tuples(u32, st.just(False), st.just(()))
    return m.DirectoryChange(base, version, tuple(draw(st.lists(here | gone, max_size=9))))


@st.composite
def group_rows(draw: st.DrawFn) -> groups.GroupRow:
    way, (first, last) = draw(st.sampled_from(groups.Way)), sorted((draw(u32), draw(u32)))
    link = 0 if way is groups.Way.PART else draw(st.integers(1, (1 << 32) - 1))
    return groups.GroupRow(link, draw(u16), way, first, last)


@st.composite
def groups_changes(draw: st.DrawFn) -> groups.GroupsChange:
    base, version = sorted((draw(u64), draw(u64)))
    return groups.GroupsChange(base, version, *draw(page_of()), draw(rows(group_rows(), 15)))


@st.composite
def thresholds(draw: st.DrawFn) -> m.Thresholds:
    bands = draw(st.integers(1, 7))
    count = draw(st.sampled_from((0, bands - 1)))
    beta, alpha = (tuple(sorted(draw(st.lists(u64, min_size=count, max_size=count)))) for _ in range(2))
    return m.Thresholds(draw(u32), draw(u64), bands, draw(st.integers(1, 3)), beta, alpha)


@st.composite
def conditions(draw: st.DrawFn) -> host.QueueCondition:
    start, end = sorted((draw(u64), draw(u64)))
    queue = draw(st.one_of(st.integers(0, 7), st.integers(16, (1 << 32) - 1)))
    return host.QueueCondition(queue, draw(u32), start, end, draw(u64))


@st.composite
def weeks(draw: st.DrawFn) -> host.Week:
    key, transport = draw(st.sampled_from(host.WeekKey)), draw(st.sampled_from(host.Transport))
    flow = st.integers(0, 63) if key is host.WeekKey.TOS else st.integers(16, (1 << 32) - 1)
    flows = tuple(draw(st.lists(flow, max_size=64, unique=True)))
    active = len(flows) if transport is host.Transport.SCHEDULE else min(8, len(flows))
    days = tuple(draw(st.lists(st.integers(0, (1 << active) - 1), max_size=64)))
    day_ns = draw(st.integers(200_000, 40_000_000))
    lease_ns = draw(st.integers(len(days) * day_ns, (1 << 64) - 1))
    return host.Week(draw(u64), draw(u64), day_ns, draw(st.integers(0, day_ns - 1)), lease_ns, key, transport, flows, days)


size_counts = st.builds(SizeCount, st.integers(1, 3), st.integers(0, BINS - 1), u32, u64)
flow_reports = st.builds(m.FlowReport, u32, u64, u64)
gates = st.sampled_from([m.GateKind(bits) for bits in range(4)])
storm_times = st.tuples(*(st.integers(1, (1 << 64) - 1),) * 8)
partners = st.lists(st.binary(min_size=6, max_size=6), max_size=pfc.PARTNERS_MAX).map(tuple)
mapped = st.lists(st.tuples(u32, st.integers(0, 7)), max_size=pfc.NODES_MAX).map(tuple)

BY_KIND: dict[m.Kind, st.SearchStrategy] = {
    m.Kind.REGISTER: st.builds(m.Register, text, u64, u64, addresses, gates, text, versions),
    m.Kind.WELCOME: st.builds(m.Welcome, u64, u32, u64, u64, u64, u64, u64, u64, u8, versions),
    m.Kind.DIRECTORY_REQUEST: st.builds(m.DirectoryRequest, u64),
    m.Kind.DIRECTORY: paged(m.Directory, st.lists(st.tuples(u32, few_addresses), max_size=9).map(tuple)),
    m.Kind.DIRECTORY_CHANGE: directory_changes(),
    m.Kind.GROUPS_CHANGE: groups_changes(),
    m.Kind.GROUPS_REQUEST: st.builds(groups.GroupsRequest, u64),
    m.Kind.REGULATE: paged(m.Regulate, rows(u32, 4)),
    m.Kind.BACKLOG: paged(m.Backlog, rows(st.tuples(u32, u64, u64), 20)),
    m.Kind.DIRECTIVE: st.builds(m.Directive, st.lists(grants(), max_size=m.MAX_GRANTS).map(tuple)),
    m.Kind.YIELD: st.builds(m.Yield, u32, u64, u32, u64),
    m.Kind.ACK: st.builds(m.Ack, u64, u32, u64, u64),
    m.Kind.REPORT: st.builds(
        lambda period, page, entries, counters, report: m.Report(period, *page, entries, counters, report),
        u64,
        page_of(),
        rows(flow_reports, 40),
        rows(st.tuples(u16, u64), 24),
        u64,
    ),
    m.Kind.HEARTBEAT: st.builds(m.Heartbeat, st.sampled_from(m.Override), u64, u64, u32),
    m.Kind.PING: st.builds(m.Ping, u64),
    m.Kind.PONG: st.builds(m.Pong, u64, u64, u64),
    m.Kind.LEAVE: st.builds(m.Leave, text),
    m.Kind.ERROR: st.builds(m.Error, st.sampled_from(m.ErrorCode), u64, text),
    m.Kind.SIZE_REPORT: st.builds(
        lambda version, period, counts: size_reports(version, period, counts)[0], u32, u64, st.lists(size_counts, max_size=200)
    ),
    m.Kind.THRESHOLDS: thresholds(),
    m.Kind.THRESHOLDS_REQUEST: st.builds(m.ThresholdsRequest, u32),
    m.Kind.COFLOWS: paged(m.Coflows, rows(st.tuples(u32, u8), 5)),
    m.Kind.PATHS: paged(m.Paths, positive, u32, rows(st.tuples(u32, positive, u32), 16)),
    m.Kind.CONDITIONS: paged(m.Conditions, rows(conditions(), 32)),
    m.Kind.WEEK: weeks(),
    m.Kind.CLOCK_REPORT: st.builds(m.ClockReport, st.integers(-(1 << 63), (1 << 63) - 1), u64),
    m.Kind.KEY_STEP: st.builds(keys.KeyStep, st.sampled_from(keys.RotationStep), u64, u64),
    m.Kind.KEY_STATE: st.builds(keys.KeyState, u64, u64),
    m.Kind.PFC_SETTINGS: st.builds(m.PfcSettings, st.sampled_from(pfc.Action), storm_times, storm_times, partners, mapped),
    m.Kind.HOST_STATE: st.builds(
        health.HostState, u64, u64, u64, u64, u32, u32, short, st.lists(short, max_size=health.LINES_MAX).map(tuple)
    ),
    m.Kind.COFLOW_REPORT: st.builds(CoflowReport, rows(st.tuples(u32, u32, u64), 16)),
    m.Kind.GUEST_MARKS: st.builds(GuestMarks, u32, u64, u64, u64, u64),
    m.Kind.LOSSES: st.builds(Losses, rows(st.tuples(u32, u32, u64), 16)),
    m.Kind.HOST_LINK: st.builds(HostLink, u64, u64, u64, u64, u16, u16),
    m.Kind.PFC_PAUSE: st.builds(m.PfcPause, u64, u8, u64),
    m.Kind.PFC_REPORT: st.builds(
        m.PfcReport, u64, st.sampled_from(pfc.PauseResult), st.sampled_from(pfc.Mode), u8, u8, u64, u64,
        st.tuples(*(st.builds(pfc.PfcClass, u64, u64, u64, u64, u64),) * 8),
    ),
}
messages = st.one_of(*BY_KIND.values())


def frame_of(
    message: m.Message,
    *,
    key: Key = KEY,
    destination: bytes = HOST,
    source: bytes = LEADER,
    sender: int = m.COORDINATOR,
    epoch: int = 1,
    sequence: int = 1,
    version: int = NEWEST,
) -> bytes:
    """The message's frame, by default from the leader to a host."""
    return m.encode(
        message,
        key=key,
        destination=destination,
        source=source,
        sender=sender,
        epoch=epoch,
        sequence=sequence,
        version=version,
    )
