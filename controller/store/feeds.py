"""The store for observers: the slots as they happen, the record of operators' changes, and all that a dashboard needs at once.

An edge: Redis, by a `Connection`. Which keys there are: `controller.store.layout`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from controller.processes.jsonlines import encode
from controller.store.connection import Connection, read_items
from controller.store.layout import EXPIRY_S, FLUSH_NS, PREFIX, Client, Pipeline, put
from controller.store.parted import Known, asked, document_in, read
from controller.store.unreadable import NO_VERSION, Unreadable, answered, document_of, of_its_type


def slot_batches(seconds: int) -> int:
    """How many batches hold so many seconds of the schedule, when the coordinator sends one every FLUSH_NS."""
    return -(-seconds * 10**9 // FLUSH_NS)


SLOTS_KEPT = slot_batches(20)
"""How many batches the store keeps."""
AUDIT, AUDIT_KEPT = "audit", 10_000
REFUSED, REFUSED_KEPT = "refused", 1_000
DOCUMENTS = ("status", "thresholds", "policy", "telemetry")
MEMBERS = """
local found = {}
for _, node in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], '+inf')) do
  local text = redis.call('HGET', ARGV[1] .. node, 'json')
  if text then found[#found + 1] = '"' .. node .. '":' .. text end
end
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or '0'
return {'{' .. table.concat(found, ',') .. '}', redis.call('ZCARD', KEYS[1]), last}
"""
"""The documents of the members that were published after a score of the set, as one JSON object (Redis sends one answer instead
of thousands), with the number of members and the highest score."""
WHOLE_NS = 5_000_000_000
"""How often all members are read, and not only those published since the last time: a document may expire, and a clock may be
set back."""
UNCHANGING = ("thresholds",)
"""Documents that change more seldom than they are looked for: read again only when their version has changed."""
IN_PARTS = ("fabric", "ports")
"""Of these the changes are read."""

Looks = dict[str, dict[str, str]]
"""By document that was looked at: why which keys can't be read."""


class MembersRead(NamedTuple):
    """How the members of a snapshot were read."""

    changed: frozenset[int] | None = None
    """The nodes whose document is another one than in the snapshot before; None if there was none before."""
    last_score: str = "-inf"
    """The highest score of the set of members."""
    whole_ns: int = 0
    """When all members were read the last time, by the store's clock."""


class Snapshot(NamedTuple):
    """What the store held at one moment: documents by name (None: not there), with their versions and the wall-clock time
    (ns) at which each was published, the members' documents by node, the override, and the store's own clock (ns)."""

    documents: Mapping[str, dict[str, Any] | None]
    versions: Mapping[str, int]
    at_ns: Mapping[str, int]
    members: Mapping[int, dict[str, Any]]
    override: str | None
    time_ns: int
    members_read: MembersRead = MembersRead()
    known: Mapping[str, Known | None] = MappingProxyType({})
    """The documents in parts, for reading what changes."""


class Feeds:
    """Streams of slots and events, and reading everything in one round trip. Every method raises StoreUnavailable."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def publish_slots(self, batch: dict[str, Any]) -> None:
        """Adds a batch of what became of slots (see controller/scheduling/telemetry.py). The store keeps the last 20 s, and
        drops them all 60 s after the last batch."""

        def write(pipe: Pipeline) -> None:
            pipe.xadd(PREFIX + "slots", {"json": encode(batch)}, maxlen=SLOTS_KEPT)
            pipe.expire(PREFIX + "slots", EXPIRY_S["slots"])

        self._connection.write(write)

    def slots_after(self, last: str | None, count: int = SLOTS_KEPT) -> list[tuple[str, dict[str, Any]]]:
        """Batches with their ids, oldest first: those after the id `last`, or the last `count`."""

        batches = [(number, _batch(entry)) for number, entry in self._entries("slots", last, count)]
        return [(number, batch) for number, batch in batches if batch is not None]

    def events_after(self, last: str | None, count: int = 100) -> list[dict[str, Any]]:
        """Events, oldest first: those after the id `last`, or the last `count`. Each has id, at_ms (wall clock), kind,
        severity, text and the event's own fields."""

        return [event_of(number, entry) for number, entry in self._entries("events", last, count)]

    def _entries(self, name: str, last: str | None, count: int) -> list[tuple[str, dict[str, str]]]:
        """Entries of a stream, oldest first: those after the id `last`, or the last `count`; also these if the stream has begun
        anew since `last`, by a clock that was set back. None of one that can't be read, which is told once."""

        def read(client: Client) -> list[tuple[str, dict[str, str]]]:
            with of_its_type():
                if last is not None:
                    found = list(client.xrange(PREFIX + name, min=f"({last}", count=count))
                    newest = [] if found else client.xrevrange(PREFIX + name, count=1)
                    if not newest or _place(newest[0][0]) >= _place(last):
                        return found
                return list(reversed(client.xrevrange(PREFIX + name, count=count)))

        return self._connection.readable(name, lambda: self._connection.call(read)) or []

    def publish_telemetry(self, telemetry: dict[str, Any]) -> None:
        """Publishes the coordinator's histograms and counts; they expire after 5 s."""
        self._connection.write(lambda pipe: put(pipe, "telemetry", {"": telemetry}, self._connection.keep_s))

    def audit(self, count: int = 100) -> list[dict[str, Any]]:
        """The last events that name the operator who caused them (their field `by`), oldest first, in the form of
        `events_after`. The store keeps 10,000 of these, however many other events there are."""
        return [event_of(number, entry) for number, entry in self._entries(AUDIT, None, count)]

    def refused(self, count: int = 100) -> list[dict[str, Any]]:
        """The last refused logins, oldest first, in the form of `events_after`; the store keeps 1,000."""
        return [event_of(number, entry) for number, entry in self._entries(REFUSED, None, count)]

    def snapshot(self, before: Snapshot | None = None, *, light: bool = False) -> Snapshot:
        """Everything that is published, in one round trip; one more for thresholds that differ from `before`, and for a
        document in parts of which changes were missed.

        Of the members, those are read that were published since `before`. With `light` the members and the
        ports, which are most of a large fabric's documents, stay as they were. What can't be read is told once, and left out.
        """
        looks: Looks = {}
        found = self._connection.call(lambda client: _snapshot(client, before, light and before is not None, looks))
        for name, wrong in looks.items():
            self._connection.unread.looked(name, wrong)
        return found


def event_of(number: str, entry: Mapping[str, str]) -> dict[str, Any]:
    """An entry of the stream of events as a dict, with its id and wall-clock time (ms). One that can't be read says so."""
    event = {"id": number, "at_ms": int(number.partition("-")[0])}
    try:
        own = document_of(entry["fields"]) or {}
        return own | event | {name: entry[name] for name in ("kind", "severity", "text")}
    except (KeyError, Unreadable):
        return event | {"kind": "unreadable", "severity": "warning", "text": f"the event {number} in the store can't be read"}


def _place(number: str) -> tuple[int, ...]:
    """The place of an entry's id among others of its stream."""
    return tuple(map(int, number.split("-")))


def _batch(entry: Mapping[str, str]) -> dict[str, Any] | None:
    """A batch of slots; None: it can't be read, or is none."""
    try:
        batch = document_of(entry.get("json")) or {}
    except Unreadable:
        return None
    return batch if isinstance(batch.get("now_us"), int) and _are_rows(batch.get("rows")) else None


COLUMNS = [{str}, *[{int}] * 6]
"""The types in each column of controller/scheduling/telemetry.py's rows."""


def _are_rows(rows: Any) -> bool:  # noqa: ANN401 -- whatever the store holds
    """Whether this is a list of such rows. By column: there may be thousands."""
    if not isinstance(rows, list) or not set(map(type, rows)) <= {list} or not set(map(len, rows)) <= {len(COLUMNS)}:
        return False
    return not rows or [set(map(type, column)) for column in zip(*rows, strict=True)] == COLUMNS


def _snapshot(client: Client, before: Snapshot | None, light: bool, looks: Looks) -> Snapshot:
    with client.pipeline(transaction=False) as pipe:
        pipe.time()
        pipe.get(PREFIX + "override")
        for name in DOCUMENTS:
            pipe.hmget(PREFIX + name, "version", "at_ns", *(() if name in UNCHANGING else ("json",)))
        for name in (looked := ("fabric",) if light else IN_PARTS):
            pipe.hmget(PREFIX + name, *asked(None if before is None else before.known[name]))
        if not light:
            since = "-inf" if before is None else f"({before.members_read.last_score}"
            pipe.eval_ro(MEMBERS, 1, PREFIX + "members", PREFIX + "member:", since)
        clock, word, *answers = pipe.execute(raise_on_error=False)
    seconds, microseconds = answered(clock)
    time_ns = int(seconds * 10**6 + microseconds) * 1000
    override: str | None = None
    with _looking("override", looks):
        override = answered(word)
    if before is not None and light:
        members, members_read = before.members, before.members_read._replace(changed=frozenset())
    else:
        members, members_read = _members(client, before, answers[-1], time_ns, looks)
    versions, at_ns = dict.fromkeys(DOCUMENTS, 0), dict.fromkeys(DOCUMENTS, 0)
    documents: dict[str, dict[str, Any] | None] = dict.fromkeys(DOCUMENTS)
    for name, answer in zip(DOCUMENTS, answers, strict=False):
        with _looking(name, looks):
            head = answered(answer)
            version, at = _number(head[0]), _number(head[1])
            if name not in UNCHANGING:
                documents[name] = document_of(head[2])
            elif before is not None and (before.versions[name], before.at_ns[name]) == (version, at):
                documents[name] = before.documents[name]
            else:
                documents[name] = document_of(client.hget(PREFIX + name, "json"))
            versions[name], at_ns[name] = version, at
    known = {} if before is None else dict(before.known)
    for name, answer in zip(looked, answers[len(DOCUMENTS) :], strict=False):
        was, known[name], documents[name] = known.get(name), None, None
        with _looking(name, looks):
            found = read(client, name, was, answered(answer))
            same = before is not None and found is was
            documents[name] = before.documents[name] if before is not None and same else document_in(found)
            known[name] = found
    for name in IN_PARTS:
        if name not in looked and before is not None:
            documents[name] = before.documents[name]
        one = known[name]
        versions[name], at_ns[name] = (0, 0) if one is None else one[:2]
    return Snapshot(documents, versions, at_ns, members, override, time_ns, members_read, known)


def _number(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        raise Unreadable(NO_VERSION) from None  # nobody can write it anew: Redis does not count it on


@contextlib.contextmanager
def _looking(name: str, looks: Looks) -> Iterator[None]:
    """A block that reads one document. One that can't be read ends the block, and is told in `looks`."""
    looks[name] = {}
    try:
        yield
    except ValueError as error:
        looks[name] = {name: str(error)}


def _members(
    client: Client, before: Snapshot | None, answer: Any, time_ns: int, looks: Looks  # noqa: ANN401 -- redis-py's
) -> tuple[Mapping[int, dict[str, Any]], MembersRead]:
    """All members by rising node, with the answer of the script `MEMBERS` taken in; one by one if it can't be read."""
    looks["member"] = {}
    try:
        return _members_at_once(client, before, answer, time_ns)
    except Unreadable:
        found, looks["member"] = read_items(client, "member", int)
    old = {} if before is None else before.members
    changed = frozenset(node for node, one in found.items() if old.get(node) != one) | (old.keys() - found.keys())
    members = {node: found[node] if node in changed else old[node] for node in sorted(found)}
    return members, MembersRead(None if before is None else changed, "-inf", time_ns)


def _members_at_once(
    client: Client, before: Snapshot | None, answer: Any, time_ns: int  # noqa: ANN401 -- redis-py's
) -> tuple[Mapping[int, dict[str, Any]], MembersRead]:
    """As `_members`. Raises Unreadable."""
    text, count, last_score = answered(answer)
    found = _by_node(text)
    if before is None:
        return dict(sorted(found.items())), MembersRead(None, last_score, time_ns)
    old, told_before = before.members, before.members_read
    members = {**old, **found} if found else old
    changed = frozenset(found)
    if len(members) != count or not 0 <= time_ns - told_before.whole_ns < WHOLE_NS:
        with of_its_type():
            text, _, last_score = client.eval_ro(MEMBERS, 1, PREFIX + "members", PREFIX + "member:", "-inf")
        found = _by_node(text)
        changed = frozenset(node for node, one in found.items() if old.get(node) != one) | (old.keys() - found.keys())
        members = {node: one if node in changed else old[node] for node, one in found.items()}
        told_before = told_before._replace(whole_ns=time_ns)
    if members.keys() != old.keys():
        members = dict(sorted(members.items()))
    return members, told_before._replace(changed=changed, last_score=last_score)


def _by_node(text: str) -> dict[int, dict[str, Any]]:
    found = document_of(text) or {}
    try:
        members = {int(node): member for node, member in found.items()}
    except ValueError as error:
        raise Unreadable(str(error)) from None
    if not all(isinstance(member, dict) for member in members.values()):
        raise Unreadable("a member is no JSON object")
    return members
