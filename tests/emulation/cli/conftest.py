"""A real redis-server for each test with two members, and `baton` at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with PrivateRedis(tmp_path) as server:
        made = Store(server.url)
        for node, name in ((16, "h1"), (17, "h2")):
            made.publish_member(node, {"name": name, "rate_bps": 10**8})
        yield made
        made.close()


@pytest.fixture
def run(store: Store) -> Run:
    """Runs a command at this store; returns its exit status and what it prints."""

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, [*words, "--store", store.url])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return run
