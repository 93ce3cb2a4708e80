"""What the supervisor says of itself in up.json, for `baton status` and `baton down`. An edge: the file."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from controller.processes.services import Services
from controller.supervision import runstate
from controller.supervision.runstate import RunState

log = logging.getLogger("baton.supervisor")


class SavedState:
    """The state of one run, and its file. A save that fails is tried again: nothing ends by that."""

    def __init__(self, run_dir: Path, state: RunState, services: Services) -> None:
        """Writes the file. Raises OSError."""
        self._run_dir, self._services = run_dir, services
        self.state = state
        self.unsaved = False
        """Whether the last save failed."""
        self._write()

    def update(self, **changes: object) -> None:
        """Takes other values of fields of `RunState`, and saves."""
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]  # replace itself checks the names
        self.save()

    def save(self) -> None:
        """Saves what runs now; if that fails, one line in the log says so, and `unsaved` until it works."""
        try:
            self._write()
        except OSError as error:
            if not self.unsaved:
                why = f"{self._run_dir / runstate.STATE} can't be saved: {error.strerror}"
                log.error("%s; free the place: until then `baton status` and `baton down` know an older state", why)
            self.unsaved = True
        else:
            self.unsaved = False

    def remove(self, *, keep_logs: bool) -> None:
        """Removes the files of this run."""
        runstate.remove(self._run_dir, self.state, keep_logs=keep_logs)

    def _write(self) -> None:
        self.state = replace(
            self.state,
            services={service.name: service.identity for service in self._services},
            restarts={service.name: service.restarts for service in self._services},
            logs=sorted({*self.state.logs, *(service.name for service in self._services)}),
        )
        runstate.save(self._run_dir, self.state)
