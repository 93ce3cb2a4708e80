"""Flow marks: what goes in comes out, nothing wraps; and the socket option, with a socket that only remembers."""

from __future__ import annotations

import socket
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.flowmark import COFLOW_MAX, DEADLINE_MAX_MS, KB_BYTES, SIZE_MAX_BYTES, CoflowMark, FlowMark
from protocol.mark_socket import mark_socket, set_mark

sizes = st.none() | st.integers(1, SIZE_MAX_BYTES)
deadlines = st.none() | st.integers(1, DEADLINE_MAX_MS)


class TestFlowMark:
    """The 32 bits."""

    @given(sizes, deadlines)
    def test_what_is_encoded_is_decoded_with_the_size_rounded_up_to_a_kb(self, size: int | None, deadline: int | None) -> None:
        found = FlowMark.decode(FlowMark(size, deadline).encode())
        assert found.deadline_ms == deadline
        assert (found.size_bytes is None) == (size is None)
        if size is not None and found.size_bytes is not None:
            assert size <= found.size_bytes < size + KB_BYTES

    @given(st.integers(0, (0xFFF << 20) - 1))
    def test_every_mark_below_the_coflows_is_a_flow_and_encodes_to_itself(self, mark: int) -> None:
        assert FlowMark.decode(mark).encode() == mark
        assert CoflowMark.decode(mark) is None

    @given(sizes, deadlines)
    def test_the_type_survives_the_mark(self, size: int | None, deadline: int | None) -> None:
        mark = FlowMark(size, deadline)
        assert mark.flow_type == FlowMark.decode(mark.encode()).flow_type == (1 if deadline else 2 if size else 3)

    def test_the_layout_is_12_bits_of_ms_above_20_bits_of_kb(self) -> None:
        assert FlowMark(5_000_000, 20).encode() == 20 << 20 | 4883
        assert FlowMark(1, None).encode() == 1
        assert FlowMark().encode() == 0

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("size_bytes", SIZE_MAX_BYTES + 1),
            ("size_bytes", 0),
            ("size_bytes", -1),
            ("size_bytes", 1.5),
            ("size_bytes", True),
            ("deadline_ms", DEADLINE_MAX_MS + 1),
            ("deadline_ms", 0),
            ("deadline_ms", -20),
            ("deadline_ms", "20"),
        ],
    )
    def test_a_number_that_the_mark_does_not_hold_is_refused_by_name(self, field: str, value: object) -> None:
        with pytest.raises(ValueError, match=field):
            FlowMark(**{field: value})  # type: ignore[arg-type]  # what is not an int is to be refused, too

    @pytest.mark.parametrize("mark", [-1, 1 << 32])
    def test_what_is_not_32_bits_is_no_mark(self, mark: int) -> None:
        with pytest.raises(ValueError, match="32 bits"):
            FlowMark.decode(mark)


class TestCoflowMark:
    """The marks with the greatest deadline field."""

    @given(st.integers(1, COFLOW_MAX))
    def test_an_id_is_a_mark_and_no_flow_alone(self, coflow: int) -> None:
        mark = CoflowMark(coflow).encode()
        assert mark == 0xFFF00000 | coflow
        assert CoflowMark.decode(mark) == CoflowMark(coflow)
        with pytest.raises(ValueError, match=f"coflow {coflow}"):
            FlowMark.decode(mark)

    @given(sizes, deadlines)
    def test_no_flow_is_taken_for_a_coflow(self, size: int | None, deadline: int | None) -> None:
        assert CoflowMark.decode(FlowMark(size, deadline).encode()) is None

    @pytest.mark.parametrize("coflow", [0, -1, COFLOW_MAX + 1, 1.5])
    def test_an_id_that_the_mark_does_not_hold_is_refused_by_name(self, coflow: int) -> None:
        with pytest.raises(ValueError, match="coflow"):
            CoflowMark(coflow)


class FakeSocket(socket.socket):
    """Remembers options, or refuses them."""

    def __init__(self, refuses: bool = False) -> None:
        super().__init__()
        self.refuses = refuses
        self.options: list[tuple[int, int, bytes]] = []

    def setsockopt(self, level: int, name: int, value: object, *_: object) -> None:
        if self.refuses:
            raise PermissionError(1, "Operation not permitted")
        assert isinstance(value, bytes)
        self.options.append((level, name, value))


class TestMarkSocket:
    """SO_MARK."""

    @given(sizes, deadlines)
    def test_the_option_gets_the_mark_as_four_bytes(self, size: int | None, deadline: int | None) -> None:
        with FakeSocket() as fake:
            mark_socket(fake, size_bytes=size, deadline_ms=deadline)
            ((level, name, value),) = fake.options
        assert (level, name) == (socket.SOL_SOCKET, socket.SO_MARK)
        assert len(value) == 4 and int.from_bytes(value, sys.byteorder) == FlowMark(size, deadline).encode()

    def test_a_coflows_mark_is_set_as_it_is(self) -> None:
        with FakeSocket() as fake:
            set_mark(fake, CoflowMark(7))
            ((_, _, value),) = fake.options
        assert int.from_bytes(value, sys.byteorder) == 0xFFF00007

    def test_out_of_range_leaves_the_socket_as_it_was(self) -> None:
        with FakeSocket() as fake:
            with pytest.raises(ValueError, match="deadline_ms"):
                mark_socket(fake, deadline_ms=4095)
            assert not fake.options

    def test_a_refusal_by_the_kernel_names_the_capability(self) -> None:
        with FakeSocket(refuses=True) as fake, pytest.raises(PermissionError, match="CAP_NET_ADMIN"):
            mark_socket(fake, size_bytes=1000)
