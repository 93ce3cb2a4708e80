"""The real election under fire: two controllers at one Redis and one fabric, hostile frames, and hostile store documents.

Method: two controllers, one a standby, each with its lease (the store's scripts on a private Redis), its rules, and the
coordinator or candidate that listens to the fabric. Their heartbeats reach each other. Each run is one of

* a *forgery* (half of the runs): a frame without the leader's authority, of any epoch: with another key's tag, with flipped
  bits, cut, recorded from a leader of an earlier epoch; from a member in the leader's name but for the number that says so; or
  from the leader's number, of an epoch that no leader can have;
* *store*: nonsense, of any type, in a key that the election, or whoever begins to lead, reads; all data lost; then mended;
* *weather*: a controller is cut off from the store, or stopped for up to two leases.

Time is real, and a lease lasts `LEASE_NS`: there are hundreds of terms in a minute. The properties, after each run:

* a forgery deposes no leader (`accepted_forgeries`), and tells no candidate of its epoch;
* no two controllers ever lead under one epoch, and each leads under a higher one than all that it has led under or has heard
  of on the fabric (`broken`, counted as accepted, too).

An exception that leaves a controller's loop is a crash, and so is one that the loop survived.
"""

from __future__ import annotations

import random
import socket
import tempfile
import time
import traceback
from collections import Counter, deque
from pathlib import Path
from typing import Any, cast

from bench.fuzz.frames import CRASHES_KEPT, EXTREMES, FORGERS_KEY, KEY
from bench.fuzz.receivers import DiscardingBridge, FakeControlSocket, no_tuner, nowhere
from bench.fuzz.seeds import SEEDS
from controller.config.settings import CoordinatorSettings
from controller.coordinator.candidate import CachedLines, Candidate
from controller.coordinator.coordinator import Coordinator
from controller.election.elector import Elector
from controller.election.leadership import Leadership
from controller.election.lease import LeaseStore
from controller.election.rules import Election
from controller.processes.jsonlines import JsonLines
from controller.store.client import connect
from controller.store.layout import PREFIX
from controller.store.private_redis import PrivateRedis
from protocol.auth import LAST_EPOCH
from protocol.key import Key
from protocol.link import ControlSocket
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Cause, Heartbeat, Override, encode
from protocol.units import MILLISECOND_NS

TURNS_EACH = 40_000
LEASE_NS, HEARD_NS, HEARTBEAT_NS = (number * MILLISECOND_NS for number in (60, 20, 5))
AWAY = "cut off"
ODD_NUMBERS = (
    "", "-1", "0", "1.5", "1e308", "-inf", "nan", "x", str(1 << 32), str(LAST_EPOCH + 1), str(1 << 64), "0x", "\0", "9" * 400,
)  # fmt: skip
ODD_LEADERS: tuple[dict[str, str], ...] = (
    {"name": "x"}, {"token": ""}, {"token": "t", "epoch": "", "name": ""}, {"token": "t", "epoch": "-5", "name": "x"},
    {"token": "t", "epoch": "nan", "name": "\0"}, {"token": "t", "epoch": str(1 << 40), "name": "é" * 99}, {"token": "t"},
    {"token": "t", "epoch": "1e308", "name": "x"},
)  # fmt: skip
ODD_DOCUMENTS = (
    "", "null", "[]", "{", '{"contended": 5}', '{"contended": [5]}', '{"contended": null}', '{"mac": 5}', '{"mac": "zz"}', "\0",
)  # fmt: skip


class Controller:
    """One controller: it stands by, leads, and stands by again, one step at a time."""

    def __init__(self, name: str, number: int, url: str, *, standby: bool) -> None:
        settings = CoordinatorSettings(
            interface="c0", attachment=f"s1:c{number}", key_file=nowhere(), store="", name=name, standby=standby,
            lease_ns=LEASE_NS, fail_open_ns=HEARD_NS, heartbeat_ns=HEARTBEAT_NS,
        )  # fmt: skip
        self.settings = settings
        self.link = _Inbox(bytes((2, 0, 0, 0, 0xFF, number)))
        self.elector = _Elector(url, name)
        self.leadership = Leadership.begin(settings, cast(JsonLines, self.elector))
        self._bridge = cast(CachedLines, DiscardingBridge())
        self._candidate = Candidate(settings, KEY, cast(ControlSocket, self.link), self._bridge, self.leadership)
        self.coordinator: Coordinator | None = None
        self.stopped_until_ns = 0
        self._beat_ns = 0

    @property
    def election(self) -> Election:
        """The rules."""
        return self.leadership.election

    @property
    def failures(self) -> int:
        """What a leader's loop has survived in this term."""
        return 0 if self.coordinator is None else self.coordinator.guard.refused[Cause.FAILED]

    @property
    def heeds(self) -> int:
        """The epoch below which it refuses a leader's frames."""
        return self._candidate.guard.epoch

    def hear(self, raw: bytes, now_ns: int) -> None:
        """Takes a frame from the fabric, as its loop does."""
        self.link.arrived.append(raw)
        if self.coordinator is not None:
            self.coordinator.intake.frames()
        else:
            self._candidate._listen(now_ns)

    def step(self, now_ns: int) -> list[bytes]:
        """One turn of its loop; the frames that it sends to all."""
        leadership = self.leadership
        if self.elector.answers and not leadership.read(now_ns):
            raise RuntimeError("the elector's answer was taken for its end")
        leadership.turn(now_ns)
        if self.coordinator is None:
            if not leadership.leads(now_ns):
                return []
            self.coordinator = Coordinator(
                self.settings, KEY, cast(ControlSocket, self.link), self._bridge, leadership, no_tuner
            )  # fmt: skip
            self.coordinator.publication.publish(now_ns)
        if not leadership.leads(now_ns):
            leadership.end_term(self._bridge)
            self.coordinator = None
            return []
        if now_ns - self._beat_ns < HEARTBEAT_NS:
            return []
        self._beat_ns = now_ns
        self.link.sent.clear()
        self.coordinator._heartbeat(now_ns)
        return list(self.link.sent)


