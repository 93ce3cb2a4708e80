"""The open coflows from their documents in the store. A document that has not changed is not read again. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from controller.coflows.coflow import Coflow, checked_flows, read

log = logging.getLogger("baton.coordinator")

STEADY_NS = 1_000_000
"""A store's clock that has moved by less against ours leaves what was read as it is."""


class _Read(NamedTuple):
    document: Mapping[str, Any]
    ahead_ns: int
    coflow: Coflow


class Reading:
    """What was read last. `called`: a host by the name of its member, whichever of its names is given."""

    def __init__(self, called: Callable[[str], str]) -> None:
        self._called = called
        self._names = 0
        self._read: dict[str, _Read] = {}
        self._complained: set[str] = set()

    def take(self, documents: Mapping[str, Mapping[str, Any]], ahead_ns: int, names: int) -> list[Coflow]:
        """The coflows of all documents that can be read; the store's clock is `ahead_ns` ahead of ours. `names` is another
        number when a host may be called otherwise than before."""
        kept, found = self._read if names == self._names else {}, []
        self._read, self._names = {}, names
        for number, document in documents.items():
            known = kept.get(number)
            if known is None or known.document != document or abs(known.ahead_ns - ahead_ns) >= STEADY_NS:
                try:
                    known = _Read(document, ahead_ns, self._as_reported(read(int(number), document, ahead_ns)))
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    if number not in self._complained:
                        log.warning("coflow %s is left out: its document is wrong: %s", number, error)
                        self._complained.add(number)
                    continue
            self._read[number] = known
            found.append(known.coflow)
        self._complained &= documents.keys()
        return found

    def _as_reported(self, one: Coflow) -> Coflow:
        """The coflow with its hosts called as their members are, which report for it."""
        flows = [(self._called(source), self._called(target), size) for source, target, size in one.flows]
        return replace(one, flows=checked_flows(flow for flow in flows if flow[0] != flow[1]))
