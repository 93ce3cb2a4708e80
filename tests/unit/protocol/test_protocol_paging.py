"""Long messages in pages, and back."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.bodies.directory import DIRECTORY
from protocol.messages import REPORT, Backlog, Directory, FlowReport, Regulate, Report, decode
from protocol.paging import Reassembler, paginate
from protocol.wire import BODY_MAX
from tests.unit.protocol.protocol_strategies import KEY, PROPERTY, frame_of, u64

counts = st.integers(0, 400)


def numbers(count: int) -> tuple[int, ...]:
    return tuple(range(16, 16 + count))


def vms(node: int) -> tuple[IPv4Address | IPv6Address, ...]:
    """None to four addresses of both families: entries of 5 to 61 bytes."""
    families = (IPv4Address, IPv6Address, IPv6Address, IPv4Address)
    return tuple(family(node) for family in families[: node * 7 % 5])


backlogs = st.builds(lambda n, c: Backlog(n, 0, 1, tuple((d, d * d, d) for d in numbers(c))), u64, counts)
regulates = st.builds(lambda n, c: Regulate(n, 0, 1, numbers(c)), u64, counts.map(lambda c: 3 * c))
directories = st.builds(lambda n, c: Directory(n, 0, 1, tuple((d, vms(d)) for d in numbers(c))), u64, counts)
reports = st.builds(
    lambda n, flows, causes: Report(
        1_000,
        0,
        1,
        tuple(FlowReport(d, d, 2 * d) for d in numbers(flows)),
        tuple((cause, 5) for cause in numbers(causes)),
        n,
    ),
    u64,
    counts,
    counts,
)
long_messages = st.one_of(backlogs, regulates, directories, reports)
Paged = Backlog | Regulate | Directory | Report


def joined(pages: tuple[Paged, ...]) -> Paged:
    """The message that the pages make, joined without the code under test."""
    first = replace(pages[0], page=0, pages=1)
    if isinstance(first, Regulate):
        return replace(first, destinations=tuple(d for page in pages for d in page.destinations))
    whole = replace(first, entries=tuple(entry for page in pages for entry in page.entries))
    if isinstance(first, Report):
        whole = replace(whole, counters=tuple(counter for page in pages for counter in page.counters))
    return whole


class TestPaginate:
    """Every page fits a frame, and together they are the message."""

    @given(long_messages)
    @PROPERTY
    def test_every_page_fits_an_ethernet_frame(self, message: Paged) -> None:
        for page in paginate(message):
            frame = frame_of(page)
            assert len(frame) <= 1514
            assert decode(frame, KEY).message == page

    @given(long_messages)
    @PROPERTY
    def test_pages_are_numbered_in_order_and_lose_nothing(self, message: Paged) -> None:
        pages = paginate(message)
        assert [(page.page, page.pages) for page in pages] == [(n, len(pages)) for n in range(len(pages))]
        assert joined(tuple(pages)) == message

    @pytest.mark.parametrize(
        "message",
        [Backlog(1, 0, 1, ()), Regulate(1, 0, 1, ()), Directory(1, 0, 1, ()), Report(1, 0, 1, (), ())],
    )
    def test_an_empty_message_is_one_page_for_it_says_that_there_is_nothing(self, message: Paged) -> None:
        assert paginate(message) == [message]

    @pytest.mark.parametrize("entries", range(69, 75))
    @pytest.mark.parametrize("counters", range(4))
    def test_a_report_is_cut_where_its_page_is_full(self, entries: int, counters: int) -> None:
        flows = tuple(FlowReport(node, 1, 1) for node in numbers(entries))
        pages = paginate(Report(1, 0, 1, flows, ((1, 1),) * counters))
        assert len(pages) == (1 if REPORT.size + entries * 20 + counters * 10 <= BODY_MAX else 2)
        assert all(len(frame_of(page)) <= 1514 for page in pages)

    @pytest.mark.parametrize("count", range(68, 73))
    def test_a_backlog_is_cut_where_its_page_is_full(self, count: int) -> None:
        pages = paginate(Backlog(1, 0, 1, tuple((node, 1, 0) for node in numbers(count))))
        assert len(pages) == (1 if count <= 70 else 2)
        assert all(len(frame_of(page)) <= 1514 for page in pages)

    @pytest.mark.parametrize(("size", "ipv6", "bare"), [(1448, 4, 272), (1449, 2, 281)])
    def test_a_directory_is_cut_at_the_byte(self, size: int, ipv6: int, bare: int) -> None:
        entries = ((16, (IPv6Address("fd00::1"),)),) * ipv6 + ((17, ()),) * bare
        assert sum(5 + 17 * len(addresses) for _, addresses in entries) == size
        assert len(paginate(Directory(1, 0, 1, entries))) == (1 if DIRECTORY.size + size <= BODY_MAX else 2)

    def test_hundreds_of_destinations_take_as_few_pages_as_can_be(self) -> None:
        backlog = Backlog(1, 0, 1, tuple((node, 1, 0) for node in range(1_000)))
        assert [len(page.entries) for page in paginate(backlog)] == [70] * 14 + [20]

    def test_a_page_is_not_paged_again(self) -> None:
        with pytest.raises(ValueError, match=r"Backlog.pages: 2, must be 1"):
            paginate(Backlog(1, 0, 2, ()))

    def test_a_node_with_more_addresses_than_a_frame_holds_is_named(self) -> None:
        with pytest.raises(ValueError, match=r"at most .* fit in a page"):
            paginate(Directory(1, 0, 1, ((16, tuple(IPv6Address(n) for n in range(90))),)))


class TestReassembler:
    """Pages in any order make their message once; incomplete ones are given up."""

    @given(long_messages, st.randoms(use_true_random=False))
    @PROPERTY
    def test_pages_in_any_order_make_the_message_with_the_last_one(
        self, message: Paged, random: object
    ) -> None:
        pages = paginate(message)
        random.shuffle(pages)
        reassembler = Reassembler()
        results = [reassembler.add(page) for page in pages]
        assert all(result is None for result in results[:-1])
        assert results[-1] is not None and joined(results[-1]) == message

    @given(backlogs, backlogs, st.randoms(use_true_random=False))
    @PROPERTY
    def test_pages_of_two_messages_are_never_mixed(self, one: Backlog, two: Backlog, random: object) -> None:
        two = replace(two, report=(one.report + 1) % (1 << 64))
        pages = paginate(one) + paginate(two)
        random.shuffle(pages)
        reassembler: Reassembler[Backlog] = Reassembler()
        results = [joined(result) for page in pages if (result := reassembler.add(page)) is not None]
        assert sorted(results, key=lambda m: m.report) == sorted((one, two), key=lambda m: m.report)

    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(0, 3)), max_size=60))
    @PROPERTY
    def test_whatever_is_lost_only_whole_sets_come_out_and_memory_is_bounded(
        self, pages: list[tuple[int, int, int]]
    ) -> None:
        reassembler: Reassembler[Regulate] = Reassembler()
        for version, count, page in pages:
            result = reassembler.add(Regulate(version, page % count, count, ()))
            if result is not None:
                assert {(part.version, part.pages) for part in result} == {(version, count)}
                assert [part.page for part in result] == list(range(count))
            assert len(reassembler._sets) <= 2

    def test_a_lost_page_is_made_good_by_the_next_full_state(self) -> None:
        reassembler: Reassembler[Backlog] = Reassembler()
        entries = tuple((node, 1, 0) for node in range(200))
        for report in range(5):
            assert reassembler.add(paginate(Backlog(report, 0, 1, entries))[0]) is None
        first, second, third = paginate(Backlog(5, 0, 1, entries))
        assert reassembler.add(first) is None and reassembler.add(second) is None
        assert reassembler.add(third) == (first, second, third)

    def test_clear_drops_pages_of_a_sender_that_began_anew(self) -> None:
        reassembler: Reassembler[Directory] = Reassembler()
        address = (IPv4Address("10.0.0.1"),)
        old = Directory(1, 0, 2, ((16, address),))
        reassembler.add(old)
        reassembler.clear()
        assert reassembler.add(Directory(1, 1, 2, ((17, address),))) is None
