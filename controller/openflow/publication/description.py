"""The document of the fabric, made beside the application's other work. An edge: a thread, the clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from controller.openflow import framework
from controller.openflow.learned import FabricLearner
from controller.openflow.publication.publisher import Publisher
from controller.openflow.view import View
from topology.problems import FabricError

REST_S = 0.05

log = logging.getLogger("baton.openflow")


class FabricDescription:
    """Has the latest view published, if the application still acts once its document is made."""

    def __init__(
        self,
        hub: Any,  # noqa: ANN401 -- of a framework that has no types
        fabrics: FabricLearner,
        publisher: Publisher,
        acts: Callable[[], bool],
    ) -> None:
        self._hub = hub
        self._fabrics = fabrics
        self._publisher = publisher
        self._acts = acts
        self._latest: View | None = None
        self._attachment = ""
        self._problem = ""
        self._wanted = hub.Event()

    def describe(self, view: View, attachment: str = "") -> None:
        """Has this view published soon, instead of any before; and what is wrong with the coordinator's attachment."""
        self._latest, self._attachment = view, attachment
        self._wanted.set()

    def impossible(self, error: FabricError) -> None:
        """Tells operators, once as long as it stays the same, that what the switches tell is no fabric."""
        if str(error) != self._problem:
            self._problem = str(error)
            log.error("what the switches tell is no fabric: %s", error)
            self._publisher.event("fabric_impossible", "error", f"what the switches tell is no fabric: {error}", {})

    def run(self, active: Callable[[], bool]) -> None:
        """Makes the documents: a green thread. A native thread computes, for that takes long where there are many hosts; it
        works a third of the time at most."""
        while active():
            self._wanted.wait()
            self._wanted.clear()
            view, self._latest = self._latest, None
            began_s = time.monotonic()
            try:
                if view is not None:
                    told = {"attachment": self._attachment} if self._attachment else {}
                    parts = framework.aside(self._fabrics.parts, view) | told
                    self._problem = ""
                    if self._acts():
                        self._publisher.fabric(parts)
            except FabricError as error:
                self.impossible(error)
            except Exception:  # the switches are served; the next change tries again
                log.exception("the fabric could not be described")
            self._hub.sleep(max(REST_S, 2 * (time.monotonic() - began_s)))  # what changes meanwhile goes together
