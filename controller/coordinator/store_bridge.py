"""Carries documents between the coordinator and the store, in a process of its own: a slow or lost store delays no slice.

The coordinator and its store bridge speak JSON lines over a socket pair. Towards the coordinator: {"parts": ...}, which tell
what has changed of the fabric and of the ports (controller/coordinator/gathering.py), {"policy": ...}, {"override": "free" |
"coordinate"}, {"rotation": ...}, {"hosts": ...}, {"pfc": {number: command}}, {"queues": {"hosts": ..., "ahead_ns": n}},
{"coflows": {"open": {id: ...}, "ahead_ns": n}}; `ahead_ns` is how far the store's clock is ahead of the monotonic one. From
the coordinator: {"status": ...}, {"links": {"rows": [...], "new": ..., "more": ...}} (controller/coordinator/told_links.py),
{"members": [[node, ...], ...]}, {"gone": node}, {"event": [kind, severity, text]}, {"slots": ...}, {"telemetry": ...},
{"thresholds": ...}, {"controller": [name, ...]}, {"hosts": ...},
{"coflow_verdict": [id, document]}. To {"leads": epoch} the bridge answers with the {"thresholds": ...} of the leader before;
{"leads": 0} says that this coordinator leads no more. An edge: sockets, Redis.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from controller.coordinator.gathering import lines
from controller.members.enrolments import Enrolments
from controller.processes.jsonlines import JsonLines
from controller.processes.logs import log_to_stderr
from controller.store.feeds import IN_PARTS
from controller.store.layout import OPERATORS
from controller.store.parted import Known
from controller.store.parts import join, row_name
from controller.store.store import Store, StoreUnavailable
from protocol.bodies.text import printable

log = logging.getLogger("baton.store_bridge")

RETRY_S = 0.25
WATCHED = ("override", "fabric", "ports", "policy", "coflows", "rotation", "pfc_commands", "queues", "hosts")
"""The override first: nothing else delays it."""
TIMED = {"coflows": "open", "queues": "hosts"}
"""Documents with instants by the store's clock, and the name under which each goes to the coordinator beside `ahead_ns`."""
LEADERS = ("status", "capacities", "member", "thresholds", "telemetry")
"""Documents that only the leader publishes, and publishes again should the store lose them."""


