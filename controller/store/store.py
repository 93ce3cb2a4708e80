"""The store: what the controller's processes and its operators share, in Redis. An edge: Redis.

What is where: `controller.store.layout`.

Redis may go and come back at any time. An operation that finds it gone raises StoreUnavailable; a later one
simply works. When the data was lost meanwhile (another incarnation), each Store first publishes again what
it published before.
"""

from __future__ import annotations

import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from redis.exceptions import AuthenticationError, ConnectionError, ReadOnlyError, RedisError

from controller.store.client import connect, explained, has_moved
from controller.store.commands import StoreCommands
from controller.store.feeds import AUDIT, AUDIT_KEPT, StoreFeeds
from controller.store.feeds import Snapshot as Snapshot  # for who reads the store
from controller.store.layout import EXPIRY_S, PREFIX, SCHEMA, SETS, put
from controller.store.url import redacted
from controller.store_rotation import StoreRotation

EVENTS_KEPT = 1_000
SEVERITIES = ("debug", "info", "warning", "error")
OVERRIDES = ("free", "coordinate")
ANSWER_S = 2.0
"""How long an answer of Redis is waited for."""

T = TypeVar("T")


class StoreUnavailable(Exception):
    """Redis can't be used just now. The text names the store, what happened and the remedy."""


