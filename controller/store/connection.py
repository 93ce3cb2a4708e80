"""One process's connection to the store. It reconnects by itself, and it repeats what the process published if the store has
lost its data. An edge: Redis.

Redis may go and come back at any time. An operation that cannot reach it raises StoreUnavailable; a later operation connects
again. When the store's incarnation is another one than before, its data was lost: the connection then first publishes again
what this process had published. Of operators' words it restores those alone that the store has not, for another process may
have been told newer ones since.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from redis.exceptions import AuthenticationError, ConnectionError, ReadOnlyError, RedisError

from controller.store.client import connect, explained, has_moved
from controller.store.layout import EXPIRY_S, OPERATORS, PREFIX, READS, SETS, WRITES, Client, Pipeline, put, restore
from controller.store.unreadable import Unread, Unreadable, answered, document_of, of_its_type
from controller.store.url import redacted, without_secrets
from protocol.bodies.versions import Versions

log = logging.getLogger("baton.store")

ANSWER_S = 2.0
"""How long an operation waits for an answer of Redis."""

LOOK_S, LOCAL_S = 1.0, 60.0
"""How often a subscriber looks whether its server still is the master and answers; one on this machine tells by itself."""

K = TypeVar("K", str, int)
T = TypeVar("T")


class StoreUnavailable(Exception):
    """Redis can't be used at the moment. The text names the store, what happened and the remedy."""


