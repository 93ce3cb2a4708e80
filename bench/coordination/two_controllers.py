"""What the benchmarks of leadership share: the emulated star with a store of its own and a standby, and what hosts heard.

The store stands for one on a machine of its own, so it has a real-time priority: what the emulated hosts do at full load takes
no processor from it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from controller.store.private_redis import PrivateRedis
from emulation.fabric.fabric import COORDINATOR as COORDINATOR_NODE
from emulation.fabric.fabric import EmulatedFabric
from emulation.stack.control_capture import ControlCapture, Heard
from emulation.stack.stack import Stack
from emulation.stack.standby import NODE as STANDBY_NODE
from emulation.stack.standby import Standby
from emulation.stack.star import RECEIVER, SENDERS, star
from protocol.auth import Key
from protocol.messages import Directive

COORDINATOR = {"slice": "2ms"}
HOSTS = (*SENDERS, RECEIVER)


STORE_PRIORITY = 3
"""Above the electors that ask it, below the hosts' agents."""


class Two(NamedTuple):
    """A running fabric under two controllers."""

    emulated: EmulatedFabric
    baton: Stack
    standby: Standby
    redis: PrivateRedis

    def leader(self) -> str:
        """The name of who leads; empty while nobody does."""
        leader = self.baton.store.leader()
        return "" if leader is None else str(leader["name"])

    def directory(self, name: str) -> Path:
        """The run directory of a controller."""
        return self.standby.run_dir if name == self.standby.name else self.baton.directory / "run"

    def plug(self, name: str) -> tuple[str, str]:
        """The node and interface by which a controller is on the fabric."""
        if name == self.standby.name:
            return STANDBY_NODE, self.standby.interface
        return COORDINATOR_NODE, self.emulated.coordinator_interface

    def capture(self) -> ControlCapture:
        """Of the control frames at every host."""
        return ControlCapture(self.emulated, HOSTS, self.baton.directory, Key.load(self.baton.key_file))


@contextmanager
def own_store() -> Iterator[PrivateRedis]:
    """A running one that the fabric's load does not disturb."""
    with tempfile.TemporaryDirectory(prefix="baton-store-") as directory, PrivateRedis(Path(directory)) as redis:
        assert redis.process is not None
        undisturbed(redis.process.pid)
        yield redis


@contextmanager
def two_controllers() -> Iterator[Two]:
    """Returns when one leads, the other stands by, and every host has its agent."""
    with (
        own_store() as redis,
        star(coordinator=COORDINATOR, store=redis.url) as (emulated, baton),
        Standby(baton) as standby,
    ):
        yield Two(emulated, baton, standby, redis)


def undisturbed(pid: int) -> None:
    """Gives a server that was just started its priority."""
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(STORE_PRIORITY))


def grants(heard: Sequence[Heard]) -> list[Heard]:
    """The directives among what was heard."""
    return [each for each in heard if isinstance(each.message, Directive)]


def granters(heard: Sequence[Heard]) -> dict[str, Any]:
    """Who granted by whom: whether any agent ever accepted a directive of an epoch after one of a higher, and whether, over all
    agents together, the last accepted of an epoch came before the first accepted of the next."""
    accepted = [each for each in grants(heard) if each.refused is None]
    newest: dict[str, int] = {}
    fell_back = 0
    for each in accepted:
        fell_back += each.epoch < newest.get(each.host, 0)
        newest[each.host] = max(newest.get(each.host, 0), each.epoch)
    epochs = sorted({each.epoch for each in accepted})
    gaps = []
    for before, after in pairwise(epochs):
        last = max(each.at_ns for each in accepted if each.epoch == before)
        first = min(each.at_ns for each in accepted if each.epoch == after)
        gaps.append(round((first - last) / 1e6, 2))
    return {
        "epochs": epochs,
        "directives_accepted": [sum(each.epoch == epoch for each in accepted) for epoch in epochs],
        "accepted_from_two_at_once": fell_back,
        "between_last_and_first_directive_ms": gaps,
    }


def first_after(times_ns: Sequence[int], at_ns: int) -> int | None:
    """The first time after an instant."""
    return next((time_ns for time_ns in times_ns if time_ns > at_ns), None)


def slowest_ms(times_ns: Sequence[int | None], at_ns: int) -> float | None:
    """How long after the instant the last of them came; None unless all did."""
    known = [time_ns for time_ns in times_ns if time_ns is not None]
    return round((max(known) - at_ns) / 1e6, 1) if known and len(known) == len(times_ns) else None
