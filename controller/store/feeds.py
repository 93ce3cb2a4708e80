"""The store for observers: the slots as they happen, the record of operators' changes, and all that a dashboard needs at once.

An edge: Redis, by a `Connection`. Which keys there are: `controller.store.layout`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from controller.store.connection import Connection
from controller.store.layout import EXPIRY_S, FLUSH_NS, PREFIX, Client, Pipeline, put


def slot_batches(seconds: int) -> int:
    """How many batches hold so many seconds of the schedule, when the coordinator sends one every FLUSH_NS."""
    return -(-seconds * 10**9 // FLUSH_NS)


SLOTS_KEPT = slot_batches(20)
"""How many batches the store keeps."""
AUDIT, AUDIT_KEPT = "audit", 10_000
REFUSED, REFUSED_KEPT = "refused", 1_000
DOCUMENTS = ("fabric", "ports", "status", "thresholds", "policy", "telemetry")
MEMBERS = """
local found = {}
for _, node in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local text = redis.call('HGET', ARGV[1] .. node, 'json')
  if text then found[#found + 1] = '"' .. node .. '":' .. text end
end
return '{' .. table.concat(found, ',') .. '}'
"""
"""All members' documents as one JSON object: Redis sends one answer instead of hundreds."""
UNCHANGING = ("fabric", "thresholds")
"""Large documents that seldom change: read again only when their version has changed."""


class Snapshot(NamedTuple):
    """What the store held at one moment: documents by name (None: not there), with their versions and the wall-clock time
    (ns) at which each was published, the members' documents by node, the override, and the store's own clock (ns)."""

    documents: Mapping[str, dict[str, Any] | None]
    versions: Mapping[str, int]
    at_ns: Mapping[str, int]
    members: Mapping[int, dict[str, Any]]
    override: str | None
    time_ns: int


class Feeds:
    """Streams of slots and events, and reading everything in one round trip. Every method raises StoreUnavailable."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def publish_slots(self, batch: dict[str, Any]) -> None:
        """Adds a batch of what became of slots (see controller/scheduling/telemetry.py). The store keeps the last 20 s, and
        drops them all 60 s after the last batch."""

        def write(pipe: Pipeline) -> None:
            pipe.xadd(PREFIX + "slots", {"json": json.dumps(batch, separators=(",", ":"))}, maxlen=SLOTS_KEPT)
            pipe.expire(PREFIX + "slots", EXPIRY_S["slots"])

        self._connection.write(write)

    def slots_after(self, last: str | None, count: int = SLOTS_KEPT) -> list[tuple[str, dict[str, Any]]]:
        """Batches with their ids, oldest first: those after the id `last`, or the last `count`."""

        def read(client: Client) -> list[tuple[str, dict[str, Any]]]:
            if last is None:
                found = reversed(client.xrevrange(PREFIX + "slots", count=count))
            else:
                found = client.xrange(PREFIX + "slots", min=f"({last}", count=count)
            return [(number, orjson.loads(entry["json"])) for number, entry in found]

        return self._connection.call(read)

    def events_after(self, last: str | None, count: int = 100) -> list[dict[str, Any]]:
        """Events, oldest first: those after the id `last`, or the last `count`. Each has id, at_ms (wall clock), kind,
        severity, text and the event's own fields."""

        def read(client: Client) -> list[tuple[str, dict[str, str]]]:
            if last is None:
                return list(reversed(client.xrevrange(PREFIX + "events", count=count)))
            return list(client.xrange(PREFIX + "events", min=f"({last}", count=count))

        return [event_of(number, entry) for number, entry in self._connection.call(read)]

    def publish_telemetry(self, telemetry: dict[str, Any]) -> None:
        """Publishes the coordinator's histograms and counts; they expire after 5 s."""
        self._connection.write(lambda pipe: put(pipe, "telemetry", "", telemetry, self._connection.keep_s))

    def audit(self, count: int = 100) -> list[dict[str, Any]]:
        """The last events that name the operator who caused them (their field `by`), oldest first, in the form of
        `events_after`. The store keeps 10,000 of these, however many other events there are."""
        entries = self._connection.call(lambda client: client.xrevrange(PREFIX + AUDIT, count=count))
        return [event_of(number, entry) for number, entry in reversed(entries)]

    def refused(self, count: int = 100) -> list[dict[str, Any]]:
        """The last refused logins, oldest first, in the form of `events_after`; the store keeps 1,000."""
        entries = self._connection.call(lambda client: client.xrevrange(PREFIX + REFUSED, count=count))
        return [event_of(number, entry) for number, entry in reversed(entries)]

    def snapshot(self, before: Snapshot | None = None) -> Snapshot:
        """Everything that is published, in one round trip; one more for each large document that differs from `before`."""
        return self._connection.call(lambda client: _snapshot(client, before))


def event_of(number: str, entry: Mapping[str, str]) -> dict[str, Any]:
    """An entry of the stream of events as a dict, with its id and wall-clock time (ms)."""
    own: dict[str, Any] = json.loads(entry["fields"])
    return own | {
        "id": number,
        "at_ms": int(number.partition("-")[0]),
        "kind": entry["kind"],
        "severity": entry["severity"],
        "text": entry["text"],
    }


def _snapshot(client: Client, before: Snapshot | None) -> Snapshot:
    with client.pipeline(transaction=False) as pipe:
        pipe.time()
        pipe.get(PREFIX + "override")
        pipe.eval_ro(MEMBERS, 1, PREFIX + "members", PREFIX + "member:")
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
