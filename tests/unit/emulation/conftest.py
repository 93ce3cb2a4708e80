"""What several tests of traffic programs need."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def deaf() -> Iterator[int]:
    """The port of a listener whose queue is full: the kernel drops further SYNs, as a full link does."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for one in (first, second):
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        yield port
