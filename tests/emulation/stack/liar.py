"""An agent that lies, with a valid key: `python liar.py phantom|outside agent OPTIONS`, with the options of `baton agent`.

`phantom` claims a large backlog to every regulated destination, never sends and never yields. `outside` never shuts a gate, and
claims a backlog all the same.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import agents.run
from agents.agent import Agent
from cli.main import main
from protocol.messages import Backlog, Message, Report, Yield

CLAIM_BYTES = 10_000_000


class Phantom(Agent):
    """Wants everything and uses nothing."""

    def send(self, message: Message) -> None:
        if isinstance(message, Yield):
            return
        if isinstance(message, Backlog):
            entries = tuple((node, CLAIM_BYTES, 0) for node in sorted(self.keeper.regulated))
            message = replace(message, entries=entries)
        super().send(message)
        if isinstance(message, Report) and self.keeper.regulated:
            self.send(Backlog(time.monotonic_ns(), 0, 1, ()))


class Outside(Phantom):
    """Sends whatever it has, whenever it likes."""

    def run(self) -> None:
        self.keeper._shut = lambda _: None
        self.keeper.directive = lambda *_: None
        super().run()


if __name__ == "__main__":
    agents.run.Agent = {"phantom": Phantom, "outside": Outside}[sys.argv.pop(1)]
    main()
