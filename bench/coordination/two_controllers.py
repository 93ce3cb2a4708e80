"""The emulated star under two controllers, with a store of its own: for the benchmarks of leadership. An edge: processes.

The store stands for one on a machine of its own, so it runs at real-time priority: emulated hosts at full load take no
processor time from it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from controller.store.private_redis import PrivateRedis
from emulation.fabric.fabric import COORDINATOR_NODE, EmulatedFabric
from emulation.stack.control_capture import ControlCapture
from emulation.stack.stack import Stack
from emulation.stack.standby import STANDBY_NODE, Standby
from emulation.stack.star import RECEIVER, SENDERS, star

SETTINGS = {"slice": "2ms"}
"""Of the section `coordinator`."""
HOSTS = (*SENDERS, RECEIVER)
STORE_PRIORITY = 3
"""SCHED_FIFO: above the electors that query the store, below the hosts' agents."""


class TwoControllers(NamedTuple):
    """A running fabric under two controllers."""

    emulated: EmulatedFabric
    baton: Stack
    standby: Standby
    redis: PrivateRedis

    def leader(self) -> str:
        """The name of the leading controller; empty while none leads."""
        leader = self.baton.store.leader()
        return "" if leader is None else str(leader["name"])

    def directory(self, name: str) -> Path:
        """The run directory of a controller."""
        return self.standby.run_dir if name == self.standby.name else self.baton.directory / "run"

    def attachment(self, name: str) -> tuple[str, str]:
        """The node and the interface by which a controller is attached to the fabric."""
        if name == self.standby.name:
            return STANDBY_NODE, self.standby.interface
        return COORDINATOR_NODE, self.emulated.coordinator_interface

    def capture(self) -> ControlCapture:
        """A capture of the control frames that reach every host."""
        return ControlCapture(self.emulated, HOSTS, self.baton.directory, self.baton.credentials)


@contextmanager
def two_controllers() -> Iterator[TwoControllers]:
    """Enters the block when one controller leads, the other stands by, and every host has its agent."""
    with (
        dedicated_store() as redis,
        star(coordinator=SETTINGS, store=redis.url) as (emulated, baton),
        Standby(baton) as standby,
    ):
        yield TwoControllers(emulated, baton, standby, redis)


@contextmanager
def dedicated_store() -> Iterator[PrivateRedis]:
    """A running Redis that the fabric's load does not slow down."""
    with tempfile.TemporaryDirectory(prefix="baton-store-") as name, PrivateRedis(Path(name), mode=0o777) as redis:
        Path(name).chmod(0o711)  # two controllers share it, whose processes have users of their own
        assert redis.process is not None
        prioritise(redis.process.pid)
        yield redis


def prioritise(pid: int) -> None:
    """Gives a server of the store its real-time priority. Raises PermissionError."""
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(STORE_PRIORITY))
