"""What a TCP sender reports that gets no connection."""

from __future__ import annotations

import argparse
import socket
import time

import pytest

from emulation.traffic import workloads


def arguments(port: int, **changes: int) -> argparse.Namespace:
    now_ns = time.monotonic_ns()
    fields = {"total": 0, "count": 1, "trace_ns": 0, "size": 1000, "rate_bps": 0, "on_ns": 0, "off_ns": 0, "phase_ns": 0}
    return argparse.Namespace(to="127.0.0.1", port=port, begin_ns=now_ns, end_ns=now_ns + 100_000_000, **{**fields, **changes})


def test_a_flow_that_the_network_lets_no_connection_through_has_sent_nothing(
    deaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "CONNECT_TIMEOUT_S", 0.2)
    found = workloads.tcp_send(arguments(deaf, total=1_000_000))
    assert (found["connected"], found["sent_bytes"], found["completed_ns"]) == (False, 0, None)


def test_a_receiver_that_is_not_there_is_an_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            workloads.tcp_send(arguments(unused.getsockname()[1]))
