"""The environment of the OpenFlow application: its settings, and a supervisor when `ryu-manager controller/app.py` is started
alone. An edge: processes, environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from controller.config.settings import OpenFlowSettings
from controller.openflow.tables.forwarding import ControlAttachment
from controller.processes.identity import with_owner

REPOSITORY = Path(__file__).resolve().parents[2]


class SupervisorFailed(Exception):
    """The supervisor could not start the store or the coordinator; the text says why."""


def ensure_supervisor() -> None:
    """Starts a supervisor with the store and the coordinator, unless `baton up` has done so (BATON_SUPERVISED) or BATON_REDIS
    names a store.

    The supervisor reads the file of `baton up` that BATON_CONFIG names (default: /etc/baton/baton.yaml if it is there, else it
    starts a private store and no coordinator). When this returns, BATON_REDIS, BATON_CONFIG, BATON_CONTROL_PORT and
    BATON_CONTROL_MAC have the values for the application. The supervisor and its children end with this process.

    Raises:
        SupervisorFailed: in one line, why.
    """
    if os.environ.get("BATON_SUPERVISED") or os.environ.get("BATON_REDIS"):
        return
    ready, theirs = os.pipe()
    command = [sys.executable, "-m", "controller.supervision.serve", "--siblings-of", str(os.getpid())]
    command += ["--ready-fd", str(theirs)]
    if config := os.environ.get("BATON_CONFIG"):
        command += ["--config", config]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.Popen(with_owner(command), env=environment, stdin=subprocess.DEVNULL, pass_fds=[theirs])
    os.close(theirs)
    with os.fdopen(ready) as pipe:
        word, _, rest = pipe.readline().strip().partition(" ")
    if word != "ready":
        raise SupervisorFailed(rest or "the supervisor ended without an error message; see the output above")
    for assignment in rest.split("\t"):
        name, _, value = assignment.partition("=")
        os.environ[name] = value


@dataclass(frozen=True)
class Environment:
    """What the environment says, by variable:

    * BATON_CONFIG: a file with `OpenFlowSettings` as JSON, as `baton up` writes it; without it, the defaults are `settings`.
    * BATON_REDIS: URL of the `store`, e.g. unix:///run/baton/redis.sock.
    * BATON_CONTROL_PORT: the switch port of the coordinator, SWITCH:PORT, e.g. s1:s1-eth6. BATON_CONTROL_MAC: the coordinator's
      address; without it, the application `asks_address` of the store, where the coordinator publishes it with its status.
    * BATON_CONTROLLER: the name of this `controller` among those that share the store; it commands switches while it leads,
      and, if BATON_STANDBY is not set, while no controller leads.
    * BATON_CONTROL_FIRST: where the supervisor's keeper of control frames listens (controller/openflow/local_switches.py).
    """

    settings: OpenFlowSettings
    store: str | None
    attachment: ControlAttachment | None
    asks_address: bool
    controller: str | None
    standby: bool
    control_first: str | None

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> Self:
        """Reads the variables, and the file of settings. Raises ValueError, or OSError: the file cannot be read."""
        path, place, mac = (variables.get(f"BATON_{name}") for name in ("CONFIG", "CONTROL_PORT", "CONTROL_MAC"))
        return cls(
            settings=OpenFlowSettings.from_json(Path(path).read_text(encoding="utf-8")) if path else OpenFlowSettings(),
            store=variables.get("BATON_REDIS"),
            attachment=ControlAttachment.parse(place, mac) if place else None,
            asks_address=not mac,
            controller=variables.get("BATON_CONTROLLER"),
            standby=bool(variables.get("BATON_STANDBY")),
            control_first=variables.get("BATON_CONTROL_FIRST"),
        )
