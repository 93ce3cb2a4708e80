"""Publishes the active tree of switches that run a spanning tree protocol of their own, as it changes. An edge: the store,
threads.

    python -m controller.spanning_tree.watch --config OPENFLOW.json        (BATON_REDIS: URL of the store)

The supervisor starts it when `sources` names anything but openflow. The fabric comes from a file; this process finds which of
its links are blocked. A thread for each source reads it once a second, so that a source that doesn't answer delays no other.
The process publishes {"fabric": Fabric.to_dict(), "blocked": [[a, b]], "sources": [...], "version": n}, and an event when the
blocked links have changed.

A port of unknown state counts as forwarding, and the forwarding links must be free of loops. So the result is the real tree or
an error, never a wrong tree: the links that really forward reach every switch, and one more makes a loop.

After an error the last tree stays: the last states of a source that can't be read still count; while there is a loop the
process publishes no tree. It publishes one event for each error and one for its end; for a loop only after LOOP_PATIENCE_NS,
since it does not read all sources at the same instant.

With openflow among the sources, a port forwards when all sources that report it say so. The OpenFlow application reports the
links between two of its switches: those of its document that are not blocked there forward. This process reads that document
from the store and replaces it by the joined one, in one transaction. The joined document keeps the application's report as
"openflow": {"switches": [name], "forwarding": [[a, b]]}, so that a restart of this process loses nothing.
"""

from __future__ import annotations

import argparse
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from controller.config.settings import OpenFlowSettings, TreeSource
from controller.processes.logs import log_to_stderr
from controller.spanning_tree.failures import Failures
from controller.spanning_tree.port_states import PortState, TreeSourceError
from controller.spanning_tree.sources import reader
from controller.spanning_tree.tracker import Document, Tracker
from controller.store.layout import PREFIX, Client, Pipeline
from controller.store.parted import Known, document_in, read
from controller.store.parts import split
from controller.store.store import Store, StoreUnavailable
from controller.store.unreadable import Unreadable
from topology import files
from topology.problems import FabricError

log = logging.getLogger("baton.tree")

PERIOD_S = 1.0
SETTLE_S = 0.02
"""Changes within this time are handled together, so that two watchers cannot flood a store."""
RETRY_S = 0.25


class FabricStore(Store):
    """A store in which one writer can build its fabric upon the one that another has published."""

    def replace_fabric(self, change: Callable[[Document | None], Document | None]) -> Document | None:
        """Publishes what `change` makes of the fabric document, unless it makes None; returns that.

        If another process publishes a fabric meanwhile, `change` is called again with that one. Unlike other documents, this
        one is not restored when the store has lost it: it might overwrite a newer one of another process.

        Raises:
            StoreUnavailable: as every operation.
        """
        key = f"{PREFIX}fabric"
        known: Known | None = None

        def attempt(pipe: Pipeline) -> Document | None:
            nonlocal known
            try:
                known = read(pipe, "fabric", known)
                stored = document_in(known)
            except Unreadable:
                known = stored = None  # it is written anew
            document = change(stored)
            if document is not None:
                self.fabric_parts.change(pipe, split("fabric", document))
            return document

        def replace(client: Client) -> Document | None:
            document: Document | None = client.transaction(attempt, key, value_from_callable=True)
            return document

        return self.connection.call(replace)


class Reading(NamedTuple):
    """One reading of a source: its states, or the problem."""

    source: TreeSource
    states: frozenset[PortState] | None
    problem: str = ""


class Watcher:
    """Reads the sources and keeps the store's fabric up to date."""

    def __init__(self, tracker: Tracker, store: FabricStore) -> None:
        self._tracker = tracker
        self._store = store
        self._notices: queue.SimpleQueue[Reading | None] = queue.SimpleQueue()
        self._due = False
        self._available = True

    def run(self) -> None:
        """Serves until the process ends."""
        for source in self._tracker.read_sources:
            threading.Thread(target=self._read, args=(source,), daemon=True).start()
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            self._take(self._notices.get())
            while not self._notices.empty():
                self._take(self._notices.get())
            self._tell(time.monotonic_ns())
            time.sleep(SETTLE_S)

    def _read(self, source: TreeSource) -> None:
        read: Callable[[], frozenset[PortState]] | None = None
        failures = Failures(f"tree source {source}", log)
        while True:
            began_s = time.monotonic()
            try:
                read = read or reader(source)
                self._notices.put(Reading(source, read()))
                failures.went_well()
            except TreeSourceError as error:
                self._notices.put(Reading(source, None, str(error)))
            except Exception as error:  # whatever the answer held, the next one may be readable
                failures.failed(error, time.monotonic_ns())
                problem = f"tree source {source}: {type(error).__name__}; see tree.log"
                self._notices.put(Reading(source, None, problem))
            time.sleep(max(0.0, began_s + PERIOD_S - time.monotonic()))

    def _listen(self) -> None:
        """Puts None into the queue when another process has published a fabric, or the store has come back."""
        while True:
            try:
                for _ in self._store.connection.subscribe(("fabric",)):
                    self._notices.put(None)
            except StoreUnavailable:
                time.sleep(RETRY_S)

    def _take(self, notice: Reading | None) -> None:
        if notice is None:
            new = True
        elif notice.states is not None:
            new = self._tracker.heard(notice.source, notice.states)
        else:
            new = self._tracker.failed(notice.source, notice.problem)
        self._due |= new

    def _tell(self, now_ns: int) -> None:
        tracker, store = self._tracker, self._store
        try:
            if self._due or tracker.looping:
                if document := store.replace_fabric(lambda stored: tracker.document(stored, now_ns)):
                    tracker.published(document)
                self._due = False
            store.settle()
            while tracker.notes:
                note = tracker.notes[0]
                store.publish_event(*note)
                log.log(logging.WARNING if note.severity == "warning" else logging.INFO, "%s", note.text)
                tracker.notes.popleft()
            self._available = True
        except StoreUnavailable as error:
            if self._available:
                log.warning("%s", error)
            self._available = False


def main(arguments: list[str] | None = None) -> int:
    """`python -m controller.spanning_tree.watch --config FILE`: FILE is `OpenFlowSettings` as JSON, as `baton up`
    writes it, with a fabric file.
    """
    parser = argparse.ArgumentParser(prog="tree_watch")
    parser.add_argument("--config", type=Path, required=True)
    options = parser.parse_args(arguments)
    log_to_stderr()
    try:
        settings = OpenFlowSettings.from_json(options.config.read_text(encoding="utf-8"))
        if settings.fabric_file is None:
            raise ValueError("fabric: is missing; sources other than openflow need its links and their ports")
        tracker = Tracker(files.load(settings.fabric_file), settings.sources)
        store = FabricStore(os.environ["BATON_REDIS"])
    except KeyError as error:
        parser.error(f"{error} is not in the environment; set it to the URL of the store")
    except (OSError, ValueError, FabricError, StoreUnavailable) as error:
        parser.error(str(error))
    Watcher(tracker, store).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
