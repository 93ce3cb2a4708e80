"""A real redis-server for each test, and a store at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.store.private_redis import PrivateRedis
from controller.store.store import Store


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PrivateRedis]:
    with PrivateRedis(tmp_path) as running:
        yield running


@pytest.fixture
def store(server: PrivateRedis) -> Iterator[Store]:
    made = Store(server.url)
    yield made
    made.close()