class _Inbox(FakeControlSocket):
    """A control socket with frames to be received."""

    def __init__(self, address: bytes) -> None:
        super().__init__(address)
        self.arrived: deque[bytes] = deque()

    def receive(self) -> bytes | None:
        return self.arrived.popleft() if self.arrived else None


class _Elector:
    """The elector in the controller's own process: it asks the store at once, and its answer is read in the next turn."""

    def __init__(self, url: str, name: str) -> None:
        self._sockets = socket.socketpair()
        self._store = LeaseStore(url, name, LEASE_NS)
        self._elector = Elector(self._store, LEASE_NS, self._sockets[0])
        self.answers: list[dict[str, Any]] = []
        self.cut_off = False

    def write(self, value: dict[str, Any]) -> bool:
        self.answers.append({"term": value["term"], "away": AWAY} if self.cut_off else self._elector._ask(value))
        return True

    def close(self) -> None:
        for end in self._sockets:
            end.close()
        self._store._client.close()

    def read(self) -> list[dict[str, Any]]:
        answers, self.answers = self.answers, []
        return answers


class World:
    """Two controllers, their store and their fabric; `broken` are the properties that did not hold."""

    def __init__(self, redis: PrivateRedis, generator: random.Random) -> None:
        self.generator = generator
        self.client: Any = connect(redis.url, timeout_s=1.0)
        self.controllers = [Controller(name, number, redis.url, standby=number > 1) for number, name in enumerate("ab", 1)]
        if generator.random() < 0.5:  # else there is a leader at once
            for one in self.controllers:
                one.elector.cut_off = True
        self.broken: list[str] = []
        self.terms: dict[int, str] = {}
        self._known = dict.fromkeys("ab", 0)  # the highest epoch that each has led under or heard of
        self._led = dict.fromkeys("ab", 0)
        self._recorded: list[tuple[int, bytes]] = []
        self._sequence = time.time_ns()
        self._mend: list[str] = []

    def close(self) -> None:
        """Closes the connections to the store."""
        self.client.close()
        for one in self.controllers:
            one.elector.close()

    def turn(self) -> None:
        """Both controllers' turns, and what they send to each other."""
        now_ns = time.monotonic_ns()
        for one in self.controllers:
            if now_ns < one.stopped_until_ns:
                continue
            frames = one.step(now_ns)
            self._look(one)
            for raw in frames:
                self._recorded = [*self._recorded[-50:], (one.leadership.epoch, raw)]
                for other in self.controllers:
                    if other is not one and now_ns >= other.stopped_until_ns:
                        other.hear(raw, now_ns)
                        self._known[other.settings.name] = max(self._known[other.settings.name], one.leadership.epoch)

    def _look(self, one: Controller) -> None:
        name, epoch = one.settings.name, one.leadership.epoch
        if not epoch or epoch == self._led[name]:
            return
        if epoch <= self._known[name]:
            self.broken.append(f"{name} leads under epoch {epoch}, and knew of {self._known[name]}")
        if self.terms.setdefault(epoch, name) != name:
            self.broken.append(f"{name} leads under epoch {epoch}, as {self.terms[epoch]} did")
        self._known[name] = self._led[name] = epoch

    # -- what is done to them ---------------------------------------------------------------------------------------------

    def forgery(self, target: Controller) -> bytes:
        """A frame that must depose no leader."""
        generator = self.generator
        self._sequence += 1
        epoch = target.election.highest_epoch + generator.choice((0, 1, 2, 1000))
        impossible = generator.choice((0xFFFFFFFF, LAST_EPOCH + 1, LAST_EPOCH, int(time.time()) + (1 << 27)))
        way = generator.randrange(6)
        if way == 0:
            return self._frame(target, FORGERS_KEY, COORDINATOR, generator.choice((epoch, impossible)))
        if way == 1:
            flipped = bytearray(self._frame(target, KEY, COORDINATOR, epoch))
            flipped[generator.randrange(14, len(flipped))] ^= 1 << generator.randrange(8)
            return bytes(flipped)
        if way == 2:
            raw = self._frame(target, KEY, COORDINATOR, epoch)
            return raw[: generator.randrange(len(raw))]
        old = [raw for epoch, raw in self._recorded if epoch <= target.election.highest_epoch]
        if way == 3 and old:
            return generator.choice(old)
        if way == 4:
            return self._frame(target, KEY, COORDINATOR, impossible)
        member = generator.choice([number for number in EXTREMES if COORDINATOR != number < 1 << 32])
        return self._frame(target, KEY, member, generator.choice((epoch, impossible)))

    def _frame(self, target: Controller, key: Key, sender: int, epoch: int) -> bytes:
        generator = self.generator
        message = generator.choice((Heartbeat(Override.COORDINATE, 1, 1), *SEEDS))
        return encode(
            message, key=key, destination=generator.choice((HEARTBEAT_MAC, target.link.address)),
            source=generator.choice([one.link.address for one in self.controllers] + [bytes((2, 0, 0, 0, 9, 9))]),
            sender=sender, epoch=min(epoch, 0xFFFFFFFF), sequence=generator.choice((self._sequence, *EXTREMES)),
        )  # fmt: skip

    def attack(self) -> str:
        """A frame without authority for one of the two; what it changed that it may not, or ""."""
        target = self.generator.choice(self.controllers)
        before, knew, heeded = target.leadership.epoch, target.election.highest_epoch, target.heeds
        raw, now_ns = self.forgery(target), time.monotonic_ns()
        target.hear(raw, now_ns)
        name = target.settings.name
        if before and not target.leadership.epoch:
            return f"{raw.hex()} deposed {name}: {target.election.why}"
        if target.election.highest_epoch > knew or target.heeds > max(heeded, knew):
            return f"{raw.hex()} told {name} of epoch {max(target.election.highest_epoch, target.heeds)}"
        return ""

    def spoil_store(self) -> None:
        """Writes nonsense where the election reads; the next call mends it."""
        generator, client = self.generator, self.client
        if self._mend:
            client.delete(*self._mend)
            self._mend = []
            return
        name = generator.choice(("", "epoch", "leader", "status", "members"))
        if not name:
            client.flushall()
            return
        key = PREFIX + name
        client.delete(key)
        if generator.random() < 0.2:
            client.rpush(key, "a", "list")
            self._mend = [key]
        elif name == "epoch":
            client.set(key, generator.choice(ODD_NUMBERS))
        elif name == "leader":
            client.hset(key, mapping=generator.choice(ODD_LEADERS))
            self._mend = [key]
        elif name == "status":
            client.hset(key, "json", generator.choice(ODD_DOCUMENTS))
        else:
            client.zadd(key, {generator.choice(("16", "x", "-1", "1e9", "")): 1})
            client.hset(f"{PREFIX}member:16", "json", generator.choice(ODD_DOCUMENTS))

    def weather(self) -> None:
        """One of the two is cut off from the store, or stops for a while, or is well again."""
        one = self.generator.choice(self.controllers)
        if self.generator.random() < 0.5:
            one.elector.cut_off = not one.elector.cut_off
        else:
            one.stopped_until_ns = time.monotonic_ns() + self.generator.randrange(2 * LEASE_NS)