class Store(StoreFeeds, StoreCommands, StoreRotation):
    """One process's access to the store at a URL (unix://PATH, redis://HOST:PORT/DB, rediss://). Safe to
    share by threads.

    Making one does not connect: every operation does, when needed, and raises StoreUnavailable when it can't.
    """

    def __init__(self, url: str) -> None:
        """Raises StoreUnavailable: the URL is not one of Redis."""
        self.url = url
        self._lock = threading.RLock()
        self._incarnation: str | None = None
        self._schema_checked = False
        self._republished = False
        try:
            # Any: redis-py types one class for its blocking and its asyncio client, so every answer is also
            # an awaitable.
            self._redis: Any = connect(url, timeout_s=ANSWER_S, connected=self._connected)
        except ValueError as error:
            raise StoreUnavailable(f"store {redacted(url)}: {error}; write unix:///PATH or redis://HOST:PORT/DB") from None
        self._published: dict[tuple[str, str], tuple[dict[str, Any], float]] = {}
        """By document and item: the value, and when (monotonic seconds) it was last published."""

    # -- documents -----------------------------------------------------------------------------------------

    def publish_fabric(self, fabric: dict[str, Any]) -> None:
        """Publishes the fabric with its active tree."""
        self._publish("fabric", "", fabric)

    def fabric(self) -> dict[str, Any] | None:
        """The fabric last published, or None."""
        return self._document("fabric")

    def publish_ports(self, ports: dict[str, Any]) -> None:
        """Publishes the load of the switches' ports; void after 30 s."""
        self._publish("ports", "", ports)

    def ports(self) -> dict[str, Any] | None:
        """The load of the switches' ports, or None when nobody has measured it lately."""
        return self._document("ports")

    def publish_status(self, status: dict[str, Any]) -> None:
        """Publishes the coordinator's status; void after 5 s, so that it says that a coordinator lives."""
        self._publish("status", "", status)

    def status(self) -> dict[str, Any] | None:
        """The coordinator's status, or None when no coordinator has spoken lately."""
        return self._document("status")

    def publish_thresholds(self, thresholds: dict[str, Any]) -> None:
        """Publishes the thresholds in force, and the reports that they come from."""
        self._publish("thresholds", "", thresholds)

    def thresholds(self) -> dict[str, Any] | None:
        """The thresholds last in force, or None when there never were any."""
        return self._document("thresholds")

    def set_policy(self, policy: dict[str, Any]) -> None:
        """Publishes what the coordinator shall take over: field names and values of
        `CoordinatorSettings.changeable`."""
        self._publish("policy", "", policy)

    def policy(self) -> dict[str, Any] | None:
        """The policy last set, or None."""
        return self._document("policy")

    def publish_member(self, node: int, member: dict[str, Any]) -> None:
        """Publishes one host with an agent; void after 10 s."""
        self._publish("member", str(node), member)

    def forget_member(self, node: int) -> None:
        """Removes a host that left."""
        self._forget("member", node)

    def members(self) -> dict[int, dict[str, Any]]:
        """The hosts with an agent that were published lately, by node id."""
        return self._numbered("member")

    def next_coflow(self, ids: int) -> tuple[int, int]:
        """An id from 1 to `ids` for a coflow, which comes again after all the others, and the store's clock (ns)."""

        def take(client: Any) -> tuple[int, int]:  # noqa: ANN401 -- see __init__
            with client.pipeline(transaction=True) as pipe:
                pipe.set(PREFIX + "coflow_count", int(time.time()), nx=True)  # so that lost data bring back no old id
                pipe.incr(PREFIX + "coflow_count")
                pipe.time()
                _, count, (seconds, microseconds) = pipe.execute()
            return count % ids + 1, (seconds * 10**6 + microseconds) * 1000

        return self._call(take)

    def publish_coflow(self, coflow: int, document: dict[str, Any]) -> None:
        """Publishes an open coflow; void after 1 h."""
        self._publish("coflow", str(coflow), document)

    def forget_coflow(self, coflow: int) -> None:
        """Removes a coflow that was closed."""
        self._forget("coflow", coflow)

    def coflows(self) -> dict[int, dict[str, Any]]:
        """The open coflows by id."""
        return self._numbered("coflow")

    def time_ns(self) -> int:
        """The store's clock, ns since 1970: one for all hosts."""
        seconds, microseconds = self._call(lambda client: client.time())
        return int(seconds * 10**6 + microseconds) * 1000

    def version(self, name: str) -> int:
        """How often a document was published since it appeared; 0 when it isn't there."""
        return int(self._call(lambda client: client.hget(PREFIX + name, "version")) or 0)

    # -- override, epoch, events ---------------------------------------------------------------------------

    def set_override(self, override: str) -> None:
        """Opens every gate ("free"), or lets the policy decide again ("coordinate"). Raises ValueError:
        another word."""
        if override not in OVERRIDES:
            raise ValueError(f"override: {override!r} is not one of {', '.join(OVERRIDES)}")

        def write(pipe: Any) -> None:  # noqa: ANN401 -- see __init__
            pipe.set(PREFIX + "override", override)
            pipe.publish(PREFIX + "changed:override", "override")

        with self._lock:
            self._published[("override", "")] = {"override": override}, time.monotonic()
        self._write(write)

    def override(self) -> str | None:
        """The operator's override; None when none was ever set, which is to coordinate."""
        value: str | None = self._call(lambda client: client.get(PREFIX + "override"))
        return value

    def leader(self) -> dict[str, Any] | None:
        """Who holds the leader's lease: {"name", "epoch"}; None when nobody does."""
        name, epoch = self._call(lambda client: client.hmget(PREFIX + "leader", "name", "epoch"))
        return None if name is None else {"name": name, "epoch": int(epoch)}

    def publish_controller(self, name: str, controller: dict[str, Any]) -> None:
        """Publishes one controller that leads or stands by; void after 5 s."""
        self._publish("controller", name, controller)

    def controllers(self) -> dict[str, dict[str, Any]]:
        """The controllers that lead or stand by, by name."""
        return self._items("controller")

    def publish_event(self, kind: str, severity: str, text: str, **fields: Any) -> None:  # noqa: ANN401 -- any JSON
        """Adds to the last 1,000 events. Severity is one of SEVERITIES, else ValueError; fields are JSON
        values."""
        if severity not in SEVERITIES:
            raise ValueError(f"severity: {severity!r} is not one of {', '.join(SEVERITIES)}")
        entry = {"kind": kind, "severity": severity, "text": text, "fields": json.dumps(fields)}

        def write(pipe: Any) -> None:  # noqa: ANN401 -- see __init__
            pipe.xadd(PREFIX + "events", entry, maxlen=EVENTS_KEPT, approximate=False)
            if "by" in fields:
                pipe.xadd(PREFIX + AUDIT, entry, maxlen=AUDIT_KEPT)
            pipe.publish(PREFIX + "changed:events", "events")

        self._write(write)

    def events(self, count: int = 100) -> list[dict[str, Any]]:
        """The last events, oldest first: id, at_ms (wall clock), kind, severity, text and the event's own
        fields."""
        entries = self._call(lambda client: client.xrevrange(PREFIX + "events", count=count))
        return [
            json.loads(entry["fields"])
            | {"id": number, "at_ms": int(number.partition("-")[0])}
            | {name: entry[name] for name in ("kind", "severity", "text")}
            for number, entry in reversed(entries)
        ]

    # -- changes and presence ------------------------------------------------------------------------------

    def subscribe(self, names: Sequence[str]) -> Iterator[str]:
        """The names of documents (or "members", "override", "events") as they change, for ever.

        Each name comes once at the start, when the subscription stands: what came before it must be read.
        Raises StoreUnavailable when Redis goes; subscribe again to go on.
        """
        channels = {f"{PREFIX}changed:{name}": name for name in names}
        pubsub = self._redis.pubsub()
        try:
            pubsub.subscribe(*channels)
            standing = 0
            while True:
                message = pubsub.get_message(timeout=1.0)
                if message is None:
                    if has_moved(self._redis, pubsub.connection):
                        raise ConnectionError("another server is the master now")
                    continue
                if message["type"] == "subscribe":
                    standing += 1
                    if standing == len(channels):
                        yield from names
                elif message["type"] == "message":
                    yield channels[message["channel"]]
        except RedisError as error:
            raise self._unavailable(error) from None
        finally:
            pubsub.close()

    def wait(self, timeout_s: float) -> None:
        """Returns when the store answers; raises StoreUnavailable when it hasn't in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._call(lambda client: client.ping())
                return
            except StoreUnavailable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.01)

    def republish(self) -> None:
        """Publishes again what this Store published, if the store has lost its data since; else does
        nothing."""

        def look(client: Any) -> None:  # noqa: ANN401 -- see __init__
            client.ping()  # finds out that the connection is a new one
            self._republish_if_lost(client)

        self._call(look)

    def keep(self, name: str, value: dict[str, Any]) -> None:
        """Counts a document (or {"override": word}) that another published as published by this Store: `republish` puts it
        back, too."""
        with self._lock:
            self._published[(name, "")] = value, time.monotonic()

    def disown(self, *names: str) -> None:
        """Forgets what this Store published under these names: should it be lost, others put it back, or nobody."""
        with self._lock:
            self._published = {key: value for key, value in self._published.items() if key[0] not in names}

    def close(self) -> None:
        """Drops the connections."""
        self._redis.close()

    # -- the way to Redis ----------------------------------------------------------------------------------

    def _publish(self, name: str, item: str, value: dict[str, Any]) -> None:
        with self._lock:
            self._published[(name, item)] = value, time.monotonic()
        self._write(lambda pipe: put(pipe, name, item, value))

    def _forget(self, name: str, number: int) -> None:
        with self._lock:
            self._published.pop((name, str(number)), None)

        def remove(pipe: Any) -> None:  # noqa: ANN401 -- see __init__
            pipe.delete(f"{PREFIX}{name}:{number}")
            pipe.zrem(PREFIX + SETS[name], str(number))
            pipe.publish(f"{PREFIX}changed:{SETS[name]}", SETS[name])

        self._write(remove)

    def _numbered(self, name: str) -> dict[int, dict[str, Any]]:
        return dict(sorted((int(item), value) for item, value in self._items(name).items()))

    def _items(self, name: str) -> dict[str, dict[str, Any]]:
        def read(client: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401 -- see __init__
            items = sorted(client.zrange(PREFIX + SETS[name], 0, -1))
            with client.pipeline(transaction=False) as pipe:
                for item in items:
                    pipe.hget(f"{PREFIX}{name}:{item}", "json")
                texts = pipe.execute()
            return {item: json.loads(text) for item, text in zip(items, texts, strict=True) if text is not None}

        return self._call(read)

    def _document(self, name: str) -> dict[str, Any] | None:
        text = self._call(lambda client: client.hget(PREFIX + name, "json"))
        document: dict[str, Any] | None = None if text is None else json.loads(text)
        return document

    def _write(self, fill: Callable[[Any], None]) -> None:
        """Fills one transaction and executes it, after what was published before if the store has lost
        that."""

        def write(client: Any) -> None:  # noqa: ANN401 -- see __init__
            self._republish_if_lost(client)
            with client.pipeline(transaction=True) as pipe:
                fill(pipe)
                pipe.execute()
            self._republish_if_lost(client)  # this very transaction may have found a new connection

        self._call(write)

    def _republish_if_lost(self, client: Any) -> None:  # noqa: ANN401 -- see __init__
        with self._lock:
            if self._republished:
                return
            with client.pipeline(transaction=True) as pipe:
                pipe.hsetnx(PREFIX + "schema", "version", SCHEMA)
                pipe.hsetnx(PREFIX + "schema", "incarnation", uuid.uuid4().hex)
                pipe.hget(PREFIX + "schema", "incarnation")
                incarnation = pipe.execute()[2]
            if self._incarnation not in (None, incarnation):
                with client.pipeline(transaction=True) as pipe:
                    self._put_all(pipe)
                    pipe.execute()
            self._incarnation = incarnation
            self._republished = True

    def _put_all(self, pipe: Any) -> None:  # noqa: ANN401 -- see __init__
        """Everything published by this Store that would not have expired by now."""
        now_s = time.monotonic()
        for (name, item), (value, at_s) in self._published.items():
            if name == "override":
                pipe.set(PREFIX + "override", value["override"])
            elif now_s - at_s < EXPIRY_S.get(name, math.inf):
                put(pipe, name, item, value)

    def _connected(self, connection: Any) -> None:  # noqa: ANN401 -- see __init__
        """A new connection may lead to a server that has lost its data: redis-py makes one without a word."""
        connection.on_connect()
        self._schema_checked = self._republished = False

    def _call(self, work: Callable[[Any], T]) -> T:
        """Does `work` with the client; once more when the connection proved to be one that Redis had closed
        meanwhile."""
        for attempt in (1, 2):
            try:
                if not self._schema_checked:
                    self._check_schema()
                return work(self._redis)
            except (ConnectionError, ReadOnlyError) as error:
                self._schema_checked = self._republished = False
                # A server that was demoted to read-only keeps its connections: only a fresh one finds the
                # new master.
                self._redis.connection_pool.disconnect(inuse_connections=False)
                if attempt == 2 or isinstance(error, AuthenticationError):
                    raise self._unavailable(error) from None
            except RedisError as error:
                self._schema_checked = self._republished = False
                raise self._unavailable(error) from None
        raise AssertionError("not reached")

    def _check_schema(self) -> None:
        found = self._redis.hget(PREFIX + "schema", "version")
        if found not in (None, SCHEMA):
            raise StoreUnavailable(
                f"store {redacted(self.url)} holds schema {found}, this Baton speaks {SCHEMA}: "
                "run the same version everywhere, or set store to another database"
            )
        self._schema_checked = True

    def _unavailable(self, error: RedisError) -> StoreUnavailable:
        return StoreUnavailable(explained(self.url, error, ANSWER_S))
