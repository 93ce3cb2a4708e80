"""The environment of the OpenFlow application: its settings, and a supervisor when `ryu-manager controller/app.py` is started
alone. An edge: processes, environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from controller.config.settings import OpenFlowSettings
from controller.openflow.forwarding import ControlAttachment
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


def settings_from(environment: Mapping[str, str]) -> OpenFlowSettings:
    """The settings in the file that BATON_CONFIG names, or the defaults."""
    path = environment.get("BATON_CONFIG")
    return OpenFlowSettings.from_json(Path(path).read_text(encoding="utf-8")) if path else OpenFlowSettings()


def attachment_from(environment: Mapping[str, str]) -> ControlAttachment | None:
    """The coordinator's switch port and address, if BATON_CONTROL_PORT gives the port."""
    place = environment.get("BATON_CONTROL_PORT")
    return ControlAttachment.parse(place, environment.get("BATON_CONTROL_MAC")) if place else None
