"""Which keys the store has, and how a document is written. An edge: Redis, by the pipeline that the caller gives.

Schema 1. Every key begins with `baton:`. A *document* is a hash {json, version, at_ns}: its value, how often it was published
since it appeared, and the wall-clock time (ns) of the last publication. Each line below says who writes the key, and after how
long it expires. A coordinator whose hosts report seldom publishes as seldom; what it publishes expires after four reports then.

* baton:schema: hash {version: "1", incarnation}; never expires. `version` is the newest schema in which a process has written.
  A store that has lost its data gets another incarnation.
* baton:fabric: document in parts by the application; never expires: {"fabric": Fabric.to_dict(), "blocked": [[a, b]], ...}; see
  controller/openflow/learned.py. How it lies in parts: controller/store/parted.py.
* baton:ports: document in parts by the application; 30 s: load and counters of switch ports.
* baton:status: document by the coordinator; 5 s: epoch, policy, counts of slots and refusals; also the "links" of
  `capacities` while a controller is there that does not know that document.
* baton:capacities: document in parts by the coordinator; never expires: {"links": [{"source", "target", "capacity_bps", "from",
  "unmanaged_bps"}]}: what each carries, how that is known, what hosts without an agent take.
* baton:member:NODE: document by the coordinator; 10 s: one host with an agent.
* baton:members: sorted set by the coordinator: node ids, scored by when (s) they were last published.
* baton:coflow:ID: document by the program that opened it; 1 h, or until it is closed: see
  controller/coflows/coflow.py.
* baton:coflow_verdict:ID: document by the coordinator; 1 h, or until the coflow is closed: {"deadline": "admitted", "refused"
  or "unchecked", "why"}, of a coflow with a deadline. A refused one may become an admitted one.
* baton:coflow_verdicts: sorted set: ids of these coflows, scored by when (s) the verdicts were published.
* baton:coflows: sorted set: ids of open coflows, scored by when (s) they were published.
* baton:coflow_count: string: a counter for ids; it starts at the time (s) of the first coflow; never expires.
* baton:thresholds: document by the coordinator, each period; never expires: {"version", "bands", "period_ns", "thresholds":
  {"beta", "alpha"} in bytes or null, "sizes": {type: [[bytes from, flows, bytes]]}, "flows", "loads", "gain", ...}: see
  controller/priorities/tuning.py.
* baton:pfc_command:NUMBER: document by `baton pfc`; 10 s: {"host", "classes": bit n for class n, "duration_ns": 0 resumes}.
* baton:pfc_commands: sorted set: numbers of these commands, scored by when (s) they were given.
* baton:slots: stream by the coordinator, in batches of 24 ms, the last 834; 60 s: {json: {"now_us", "rows"}}: see
  controller/scheduling/telemetry.py.
* baton:telemetry: document by the coordinator, twice a second; 5 s: histograms of directive latency and waiting time, bytes
  sent with and without permission.
* baton:audit: stream: the last 10,000 events that say who changed something (field `by`); never expires.
* baton:refused: stream by the web server: the last 1,000 refused logins, a few a minute and sums of the others; never expires.
* baton:session:ID: string by the web server: the user who is logged in; 12 h, or until the logout.
* baton:rotation: document by the operator; never expires: {"step", "old", "new"}: see controller/members/key_rotation.py.
* baton:hosts: document by `baton host`; never expires: {enrolment: {"name", "enrolled", "macs", "revoked"}}; see
  controller/members/enrolments.py.
* baton:queues: document by `baton queue`; never expires: {host: {queue: [condition]}}; see
  controller/members/queue_conditions.py.
* baton:policy: document by supervisor or operator; never expires: `CoordinatorSettings.changeable()`.
* baton:override: string by the operator, "free" or "coordinate"; never expires.
* baton:leader: hash {name, token, epoch} by the leader's elector; the length of its lease: see controller/election/lease.py.
* baton:epoch: string by the elector that takes the lease: the last leader epoch given out; never expires.
* baton:controller:NAME: document by each controller; 5 s: {"attachment", "mac", "pid", "leads", "epoch", "wire", "schemas"}:
  the last two are the lowest and the highest version of each that it speaks and reads.
* baton:controllers: sorted set: names of controllers, scored by when (s) they were last published.
* baton:events: stream by all processes, the last 1,000: {kind, severity, text, fields (JSON)}.

A process that changes a document or the override NAME also publishes a message on the channel `baton:changed:NAME` (for any
member: "members"; for any coflow: "coflows"). Subscribers then read the keys: a lost message delays them, no more.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

import orjson

from controller.processes.jsonlines import encode
from controller.store.parts import LONG
from protocol.bodies.versions import Versions

Client = Any
Pipeline = Any
"""redis-py's. It types one class for its blocking and its asyncio client, so that every answer is also an awaitable: useless
to a type checker."""

WRITES = 1
"""The schema in which this Baton writes."""
READS = Versions(1, 2)
"""The schemas that it reads; in schema 2 nobody writes the fabric, the ports and the status' links whole. Processes of two
versions share a store while a fabric is upgraded, so one Baton reads a new schema first, and only the next one writes it:
CONTRIBUTING.md."""
PREFIX = "baton:"
EXPIRY_S = {
    "ports": 30, "status": 5, "member": 10, "coflow": 3_600, "coflow_verdict": 3_600, "controller": 5, "slots": 60,
    "telemetry": 5, "pfc_command": 10,
}  # fmt: skip
FLUSH_NS = 24_000_000
"""How often the coordinator publishes a batch of slots; with it, `controller.store.feeds.SLOTS_KEPT` batches are 20 s."""
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100
"""Of weights in the policy's document. Policies divide weights by the least one: beside a tiny one, no other turn would end."""
OPERATORS = ("policy", "override", "rotation", "queues", "hosts")
"""What operators wrote: the store bridges, which follow it, restore it when the store has lost it. None knows whether its own
is the newest."""
SETS = {
    "member": "members", "coflow": "coflows", "coflow_verdict": "coflow_verdicts", "controller": "controllers",
    "pfc_command": "pfc_commands",
}  # fmt: skip
"""Names that stand for several documents, by number: the sorted set of the numbers, which also names the channel."""