class Connection:
    """Reads and writes documents, and whatever a caller does with the client. Threads may share it."""

    def __init__(self, url: str, *, keep_s: int = 0, reads: Versions = READS, writes: int = WRITES) -> None:
        """Does not connect: every operation does, when it needs to. `keep_s`: see `Store`. `reads` and `writes` are schemas.

        Raises StoreUnavailable: the URL is not one of Redis.
        """
        self.url = url
        self.keep_s = keep_s
        self._reads, self._writes = reads, writes
        self._lock = threading.RLock()
        self._gathered = threading.local()
        self._incarnation: str | None = None
        self._schema_checked = False
        self._republished = False
        self.unread = Unread()
        try:
            self._redis: Client = connect(url, timeout_s=ANSWER_S, connected=self._connected)
        except ValueError as error:
            why = without_secrets(error)
            raise StoreUnavailable(f"store {redacted(url)}: {why}; write unix:///PATH or redis://HOST:PORT/DB") from None
        self._published: dict[tuple[str, str], tuple[dict[str, Any], float]] = {}
        """By document and item: the value, and when (monotonic seconds) it was last published."""

    # -- documents -----------------------------------------------------------------------------------------

    def publish(self, name: str, item: str, value: dict[str, Any]) -> None:
        """Writes a document, and remembers it in case the store loses it; an operator's word it does not (`keep`). `item` is
        empty for a name with one document only."""
        self.publish_items(name, {item: value})

    def publish_items(self, name: str, items: dict[str, dict[str, Any]]) -> None:
        """Writes several documents of one name, by item, at once."""
        if name not in OPERATORS:
            for item, value in items.items():
                self.keep(name, value, item)
        self.write(lambda pipe: put(pipe, name, items, self.keep_s))

    def forget(self, name: str, number: int) -> None:
        """Removes one of several documents of this name."""
        with self._lock:
            self._published.pop((name, str(number)), None)

        def remove(pipe: Pipeline) -> None:
            pipe.delete(f"{PREFIX}{name}:{number}")
            pipe.zrem(PREFIX + SETS[name], str(number))
            pipe.publish(f"{PREFIX}changed:{SETS[name]}", SETS[name])

        self.write(remove)

    def document(self, name: str) -> dict[str, Any] | None:
        """The document of this name; None when there is none, or it has expired. One that can't be read is told once, and left
        out."""

        def read(client: Client) -> dict[str, Any] | None:
            with of_its_type():
                return document_of(client.hget(PREFIX + name, "json"))

        return self.readable(name, lambda: self.call(read))

    def readable(self, name: str, read: Callable[[], T | None]) -> T | None:
        """What `read` returns; None if what the store has under this name can't be read, which is told once."""
        try:
            found = read()
        except Unreadable as error:
            self.unread.looked(name, {name: str(error)})
            return None
        self.unread.looked(name, {})
        return found

    def items(self, name: str) -> dict[str, dict[str, Any]]:
        """All documents of this name that have not expired, by item. One that can't be read is told once, and left out."""
        return self._keyed(name, str)

    def numbered(self, name: str) -> dict[int, dict[str, Any]]:
        """As `items`, for items that are numbers, in rising order."""
        return dict(sorted(self._keyed(name, int).items()))

    def _keyed(self, name: str, key: Callable[[str], K]) -> dict[K, dict[str, Any]]:
        found, wrong = self.call(lambda client: read_items(client, name, key))
        self.unread.looked(name, wrong)
        return found

    # -- any operation -------------------------------------------------------------------------------------

    def write(self, fill: Callable[[Pipeline], None]) -> None:
        """Lets `fill` fill one transaction and executes it; first publishes again what the store has lost.

        Inside `together` it only remembers `fill`.
        """
        if (fills := getattr(self._gathered, "fills", None)) is not None:
            fills.append(fill)
            return

        def write(client: Client) -> None:
            self._republish_if_lost(client)
            with client.pipeline(transaction=True) as pipe:
                fill(pipe)
                pipe.execute()
            self._republish_if_lost(client)  # this very transaction may have found a new connection

        self.call(write)

    def replace(self, key: str, fill: Callable[[Pipeline], None]) -> None:
        """Has `fill` read the key, call `multi` and fill one transaction, and executes it; calls it again if another process
        has written the key meanwhile. First publishes again what the store has lost."""

        def replace(client: Client) -> None:
            self._republish_if_lost(client)
            client.transaction(fill, key)
            self._republish_if_lost(client)

        self.call(replace)

    def change(self, name: str, make: Callable[[dict[str, Any] | None], dict[str, Any]], item: str = "") -> None:
        """Writes what `make` makes of a document (None: there is none that can be read), and asks it again if another process
        has written it meanwhile: of two operators' changes at one moment neither is lost. Where `make` raises, nothing
        changes."""
        made: dict[str, Any] = {}

        def fill(pipe: Pipeline) -> None:
            nonlocal made
            text = pipe.hget(key, "json")
            try:
                found = document_of(text)
            except Unreadable:
                found = None  # it is written anew
            made = make(found)
            pipe.multi()
            put(pipe, name, {item: made}, self.keep_s)

        key = f"{PREFIX}{name}:{item}" if item else PREFIX + name
        self.replace(key, fill)
        if name not in OPERATORS:
            self.keep(name, made, item)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Has all that this thread writes in the block written in one transaction at its end, which may raise as `write`.

        A coordinator's status and its hosts' documents come at once: apart, each would take a round trip.
        """
        self._gathered.fills = fills = list[Callable[[Pipeline], None]]()
        try:
            yield
        finally:
            self._gathered.fills = None

        def fill(pipe: Pipeline) -> None:
            for one in fills:
                one(pipe)

        if fills:
            self.write(fill)

    def call(self, work: Callable[[Client], T]) -> T:
        """What `work` does with the client. Calls it a second time if Redis had closed the connection since the last use."""
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

    # -- changes -------------------------------------------------------------------------------------------

    def subscribe(self, names: Sequence[str]) -> Iterator[str]:
        """The names of documents (or "members", "override", "events") as they change, without end.

        Each name comes once as soon as the subscription works: the caller must read what was published before.
        Raises StoreUnavailable when Redis goes; the caller subscribes again to go on.
        """
        channels = {f"{PREFIX}changed:{name}": name for name in names}
        patience_s = LOCAL_S if self.url.startswith("unix:") else LOOK_S
        pubsub = self._redis.pubsub()
        try:
            pubsub.subscribe(*channels)
            subscribed = 0
            while True:
                message = pubsub.get_message(timeout=patience_s)
                if message is None:
                    if has_moved(self._redis, pubsub.connection):
                        raise ConnectionError("another server is the master now")
                    continue
                if message["type"] == "subscribe":
                    subscribed += 1
                    if subscribed == len(channels):
                        yield from names
                elif message["type"] == "message":
                    yield channels[message["channel"]]
        except RedisError as error:
            raise self._unavailable(error) from None
        finally:
            pubsub.close()

    def wait(self, timeout_s: float) -> None:
        """Returns when the store answers; raises StoreUnavailable when it has not answered in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.call(lambda client: client.ping())
                return
            except StoreUnavailable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.01)

    def close(self) -> None:
        """Closes the connections to Redis."""
        self._redis.close()

    # -- a store that has lost its data --------------------------------------------------------------------

    def keep(self, name: str, value: dict[str, Any], item: str = "") -> None:
        """Remembers a document (or {"override": word}) as if this process had published it: `republish` restores it, too.

        An operator's word is for those to keep who follow its changes: who wrote it does not hear that it was taken back."""
        with self._lock:
            self._published[(name, item)] = value, time.monotonic()

    def disown(self, *names: str) -> None:
        """Forgets what this process published under these names: if the store loses it, this process does not restore it."""
        with self._lock:
            self._published = {key: value for key, value in self._published.items() if key[0] not in names}

    def republish(self) -> None:
        """Publishes again what this process published, if the store has lost its data since; else does nothing."""

        def look(client: Client) -> None:
            client.ping()  # finds out that the connection is a new one
            self._republish_if_lost(client)

        self.call(look)

    def _republish_if_lost(self, client: Client) -> None:
        with self._lock:
            if self._republished:
                return
            with client.pipeline(transaction=True) as pipe:
                pipe.hsetnx(PREFIX + "schema", "version", self._writes)
                pipe.hsetnx(PREFIX + "schema", "incarnation", uuid.uuid4().hex)
                pipe.hmget(PREFIX + "schema", "incarnation", "version")
                incarnation, schema = pipe.execute()[2]
            if int(schema) < self._writes:
                client.hset(PREFIX + "schema", "version", self._writes)
            if self._incarnation not in (None, incarnation):
                with client.pipeline(transaction=True) as pipe:
                    self._put_all(pipe)
                    pipe.execute()
                if words := sorted({name for name, _ in self._published if name in OPERATORS}):
                    what = ", ".join(words)
                    log.warning("the store has lost its data; what was missing of this is as heard here last: %s", what)
            self._incarnation = incarnation
            self._republished = True

    def _put_all(self, pipe: Pipeline) -> None:
        """Everything that this process published and that would not have expired by now."""
        now_s = time.monotonic()
        for (name, item), (value, at_s) in self._published.items():
            if name in OPERATORS:
                restore(pipe, name, value)
            elif now_s - at_s < max(self.keep_s, EXPIRY_S.get(name, math.inf)):
                put(pipe, name, {item: value}, self.keep_s)

    def _connected(self, connection: Any) -> None:  # noqa: ANN401 -- redis-py's
        """A new connection may lead to a server that has lost its data; redis-py reconnects without telling its caller."""
        connection.on_connect()
        self._schema_checked = self._republished = False

    def _check_schema(self) -> None:
        found = self._redis.hget(PREFIX + "schema", "version")
        if found is not None and not (found.isdecimal() and self._reads.speaks(int(found))):
            older = found.isdecimal() and int(found) < self._reads.lowest
            remedy = "upgrade one version at a time" if older else "upgrade Baton on this machine"
            raise StoreUnavailable(
                f"store {redacted(self.url)} holds schema {found}, this Baton reads {self._reads}: "
                f"{remedy}, or set store to another database"
            )
        self._schema_checked = True

    def _unavailable(self, error: RedisError) -> StoreUnavailable:
        return StoreUnavailable(explained(self.url, error, ANSWER_S))


def read_items(client: Client, name: str, key: Callable[[str], K]) -> tuple[dict[K, dict[str, Any]], dict[str, str]]:
    """All documents of a name that stands for several, by item, and why which keys can't be read."""
    found, wrong = dict[K, dict[str, Any]](), dict[str, str]()
    try:
        with of_its_type():
            items = sorted(client.zrange(PREFIX + SETS[name], 0, -1))
    except Unreadable as error:
        return found, {SETS[name]: str(error)}
    with client.pipeline(transaction=False) as pipe:
        for item in items:
            pipe.hget(f"{PREFIX}{name}:{item}", "json")
        texts = pipe.execute(raise_on_error=False)
    for item, text in zip(items, texts, strict=True):
        try:
            if (document := document_of(answered(text))) is not None:
                found[key(item)] = document
        except ValueError as error:
            wrong[f"{name}:{item}"] = str(error)
    return found, wrong
