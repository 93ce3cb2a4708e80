"""An agent with a valid key that lies: `python liar.py phantom|outside agent OPTIONS`, with the options of `baton agent`.

`phantom` claims a large backlog to every regulated destination, never sends and never yields. `outside` never closes a gate,
and claims a backlog as well.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import agents.run
from agents.agent import Agent
from agents.queues.queues import FIRST_NODE, LAST_NODE
from agents.reflex.reflex import Reflex
from agents.reflex.slots import SlotReflex
from cli.main import main
from protocol.messages import Backlog, Message, Report, Yield

CLAIM_BYTES = 10_000_000


class Phantom(Agent):
    """Claims a large backlog, and never sends or yields. Its slots are Python's: the reflex for them does not lie."""

    def run(self, reflex: Reflex | None = None, slots: SlotReflex | None = None) -> None:
        super().run(reflex)

    def send(self, message: Message) -> None:
        if isinstance(message, Yield):
            return
        if isinstance(message, Backlog):
            here = (node for node in range(FIRST_NODE, LAST_NODE + 1) if node in self.nodes)
            entries = tuple((node, CLAIM_BYTES, 0) for node in here if self.needs_permission(node))
            message = replace(message, entries=entries)
        super().send(message)
        if isinstance(message, Report) and self.enforcing:
            self.send(Backlog(time.monotonic_ns(), 0, 1, ()))


class Outside(Phantom):
    """Claims a large backlog, and sends at any time."""

    def run(self, reflex: Reflex | None = None, slots: SlotReflex | None = None) -> None:
        self.keeper._close_gates = lambda _: None
        self.keeper.directive = lambda *_: None
        super().run(reflex)


if __name__ == "__main__":
    agents.run.Agent = {"phantom": Phantom, "outside": Outside}[sys.argv.pop(1)]
    main()