def fuzz(seconds: float, seed: int) -> dict[str, Any]:
    """{"runs", "forgeries", "crashes", "accepted_forgeries", "terms", "store_spoilt", "broken", "first_crashes"}."""
    generator = random.Random(seed)
    counts: Counter[str] = Counter()
    crashes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="baton-fuzz-") as name, PrivateRedis(Path(name)) as redis:
        world, terms, broken = World(redis, generator), 0, list[str]()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            counts["runs"] += 1
            if counts["runs"] % TURNS_EACH == 0:  # as after a restart of all
                terms, broken = terms + len(world.terms), [*broken, *world.broken]
                world.close()
                world = World(redis, generator)
            way = generator.random()
            before = sum(one.failures for one in world.controllers)
            try:
                world.turn()
                if way < 0.95:
                    counts["forgeries"] += 1
                    if found := world.attack():
                        world.broken.append(found)
                elif way < 0.985:
                    counts["store_spoilt"] += 1
                    world.spoil_store()
                else:
                    world.weather()
                failed = "survived by the loop" if sum(one.failures for one in world.controllers) > before else ""
            except Exception:  # any exception is a finding
                failed = traceback.format_exc()
            if failed:
                counts["crashes"] += 1
                crashes += [f"seed {seed}, run {counts['runs']}: {failed}"][: CRASHES_KEPT - len(crashes)]
    return {
        **{name: counts[name] for name in ("runs", "forgeries", "crashes", "store_spoilt")},
        "accepted_forgeries": len(broken) + len(world.broken),
        "terms": terms + len(world.terms),
        "broken": [*broken, *world.broken][:CRASHES_KEPT],
        "first_crashes": crashes,
    }