class StoreBridge:
    """Two threads, one for each direction: from the store on a change, to the store when the coordinator writes."""

    def __init__(self, store: Store, connection: socket.socket) -> None:
        self._store = store
        self._lines = JsonLines(connection)
        self._lock = threading.Lock()
        self._last: dict[str, str] = {}
        self._parts: dict[str, Known] = {}
        self._links: dict[str, Any] = {}
        """What each link carries, in parts: its rows come when they change, for they are as many as the fabric is large."""
        self._links_owed = False
        self._unreadable: set[str] = set()
        """The documents that could not be read when they were looked at last."""

    def run(self) -> None:
        """Serves until the coordinator is gone."""
        with contextlib.suppress(StoreUnavailable):  # the thread below tries again and again
            self._look()
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # only the start was urgent
        threading.Thread(target=self._from_store, daemon=True).start()
        while (values := self._lines.read()) is not None:
            try:
                with self._store.connection.together():
                    for value in values:
                        self._to_store(value)
            except StoreUnavailable:
                log.debug("not stored: %d documents", len(values))

    def _tell(self, value: dict[str, Any]) -> None:
        with self._lock:
            self._lines.write(value)

    def _from_store(self) -> None:
        away = False
        while True:
            try:
                self._look()
                away = False
                for name in self._store.connection.subscribe(WATCHED):
                    self._look(name)
            except StoreUnavailable as error:
                if not away:
                    log.warning("%s; coordination goes on from memory", error)
                away = True
                time.sleep(RETRY_S)
            except Exception:
                log.exception("changes in the store can't be followed; trying again")
                time.sleep(RETRY_S)

    def _look(self, changed: str | None = None) -> None:
        """Passes on the documents that differ from what was passed on last: all, or that of the channel `changed`. Raises
        StoreUnavailable."""
        for channel in WATCHED if changed is None else (changed,):
            with self._surviving(channel):
                if channel in IN_PARTS:
                    self._look_at_parts(channel)
                else:
                    self._look_at(channel)

    @contextlib.contextmanager
    def _surviving(self, name: str) -> Iterator[None]:
        """A block that reads one document. One that can't be read is told once, and keeps back no other. Raises
        StoreUnavailable."""
        try:
            yield
        except StoreUnavailable:
            raise
        except Exception as error:
            if name not in self._unreadable:
                why = printable(f"{type(error).__name__}: {error}")
                log.error("%s in the store can't be read, what it said before stays in force: write it anew (%s)", name, why)
            self._unreadable.add(name)
        else:
            self._unreadable.discard(name)

    def _look_at(self, channel: str) -> None:
        store = self._store
        readers: dict[str, Callable[[], Any]] = {
            "policy": store.policy,
            "override": store.override,
            "coflows": store.coflows,
            "rotation": store.commands.rotation,
            "pfc_commands": store.commands.pfc_commands,
            "queues": store.commands.queues,
            "hosts": store.commands.hosts,
        }
        if (value := readers[channel]()) is None:
            return
        key = "pfc" if channel == "pfc_commands" else channel
        if key in OPERATORS:  # what operators wrote: their processes are gone by the time the store has lost it
            store.connection.keep(key, {"override": value} if key == "override" else value)
        text = json.dumps(value, sort_keys=True)
        if self._last.get(key) != text:
            self._last[key] = text
            if key in TIMED:
                value = {TIMED[key]: value, "ahead_ns": store.time_ns() - time.monotonic_ns()}
            self._tell({key: value})

    def _look_at_parts(self, name: str) -> None:
        before = self._parts.get(name)
        found = self._store.parts(name, before)
        if found is None or found is before:
            return
        self._parts[name] = found
        old = {} if before is None else before.parts
        if name != "ports" and before is not None and old == found.parts:
            return
        for line in lines(name, old, found.parts):
            self._tell(line)

    def _begin(self, leads: bool) -> None:
        if not leads:
            self._store.connection.disown(*LEADERS)
            return
        self._links_owed = bool(self._links)  # the leader before has published its own
        with self._surviving("thresholds"):
            if (thresholds := self._store.thresholds()) is not None:
                self._tell({"thresholds": thresholds})

    def _take_links(self, rows: list[Any], *, new: bool, more: bool) -> None:
        """Takes some of the rows of the links, which are published when all that belong together are there."""
        if new:
            self._links = {"links": []}
        self._links.update((row_name("links", row), row) for row in rows)
        self._links_owed = not more

    def _publish_status(self, status: dict[str, Any]) -> None:
        whole = self._links and self._store.elders.there()
        self._store.publish_status(status | join(self._links) if whole else status)
        if self._links_owed:
            self._store.publish_parts("capacities", self._links)
            self._links_owed = False

    def _join_hosts(self, told: dict[str, Any]) -> None:
        """Adds the leader's enrolments to those in the store: an operator may have written others since it was told of them."""
        ours = Enrolments()
        ours.merge(told)
        self._store.commands.change_hosts(ours.joined)

    def _to_store(self, value: dict[str, Any]) -> None:
        try:
            if "links" in value:
                self._take_links(**value["links"])
            if "status" in value:
                self._publish_status(value["status"])
            if "leads" in value:
                self._begin(bool(value["leads"]))
            if "controller" in value:
                self._store.publish_controller(*value["controller"])
            if "members" in value:
                self._store.publish_members(dict(value["members"]))
            if "thresholds" in value:
                self._store.publish_thresholds(value["thresholds"])
            if "slots" in value:
                self._store.feeds.publish_slots(value["slots"])
            if "telemetry" in value:
                self._store.feeds.publish_telemetry(value["telemetry"])
            if "gone" in value:
                self._store.forget_member(value["gone"])
            if "hosts" in value:
                self._join_hosts(value["hosts"])
            if "coflow_verdict" in value:
                self._store.publish_verdict(*value["coflow_verdict"])
            if "event" in value:
                kind, severity, text = value["event"]
                self._store.publish_event(kind, severity, text)
        except StoreUnavailable:
            log.debug("not stored: %s", list(value))


def main(arguments: list[str] | None = None) -> int:
    """`python -m controller.coordinator.store_bridge --fd N`: started by the coordinator with one end of a socket pair, and
    the URL of the store in BATON_REDIS.
    """
    parser = argparse.ArgumentParser(prog="store_bridge")
    parser.add_argument("--keep-s", type=int, default=0, help="The least time that the store keeps what the coordinator told.")
    parser.add_argument("--fd", type=int, required=True)
    options = parser.parse_args(arguments)
    log_to_stderr()
    StoreBridge(Store(os.environ["BATON_REDIS"], keep_s=options.keep_s), socket.socket(fileno=options.fd)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
