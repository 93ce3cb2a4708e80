"""Tells the coordinator the active tree of switches that run a spanning tree protocol of their own, as it
changes. An edge, but for `OpenFlowPart` and `Tracker`, which are pure.

    python -m controller.spanning_tree.watch --config OPENFLOW.json        (BATON_REDIS: URL of the store)

The supervisor starts it when `sources` names anything but openflow. The fabric is the one written down; this
process finds which of its links are blocked. Every source is read once a second by a thread of its own, so
that one that doesn't answer delays no other. It publishes {"fabric": Fabric.to_dict(), "blocked": [[a, b]],
"sources": [...], "version": n}, and an event when the blocked links changed.

What is not known counts as forwarding, and what forwards must be free of loops. So the tree is the real one
or an error, never a wrong one: the links that really forward reach every switch, and one more makes a loop.

Errors keep the last tree: of a source that can't be read its last states count; while there is a loop
nothing is published. Each is an event once, and so is its end; a loop only after LOOP_PATIENCE_NS, since
sources are not read at one instant.

With openflow among the sources, a port forwards when everybody who reports it says so. The application's
word is on the links between two of its switches: those of its document that are not blocked there forward.
Its document is read from the store and replaced by the joined one, in one transaction, with its word as
"openflow": {"switches": [name], "forwarding": [[a, b]]}, so that a restart of this process loses nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from controller.config.settings import OpenFlowSettings, TreeSource
from controller.processes.logs import log_to_stderr
from controller.spanning_tree.port_states import PortState, TreeSourceError
from controller.spanning_tree.sources import reader
from controller.spanning_tree.tracker import Document, Tracker
from controller.store.layout import PREFIX, put
from controller.store.store import Store, StoreUnavailable
from topology import files
from topology.problems import FabricError

log = logging.getLogger("baton.tree")

PERIOD_S = 1.0
SETTLE_S = 0.02
"""What comes within this time after a look is looked at together: no two watchers can flood a store."""
RETRY_S = 0.25









class FabricStore(Store):
    """A store in which one writer can build upon what another has published."""

    def replace_fabric(self, change: Callable[[Document | None], Document | None]) -> Document | None:
        """Publishes what `change` makes of the fabric document, unless it makes None; returns that.

        Nobody publishes between: `change` is called again if somebody did. Unlike other documents, this one
        is not published again by itself when the store has lost it: it might hide another's newer one.

        Raises:
            StoreUnavailable: as every operation.
        """
        key = f"{PREFIX}fabric"

        def attempt(pipe: Any) -> Document | None:  # noqa: ANN401 -- see Store.__init__
            text = pipe.hget(key, "json")
            document = change(None if text is None else json.loads(text))
            pipe.multi()
            if document is not None:
                put(pipe, "fabric", "", document)
            return document

        def replace(client: Any) -> Document | None:  # noqa: ANN401 -- as above
            document: Document | None = client.transaction(attempt, key, value_from_callable=True)
            return document

        return self._call(replace)


class Heard(NamedTuple):
    """A source was read: its states, or the problem."""

    source: TreeSource
    states: frozenset[PortState] | None
    problem: str = ""


class Watcher:
    """Reads the sources and keeps the store's fabric right."""

    def __init__(self, tracker: Tracker, store: FabricStore) -> None:
        self._tracker = tracker
        self._store = store
        self._notices: queue.SimpleQueue[Heard | None] = queue.SimpleQueue()
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
        read = reader(source)
        while True:
            began_s = time.monotonic()
            try:
                self._notices.put(Heard(source, read()))
            except TreeSourceError as error:
                self._notices.put(Heard(source, None, str(error)))
            except Exception as error:  # whatever its answer held, it may be better next time
                log.exception("tree source %s", source)
                problem = f"tree source {source}: {type(error).__name__}; see tree.log"
                self._notices.put(Heard(source, None, problem))
            time.sleep(max(0.0, began_s + PERIOD_S - time.monotonic()))

    def _listen(self) -> None:
        """Gives notice, as None, when somebody has published a fabric, or the store has come back."""
        while True:
            try:
                for _ in self._store.subscribe(("fabric",)):
                    self._notices.put(None)
            except StoreUnavailable:
                time.sleep(RETRY_S)

    def _take(self, notice: Heard | None) -> None:
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
