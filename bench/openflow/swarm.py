"""A swarm of switches, each with a TCP connection of its own to the application. An edge: sockets, in one asyncio loop."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterable, Iterator, Sequence

from bench.openflow.flows import Flows, Frame, walk
from bench.openflow.switch import ECHO_REQUEST, Switch, message
from bench.openflow.wiring import SwarmHost, Wiring
from controller.openflow.intake.hosts import PortRef
from controller.openflow.tables.forwarding import CLASSIFY, DELIVER, LEARN

AGAIN_S = 0.2
READ_BYTES = 1 << 13
"""Of one switch in a turn."""
UNREAD_BYTES = 1 << 26
"""A switch takes all that comes, as hardware does, and carries it out later: the application hangs up on who takes nothing."""
ECHO_S = 0.02
ANNOUNCED_AT_ONCE = 20
BROADCAST = b"\xff" * 6
NOBODY = bytes.fromhex("02ffffffffff")

Entries = dict[int, tuple[dict[object, bytes], dict[int, tuple[int, ...]]]]


def address(mac: str) -> bytes:
    """A MAC address as six bytes."""
    return bytes.fromhex(mac.replace(":", ""))


def pairs(hosts: Sequence[SwarmHost], count: int, generator: random.Random) -> list[tuple[SwarmHost, SwarmHost]]:
    """So many pairs of different hosts."""
    return [(one, other) for one, other in (generator.sample(hosts, 2) for _ in range(count))]


class Swarm:
    """The switches of a wiring. `changed_s`: when the last flow or group mod came (monotonic)."""

    def __init__(self, wiring: Wiring, endpoint: tuple[str, int], watched: int, seed: int) -> None:
        """`watched`: how many pairs of hosts are walked after every change while `watching`."""
        self.wiring = wiring
        self.switches = {
            dpid: Switch(dpid, name, wiring.ports[dpid], self._passed) for dpid, name in wiring.names.items()
        }
        self.changed_s = time.monotonic()
        self.first_change_s: float | None = None
        self.echoes_s: list[float] = []
        self.loops: list[str] = []
        self.watching = False
        self._far = dict(wiring.far)
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._endpoint = endpoint
        self._pairs = pairs(wiring.hosts, watched, random.Random(seed))

    def start(self) -> list[asyncio.Task[None]]:
        """Connects every switch, now and again whenever the application hangs up."""
        return [asyncio.create_task(self._serve(switch)) for switch in self.switches.values()]

    async def _serve(self, switch: Switch) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(*self._endpoint, limit=UNREAD_BYTES)
                self._writers[switch.dpid] = writer
                writer.write(switch.connected())
                try:
                    while data := await reader.read(READ_BYTES):
                        self._take(switch, data, writer)
                        await asyncio.sleep(0)
                finally:
                    switch.ready = False
                    del self._writers[switch.dpid]
                    writer.close()
            await asyncio.sleep(AGAIN_S)

    def _take(self, switch: Switch, data: bytes, writer: asyncio.StreamWriter) -> None:
        before = switch.flows.sent + switch.flows.groups_sent
        if answers := switch.feed(data):
            writer.write(answers)
        if switch.flows.sent + switch.flows.groups_sent != before:
            self.changed_s = time.monotonic()
            if self.watching:
                self.first_change_s = self.first_change_s or self.changed_s
                self._walk()

    def _passed(self, at: PortRef, frame: bytes) -> None:
        there = self._far.get(at)
        if there is not None:
            self.tell(there.dpid, self.switches[there.dpid].packet_in(there.number, frame))

    def tell(self, dpid: int, told: bytes) -> None:
        """Writes to the application, if the switch is connected."""
        if (writer := self._writers.get(dpid)) is not None:
            writer.write(told)

    def cut(self, at: PortRef) -> None:
        """Cuts the link at a port; both its switches tell."""
        for end in (at, self._far[at]):
            del self._far[end]
            switch = self.switches[end.dpid]
            switch.down.add(end.number)
            self.tell(end.dpid, switch.port_status(end.number))

    @property
    def known(self) -> bool:
        """Whether every switch is served: it has got the rule that lets a port's frames in."""
        return all(any(key[0] == CLASSIFY and key[1] == 10 for key in one.flows.entries) for one in self.switches.values())

    def unlearned(self, hosts: Iterable[SwarmHost]) -> list[SwarmHost]:
        """The hosts whose own switch has no rule yet for their frames, or none on the way to the root."""
        return [
            host
            for host in hosts
            if not self.switches[host.at.dpid].flows.knows(address(host.mac), LEARN)
            or not self.switches[1].flows.knows(address(host.mac), DELIVER)
        ]

    def announce(self, host: SwarmHost) -> None:
        """A host's gratuitous ARP, which its switch passes on."""
        mac, ip = address(host.mac), bytes(map(int, host.address.split(".")))
        arp = bytes.fromhex("0001080006040001") + mac + ip + bytes(6) + ip
        frame = BROADCAST + mac + b"\x08\x06" + arp + bytes(18)
        self.tell(host.at.dpid, self.switches[host.at.dpid].packet_in(host.at.number, frame))

    async def announce_some(self, hosts: Iterable[SwarmHost]) -> None:
        """Has those of these hosts announce themselves that their switch does not know; gives the application a second."""
        for at, host in enumerate(hosts):
            if not self.switches[host.at.dpid].flows.knows(address(host.mac), LEARN):
                self.announce(host)
            if at % ANNOUNCED_AT_ONCE == 0:
                await asyncio.sleep(0.005)
        await asyncio.sleep(1.0)

    async def quiet(self, calm_s: float, timeout_s: float) -> bool:
        """Waits until no rule has come for `calm_s`; whether that was in time."""
        until_s = time.monotonic() + timeout_s
        while time.monotonic() - self.changed_s < calm_s:
            if time.monotonic() >= until_s:
                return False
            await asyncio.sleep(0.05)
        return True

    async def echo(self) -> None:
        """Asks the application again and again whether it is there, and keeps what its answer took: how long its loop stood."""
        switch, number = self.switches[1], 0
        while True:
            number, sent_s = number + 1, time.monotonic()
            switch.echoed.clear()
            self.tell(1, message(ECHO_REQUEST, b"", number))
            while number not in switch.echoed and 1 in self._writers and time.monotonic() - sent_s < 60:
                await asyncio.sleep(0.002)
            if 1 in self._writers:
                self.echoes_s.append(time.monotonic() - sent_s)
            await asyncio.sleep(ECHO_S)

    # -- what the tables do ----------------------------------------------------------------------------------

    @property
    def flows(self) -> dict[int, Flows]:
        """The tables by datapath id."""
        return {dpid: switch.flows for dpid, switch in self.switches.items()}

    def _walk(self) -> None:
        for at, (source, target) in enumerate(self._pairs):
            for wanted in (address(target.mac), NOBODY)[: 1 if at else 2]:  # a flood takes long to follow
                if walk(self.flows, self._far, source.at, Frame(address(source.mac), wanted)).loops:
                    self.loops.append(f"{source.mac} to {wanted.hex(':')}")

    def reached(self, chosen: Iterable[tuple[SwarmHost, SwarmHost]]) -> Iterator[bool]:
        """Of each pair, whether a frame of the first leaves at the second, and nowhere else."""
        flows = self.flows
        for source, target in chosen:
            found = walk(flows, self._far, source.at, Frame(address(source.mac), address(target.mac)))
            yield not found.loops and found.left == [target.at]

    def floods(self, source: SwarmHost) -> bool:
        """Whether a frame to nobody known reaches every other host once."""
        found = walk(self.flows, self._far, source.at, Frame(address(source.mac), NOBODY))
        return not found.loops and sorted(found.left) == sorted(host.at for host in self.wiring.hosts if host != source)

    def sent(self) -> tuple[int, int]:
        """How many flow mods and group mods have come."""
        return sum(one.sent for one in self.flows.values()), sum(one.groups_sent for one in self.flows.values())

    def snapshot(self) -> Entries:
        """All entries without their cookies, and all groups, by datapath id."""
        return {
            dpid: ({key: entry.instructions for key, entry in one.entries.items()}, dict(one.groups))
            for dpid, one in self.flows.items()
        }


def needed(before: Entries, after: Entries) -> tuple[int, int]:
    """How many flow mods, and changes of groups, make one state of the other at the least."""
    flows = groups = 0
    for dpid, (entries, members) in after.items():
        old, old_members = before[dpid]
        flows += sum(old.get(key) != value for key, value in entries.items()) + len(old.keys() - entries.keys())
        groups += sum(old_members.get(number) != value for number, value in members.items())
    return flows, groups
