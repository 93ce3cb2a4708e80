"""Asks the store for the leader's lease on behalf of a coordinator, in a process of its own: so a store that hangs delays no
slice, and a store bridge that reads a large fabric delays no renewal.

JSON lines over a socket pair. From the coordinator: {"ask": "look" | "acquire" | "renew", "term": n, "epoch": n, "highest":
n}. Towards it: {"term": n, "answer": [held, epoch, holder, left_ns]} or {"term": n, "away": why}, with "refused": why if the
store answered, and its replicas do not confirm what it gives out; with a lease just taken "legacy", what the last leader left,
so that its successor need not find it out again. When the coordinator ends, in whatever way, the elector gives the lease back,
so that no controller waits for its end. An edge: sockets, Redis.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import socket
import sys
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from controller.election.last_epoch import LastEpoch
from controller.election.lease import LeaseAway, LeaseStore, NotConfirmed
from controller.election.rules import ASKS_A_LEASE
from controller.processes.jsonlines import JsonLines
from controller.processes.logs import Seldom, log_to_stderr
from protocol.realtime import become_realtime

log = logging.getLogger("baton.elector")


class Elector:
    """Serves one coordinator. Whatever the store does, the coordinator gets an answer within a quarter of a lease."""

    def __init__(self, store: LeaseStore, lease_ns: int, connection: socket.socket, last: LastEpoch | None = None) -> None:
        """`last`: above it are the epochs that this controller takes; None: none is kept."""
        self._store = store
        self._last = last
        self._patience_s = lease_ns / ASKS_A_LEASE / 1e9
        self._lines = JsonLines(connection)
        self._name = uuid.uuid4().hex
        self._token = ""
        self._away = ""
        self._refusals = Seldom()

    def run(self) -> None:
        """Serves until the coordinator has ended, then gives the lease back."""
        asking = ThreadPoolExecutor(max_workers=1)
        pending: Future[dict[str, Any]] | None = None
        try:
            while (values := self._lines.read()) is not None:
                if not values:
                    continue
                value = values[-1]  # it replaces what was asked before
                answer = {"term": value["term"], "away": "it is still being asked"}
                if pending is None or pending.done():
                    pending = asking.submit(self._ask, value)
                    with contextlib.suppress(FutureTimeout):
                        answer = pending.result(self._patience_s)
                self._lines.write(answer)
        finally:
            asking.shutdown(cancel_futures=True)
            with contextlib.suppress(LeaseAway):
                self._store.release(self._token)

    def _ask(self, value: dict[str, Any]) -> dict[str, Any]:
        term = value["term"]
        token = f"{self._name}:{term}"
        try:
            if self._token not in ("", token):  # of a term that is over
                self._store.release(self._token)
                self._token = ""
            if value["ask"] == "renew":
                answer = self._store.renew(token, value["epoch"])
            elif value["ask"] == "acquire":
                self._token = token
                last = 0 if self._last is None else self._last.read()
                answer = self._store.acquire(token, max(value["highest"], last))
                if answer.held:
                    if self._last is not None:
                        self._last.note(answer.epoch)
                    return {"term": term, "answer": list(answer), "legacy": self._store.legacy()}
            else:
                answer = self._store.look()
        except NotConfirmed as error:  # the next question has an answer, and the next attempt fails alike
            if self._refusals.is_news(str(error), time.monotonic_ns()):
                log.warning("no lease: %s", error)
            return {"term": term, "away": str(error), "refused": str(error)}
        except LeaseAway as error:
            if not self._away:
                log.warning("no lease: %s", error)
            self._away = str(error)
            return {"term": term, "away": str(error)}
        if self._away:
            log.info("the store is back")
            self._away = ""
        return {"term": term, "answer": list(answer)}


def main(arguments: list[str] | None = None) -> int:
    """`python -m controller.election.elector --name NAME --lease-ns N [--priority N] [--replicas N] [--last-fd N] --fd
    N`: a coordinator starts it, with one end of a socket pair, and the URL of the store in BATON_REDIS."""
    parser = argparse.ArgumentParser(prog="elector")
    parser.add_argument("--name", required=True)
    parser.add_argument("--lease-ns", type=int, required=True)
    parser.add_argument("--priority", type=int, help="SCHED_FIFO, as the coordinator's.")
    parser.add_argument("--replicas", type=int, default=0, help="How many replicas must have an epoch before it counts.")
    parser.add_argument("--last-fd", type=int, help="The file of the last epoch, open.")
    parser.add_argument("--fd", type=int, required=True)
    options = parser.parse_args(arguments)
    log_to_stderr()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    become_realtime(options.priority)  # a leader must not wait for its renewal, which is little work
    store = LeaseStore(os.environ["BATON_REDIS"], options.name, options.lease_ns, replicas=options.replicas)
    last = None if options.last_fd is None else LastEpoch(options.last_fd)
    Elector(store, options.lease_ns, socket.socket(fileno=options.fd), last).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