def put(pipe: Pipeline, name: str, items: dict[str, dict[str, Any]], keep_s: int = 0) -> None:
    """Writes documents of one name, by item, into a transaction: value, version, time, expiry (not before `keep_s`), index and
    notification. An item is empty for a name with one document only; of a document in parts the value is all parts."""
    now_ns = time.time_ns()
    if name in LONG:
        for value in items.values():
            pipe.delete(PREFIX + name)
            fields = {f"={part}": orjson.dumps(its) for part, its in value.items()}
            put_fields(pipe, name, fields | {"version": 1, "at_ns": now_ns, "line": new_line(), "parts": 1})
        return
    for item, value in items.items():
        key = f"{PREFIX}{name}:{item}" if item else PREFIX + name
        pipe.hset(key, mapping={"json": encode(value), "at_ns": now_ns})
        pipe.hincrby(key, "version", 1)
        if name in EXPIRY_S:
            pipe.expire(key, max(keep_s, EXPIRY_S[name]))
    channel = SETS.get(name, name)
    if name in SETS:
        now_s = now_ns / 1e9
        pipe.zadd(PREFIX + channel, dict.fromkeys(items, now_s))
        pipe.zremrangebyscore(PREFIX + channel, "-inf", now_s - max(keep_s, EXPIRY_S[name]))
    pipe.publish(f"{PREFIX}changed:{channel}", channel)


def restore(pipe: Pipeline, name: str, value: dict[str, Any]) -> None:
    """Writes a document of `OPERATORS` into a transaction, as `put`, unless the store has one already."""
    if name == "override":
        pipe.setnx(PREFIX + name, value["override"])
    else:
        for field, its in (("json", encode(value)), ("at_ns", time.time_ns()), ("version", 1)):
            pipe.hsetnx(PREFIX + name, field, its)
    pipe.publish(f"{PREFIX}changed:{name}", name)


def put_fields(pipe: Pipeline, name: str, fields: dict[str, Any]) -> None:
    """Writes fields of a document in parts into a transaction, with expiry and notification."""
    pipe.hset(PREFIX + name, mapping=fields)
    if name in EXPIRY_S:
        pipe.expire(PREFIX + name, EXPIRY_S[name])
    pipe.publish(f"{PREFIX}changed:{name}", name)


def new_line() -> str:
    """A name for a writer's series of changes (controller/store/parted.py)."""
    return uuid.uuid4().hex[:16]
