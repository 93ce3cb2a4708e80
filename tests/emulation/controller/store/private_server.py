"""What the tests of the store do to its server: they ask as another client, end it, and hold leases there."""

from __future__ import annotations

import signal
import subprocess

from controller.election.lease import LeaseStore
from controller.store.private_redis import PrivateRedis

LEASE_NS = 300_000_000


def redis_cli(server: PrivateRedis, *words: str) -> str:
    """What another client sees."""
    command = ["redis-cli", "-s", str(server.run_dir / "redis.sock"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def kill(server: PrivateRedis) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.process = None


def leases(server: PrivateRedis, *names: str) -> list[LeaseStore]:
    return [LeaseStore(server.url, name, LEASE_NS) for name in names]
