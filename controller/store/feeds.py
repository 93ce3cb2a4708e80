"""The part of the store for those who watch: slots as they happen, who did what, and all that a dashboard needs in one go.

An edge: Redis, by the client that `controller.store.store.Store` holds. What is where: `controller.store.layout`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import orjson

from controller.store.layout import EXPIRY_S, FLUSH_NS, PREFIX, put

T = TypeVar("T")


def slot_batches(seconds: int) -> int:
    """How many batches of slots hold so many seconds of the schedule."""
    return -(-seconds * 10**9 // FLUSH_NS)


SLOTS_KEPT = slot_batches(20)
"""Batches that are kept."""
AUDIT, AUDIT_KEPT = "audit", 10_000
DOCUMENTS = ("fabric", "ports", "status", "thresholds", "policy", "telemetry")
MEMBERS = """
local found = {}
for _, node in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local text = redis.call('HGET', ARGV[1] .. node, 'json')
  if text then found[#found + 1] = '"' .. node .. '":' .. text end
end
return '{' .. table.concat(found, ',') .. '}'
"""
"""All members' documents as one JSON object: one answer to take apart, and one text to parse, instead of hundreds."""
UNCHANGING = ("fabric", "thresholds")
"""Documents that are large and seldom new: read again only when their version is another."""


class Snapshot(NamedTuple):
    """What the store held at one moment: documents by name (None: not there), with their versions and the wall-clock time
    (ns) at which each was published, the members' documents by node, the override, and the store's own clock (ns)."""

    documents: Mapping[str, dict[str, Any] | None]
    versions: Mapping[str, int]
    at_ns: Mapping[str, int]
    members: Mapping[int, dict[str, Any]]
    override: str | None
    time_ns: int


class StoreFeeds:
    """Streams and reading in one go; `Store` inherits it, and has `_call` and `_write`."""

    def _call(self, work: Callable[[Any], T]) -> T:
        raise NotImplementedError

    def _write(self, fill: Callable[[Any], None]) -> None:
        raise NotImplementedError

    def publish_slots(self, batch: dict[str, Any]) -> None:
        """Adds a batch of what became of slots (see controller/scheduling/telemetry.py); the last 20 s are kept, void after
        60 s.
        """

        def write(pipe: Any) -> None:  # noqa: ANN401 -- see Store.__init__
            pipe.xadd(PREFIX + "slots", {"json": json.dumps(batch, separators=(",", ":"))}, maxlen=SLOTS_KEPT)
            pipe.expire(PREFIX + "slots", EXPIRY_S["slots"])

        self._write(write)

    def slots_after(self, last: str | None, count: int = SLOTS_KEPT) -> list[tuple[str, dict[str, Any]]]:
        """Batches with their ids, oldest first: those after the id `last`, or the last `count`."""

        def read(client: Any) -> list[tuple[str, dict[str, Any]]]:  # noqa: ANN401 -- see Store.__init__
            if last is None:
                found = reversed(client.xrevrange(PREFIX + "slots", count=count))
            else:
                found = client.xrange(PREFIX + "slots", min=f"({last}", count=count)
            return [(number, orjson.loads(entry["json"])) for number, entry in found]

        return self._call(read)

    def events_after(self, last: str | None, count: int = 100) -> list[dict[str, Any]]:
        """Events as `Store.events` gives them: those after the id `last`, or the last `count`."""

        def read(client: Any) -> list[tuple[str, dict[str, str]]]:  # noqa: ANN401 -- see Store.__init__
            if last is None:
                return list(reversed(client.xrevrange(PREFIX + "events", count=count)))
            return list(client.xrange(PREFIX + "events", min=f"({last}", count=count))

        return [event_of(number, entry) for number, entry in self._call(read)]

    def publish_telemetry(self, telemetry: dict[str, Any]) -> None:
        """Publishes histograms and counts of the coordinator; void after 5 s."""
        self._write(lambda pipe: put(pipe, "telemetry", "", telemetry))

    def audit(self, count: int = 100) -> list[dict[str, Any]]:
        """The last events that say who did it (their field `by`), oldest first, as `Store.events` gives them. Of these
        10,000 are kept, however many others there are."""
        entries = self._call(lambda client: client.xrevrange(PREFIX + AUDIT, count=count))
        return [event_of(number, entry) for number, entry in reversed(entries)]

    def snapshot(self, before: Snapshot | None = None) -> Snapshot:
        """All that is published, by one round trip; what is large is read, by one more, when it is not as `before`."""
        return self._call(lambda client: _snapshot(client, before))


def event_of(number: str, entry: Mapping[str, str]) -> dict[str, Any]:
    """An entry of the stream of events, with its id and wall-clock time (ms)."""
    own: dict[str, Any] = json.loads(entry["fields"])
    return own | {
        "id": number,
        "at_ms": int(number.partition("-")[0]),
        "kind": entry["kind"],
        "severity": entry["severity"],
        "text": entry["text"],
    }


def _snapshot(client: Any, before: Snapshot | None) -> Snapshot:  # noqa: ANN401 -- see Store.__init__
    with client.pipeline(transaction=False) as pipe:
        pipe.time()
        pipe.get(PREFIX + "override")
        pipe.eval(MEMBERS, 1, PREFIX + "members", PREFIX + "member:")
        for name in DOCUMENTS:
            pipe.hmget(PREFIX + name, "version", "at_ns", *(() if name in UNCHANGING else ("json",)))
        (seconds, microseconds), override, members, *heads = pipe.execute()
    versions = {name: int(head[0] or 0) for name, head in zip(DOCUMENTS, heads, strict=True)}
    at_ns = {name: int(head[1] or 0) for name, head in zip(DOCUMENTS, heads, strict=True)}
    same = {
        name
        for name in UNCHANGING
        if before is not None and (before.versions[name], before.at_ns[name]) == (versions[name], at_ns[name])
    }
    documents = {name: _loads(head[2]) for name, head in zip(DOCUMENTS, heads, strict=True) if name not in UNCHANGING}
    for name in UNCHANGING:
        if before is not None and name in same:
            documents[name] = before.documents[name]
        else:
            documents[name] = _loads(client.hget(PREFIX + name, "json"))
    return Snapshot(
        documents,
        versions,
        at_ns,
        {int(node): member for node, member in sorted(orjson.loads(members).items(), key=lambda item: int(item[0]))},
        override,
        int(seconds * 10**6 + microseconds) * 1000,
    )


def _loads(text: str | None) -> dict[str, Any] | None:
    return None if text is None else orjson.loads(text)
