"""The store: what the controller's processes and its operators share, in Redis. An edge: Redis.

Which keys there are: `controller.store.layout`. `Store` has the documents, the override and the events; `Store.feeds` is for
observers, `Store.commands` for operators' commands, `Store.sessions` for logins, and `Store.connection` has what all of them
are made of: subscribing, waiting, and restoring what a store has lost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from controller.store.commands import Commands
from controller.store.connection import Connection, StoreUnavailable
from controller.store.feeds import AUDIT, AUDIT_KEPT, REFUSED, REFUSED_KEPT, Feeds, Snapshot
from controller.store.layout import PREFIX, Client, Pipeline, put
from controller.store.parted import Elders, Known, Parted, document_in, read
from controller.store.parts import Parts, split
from controller.store.sessions import Sessions
from controller.store.unreadable import Unreadable, of_its_type

__all__ = ["EVENTS_KEPT", "OVERRIDES", "SEVERITIES", "Snapshot", "Store", "StoreUnavailable"]

EVENTS_KEPT = 1_000
SEVERITIES = ("debug", "info", "warning", "error")
OVERRIDES = ("free", "coordinate")


class Store:
    """One process's access to the store at a URL (unix://PATH, redis://HOST:PORT/DB, rediss://). Threads may share it.

    Making one does not connect: every operation does, when it needs to, and raises StoreUnavailable when it can't.
    """

    def __init__(self, url: str, *, keep_s: int = 0) -> None:
        """`keep_s`: how long the store keeps at least what this process publishes: for one that publishes seldom.

        Raises StoreUnavailable: the URL is not one of Redis.
        """
        self.url = url
        self.connection = Connection(url, keep_s=keep_s)
        self.feeds = Feeds(self.connection)
        self.commands = Commands(self.connection)
        self.sessions = Sessions(self.connection)
        self.elders = Elders(self.connection)
        self.fabric_parts = Parted(self.connection, "fabric", self.elders)
        self.port_parts = Parted(self.connection, "ports", self.elders)
        self._parted = {
            "fabric": self.fabric_parts, "ports": self.port_parts, "capacities": Parted(self.connection, "capacities", None)
        }  # fmt: skip

    def close(self) -> None:
        """Closes the connections to Redis."""
        self.connection.close()

    # -- documents -----------------------------------------------------------------------------------------

    def publish_fabric(self, fabric: dict[str, Any]) -> None:
        """Publishes the fabric with its active tree: what of it has changed."""
        self.publish_parts("fabric", split("fabric", fabric))

    def fabric(self) -> dict[str, Any] | None:
        """The fabric last published, or None."""
        return self._joined("fabric")

    def publish_ports(self, ports: dict[str, Any]) -> None:
        """Publishes the load of the switches' ports: what of it has changed; it expires after 30 s."""
        self.publish_parts("ports", split("ports", ports))

    def publish_parts(self, name: str, parts: Parts) -> None:
        """Publishes the document "fabric", "ports" or "capacities", which the caller has in parts."""
        self._parted[name].publish(parts)

    def ports(self) -> dict[str, Any] | None:
        """The load of the switches' ports, or None when no application has published it for 30 s."""
        return self._joined("ports")

    def parts(self, name: str, known: Known | None = None) -> Known | None:
        """The document "fabric", "ports" or "capacities" in parts: `known` itself if nothing was published since, None if
        there is none, or none that can be read."""
        return self.connection.readable(name, lambda: self.connection.call(lambda client: read(client, name, known)))

    def _joined(self, name: str) -> dict[str, Any] | None:
        return self.connection.readable(
            name, lambda: document_in(self.connection.call(lambda client: read(client, name, None)))
        )

    @property
    def owes(self) -> bool:
        """Whether `settle` has something to write, now or soon."""
        return self.fabric_parts.owes or self.port_parts.owes

    def settle(self) -> None:
        """Writes whole documents for controllers that know no parts, where they are due."""
        self.fabric_parts.settle()
        self.port_parts.settle()

    def publish_status(self, status: dict[str, Any]) -> None:
        """Publishes the coordinator's status. It expires after 5 s, so a status in the store shows that a coordinator runs."""
        self.connection.publish("status", "", status)

    def status(self) -> dict[str, Any] | None:
        """The coordinator's status, or None when no coordinator has published one for 5 s."""
        return self.connection.document("status")

    def capacities(self) -> list[dict[str, Any]]:
        """What each directed link carries, how the coordinator knows that, and what hosts without an agent take of it:
        {"source", "target", "capacity_bps", "from", "unmanaged_bps" if not 0}. Empty before any coordinator knew a fabric."""

        def links() -> list[dict[str, Any]]:
            found = document_in(self.connection.call(lambda client: read(client, "capacities", None)))
            told = [] if found is None else found.get("links")
            if not isinstance(told, list):
                raise Unreadable("it has no list of links")
            return told

        return self.connection.readable("capacities", links) or []

    def publish_thresholds(self, thresholds: dict[str, Any]) -> None:
        """Publishes the thresholds in force, and the reports that they were computed from."""
        self.connection.publish("thresholds", "", thresholds)

    def thresholds(self) -> dict[str, Any] | None:
        """The thresholds in force, or None when there never were any."""
        return self.connection.document("thresholds")

    def set_policy(self, policy: dict[str, Any]) -> None:
        """Publishes the policy for the coordinator: field names and values of `CoordinatorSettings.changeable`."""
        self.connection.publish("policy", "", policy)

    def change_policy(self, make: Callable[[dict[str, Any] | None], dict[str, Any]]) -> None:
        """Replaces the policy by what `make` makes of it, as `Connection.change`."""
        self.connection.change("policy", make)

    def policy(self) -> dict[str, Any] | None:
        """The policy last set, or None."""
        return self.connection.document("policy")

    def publish_member(self, node: int, member: dict[str, Any]) -> None:
        """Publishes one host with an agent; it expires after 10 s."""
        self.publish_members({node: member})

    def publish_members(self, members: dict[int, dict[str, Any]]) -> None:
        """As `publish_member`, for several at once."""
        self.connection.publish_items("member", {str(node): member for node, member in members.items()})

    def forget_member(self, node: int) -> None:
        """Removes a host that left."""
        self.connection.forget("member", node)

    def members(self) -> dict[int, dict[str, Any]]:
        """The hosts with an agent that were published in the last 10 s, by node id."""
        return self.connection.numbered("member")

    def next_coflow(self, ids: int) -> tuple[int, int]:
        """An id from 1 to `ids` for a coflow, given out again only after all others, and the store's clock (ns)."""

        def take(client: Client) -> tuple[int, int]:
            with client.pipeline(transaction=True) as pipe:
                pipe.set(PREFIX + "coflow_count", int(time.time()), nx=True)  # lost data bring back no old id
                pipe.incr(PREFIX + "coflow_count")
                pipe.time()
                _, count, (seconds, microseconds) = pipe.execute()
            return count % ids + 1, (seconds * 10**6 + microseconds) * 1000

        return self.connection.call(take)

    def publish_coflow(self, coflow: int, document: dict[str, Any]) -> None:
        """Publishes an open coflow; it expires after 1 h."""
        self.connection.publish("coflow", str(coflow), document)

    def change_coflow(self, coflow: int, make: Callable[[dict[str, Any] | None], dict[str, Any]]) -> None:
        """Replaces an open coflow's document by what `make` makes of it, as `Connection.change`."""
        self.connection.change("coflow", make, str(coflow))

    def forget_coflow(self, coflow: int) -> None:
        """Removes a coflow that was closed, and the verdict on its deadline."""
        with self.connection.together():
            self.connection.forget("coflow_verdict", coflow)
            self.connection.forget("coflow", coflow)

    def publish_verdict(self, coflow: int, verdict: dict[str, Any]) -> None:
        """Publishes whether the deadline of an open coflow was admitted; it expires after 1 h, and is lost with the store."""
        self.connection.write(lambda pipe: put(pipe, "coflow_verdict", {str(coflow): verdict}))

    def coflows(self) -> dict[int, dict[str, Any]]:
        """The open coflows by id; those with a deadline have the `verdict` on it once it is known."""
        found = self.connection.numbered("coflow")
        if any(document.get("deadline_ns") is not None for document in found.values()):
            for coflow, verdict in self.connection.numbered("coflow_verdict").items():
                if coflow in found:
                    found[coflow]["verdict"] = verdict
        return found

    def verdict(self, coflow: int) -> dict[str, Any] | None:
        """The verdict on a coflow's deadline; None: it is not known yet."""
        return self.connection.document(f"coflow_verdict:{coflow}")

    def time_ns(self) -> int:
        """The store's clock, ns since 1970: the same for all hosts."""
        seconds, microseconds = self.connection.call(lambda client: client.time())
        return int(seconds * 10**6 + microseconds) * 1000

    def version(self, name: str) -> int:
        """How often a document was published since it appeared; 0 when there is none."""
        return int(self.connection.call(lambda client: client.hget(PREFIX + name, "version")) or 0)

    # -- override, epoch, events ---------------------------------------------------------------------------

    def set_override(self, override: str) -> None:
        """Has the agents open every gate ("free"), or lets the policy decide again ("coordinate"). Raises ValueError: any
        other word."""
        if override not in OVERRIDES:
            raise ValueError(f"override: {override!r} is not one of {', '.join(OVERRIDES)}")

        def write(pipe: Pipeline) -> None:
            pipe.set(PREFIX + "override", override)
            pipe.publish(PREFIX + "changed:override", "override")

        self.connection.write(write)

    def override(self) -> str | None:
        """The operator's override; None, which means "coordinate", when none was ever set."""

        def read(client: Client) -> str | None:
            with of_its_type():
                value: str | None = client.get(PREFIX + "override")
            return value

        return self.connection.readable("override", lambda: self.connection.call(read))

    def leader(self) -> dict[str, Any] | None:
        """The controller that holds the leader's lease: {"name", "epoch"}; None when no controller does."""
        name, epoch = self.connection.call(lambda client: client.hmget(PREFIX + "leader", "name", "epoch"))
        return None if name is None or not (epoch or "").isdecimal() else {"name": name, "epoch": int(epoch)}

    def publish_controller(self, name: str, controller: dict[str, Any]) -> None:
        """Publishes one controller that leads or stands by; it expires after 5 s."""
        self.connection.publish("controller", name, controller)

    def controllers(self) -> dict[str, dict[str, Any]]:
        """The controllers that lead or stand by, by name."""
        return self.connection.items("controller")

    def publish_event(self, kind: str, severity: str, text: str, **fields: Any) -> None:  # noqa: ANN401 -- any JSON
        """Adds to the last 1,000 events, and to the audit if a field `by` names an operator. Fields are JSON values. Raises
        ValueError: a severity that is none of SEVERITIES."""
        if severity not in SEVERITIES:
            raise ValueError(f"severity: {severity!r} is not one of {', '.join(SEVERITIES)}")
        entry = {"kind": kind, "severity": severity, "text": text, "fields": json.dumps(fields)}

        def write(pipe: Pipeline) -> None:
            pipe.xadd(PREFIX + "events", entry, maxlen=EVENTS_KEPT, approximate=False)
            if "by" in fields:
                pipe.xadd(PREFIX + AUDIT, entry, maxlen=AUDIT_KEPT)
            pipe.publish(PREFIX + "changed:events", "events")

        self.connection.write(write)

    def publish_refusal(self, text: str, *, event: bool, **fields: Any) -> None:  # noqa: ANN401 -- any JSON
        """Adds to the last 1,000 refused logins; with `event` also to the events, which say no more than the text."""
        entry = {"kind": "login", "severity": "warning", "text": text, "fields": json.dumps(fields)}

        def write(pipe: Pipeline) -> None:
            pipe.xadd(PREFIX + REFUSED, entry, maxlen=REFUSED_KEPT)
            if event:
                pipe.xadd(PREFIX + "events", {**entry, "fields": "{}"}, maxlen=EVENTS_KEPT, approximate=False)
                pipe.publish(PREFIX + "changed:events", "events")

        self.connection.write(write)

    def events(self, count: int = 100) -> list[dict[str, Any]]:
        """The last events, oldest first, in the form of `Feeds.events_after`."""
        return self.feeds.events_after(None, count)
