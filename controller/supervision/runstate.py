"""The record that `baton up` keeps in its run directory, up.json, for `baton status` and `baton down`. An edge: files.

It is written whole and renamed into place, so that a reader never sees half of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.processes.identity import Identity, end, identify
from controller.processes.private_file import private

DEFAULT_RUN_DIR = Path("/run/baton")
STATE = "up.json"
COORDINATOR_FILE = "config.json"
OPENFLOW_FILE = "openflow.json"
FABRIC_FILE = "fabric.json"
QUEUES_FILE = "switch_queues.json"
TREE_FILE, TREE_FABRIC_FILE = "tree.json", "tree-fabric.json"
CONTROL_SOCKET = "control.sock"
STORE_DIR, KEYS_DIR, WEB_DIR, OPENFLOW_DIR = "store", "keys", "web", "openflow"
FILES = (COORDINATOR_FILE, OPENFLOW_FILE, FABRIC_FILE, QUEUES_FILE, TREE_FILE, TREE_FABRIC_FILE, CONTROL_SOCKET)
DIRECTORIES = (STORE_DIR, KEYS_DIR, WEB_DIR, OPENFLOW_DIR)
LOG = "supervisor.log"
KEEP_LOGS = "keep-logs"
"""While this file exists, a supervisor that stops keeps the logs."""
STOP_S = 15.0
CHILD_STOP_S = 3.0


class NothingUp(Exception):
    """Nothing is recorded in this run directory; the text says what to do."""


class Damaged(NothingUp):
    """The record can't be read, so something may be up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The supervisor, its children, and where the store is."""

    supervisor: Identity
    config: str
    store: str
    ready: bool = False
    made_run_dir: bool = False
    run_dir_before: tuple[int, int] | None = None
    """Mode and group of a run directory that was there before, if Baton changed them."""
    config_error: str = ""
    """Why the configuration file as it is now was not taken over; empty when it was."""
    services: dict[str, Identity | None] = dataclasses.field(default_factory=dict)
    restarts: dict[str, int] = dataclasses.field(default_factory=dict)
    logs: list[str] = dataclasses.field(default_factory=list)
    """The services that have written a log: those above, and those that were stopped meanwhile."""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    """The environment of the OpenFlow application, for one that was started by hand."""

    def alive(self) -> bool:
        """Whether the supervisor still runs."""
        return identify(self.supervisor.pid) == self.supervisor


def command(name: str, run_dir: Path) -> str:
    """How to call `baton NAME` for what is up in this run directory."""
    return f"baton {name}" if run_dir == DEFAULT_RUN_DIR else f"baton {name} --run-dir {run_dir}"


def may_be_ours(name: str) -> bool:
    """Whether a run directory may have a file of this name while nothing is up: an earlier run's log, or an agent's file."""
    return name.startswith(("agent-", "marks-")) or name.endswith((".log", ".log.1"))


def save(run_dir: Path, state: RunState) -> None:
    """Writes up.json."""
    write_whole(run_dir / STATE, json.dumps(dataclasses.asdict(state), indent=1))


def write_whole(path: Path, text: str) -> None:
    """Replaces a file in one step, or not at all. Only its owner can read it: it may hold the store's password."""
    temporary = path.with_name(f".{path.name}.new")
    with private(temporary, os.O_TRUNC) as file:
        file.write(text.encode())
    temporary.replace(path)


def load(run_dir: Path) -> RunState:
    """Reads up.json.

    Raises:
        NothingUp: there is none.
        Damaged: it is not readable as one.
    """
    path = run_dir / STATE
    try:
        fields: dict[str, Any] = json.loads(path.read_text())
        fields["supervisor"] = Identity(*fields["supervisor"])
        fields["services"] = {name: None if value is None else Identity(*value) for name, value in fields["services"].items()}
        before = fields.get("run_dir_before")
        fields["run_dir_before"] = None if before is None else tuple(before)
        return RunState(**fields)
    except FileNotFoundError:
        raise NothingUp(f"nothing is up in {run_dir}: start it with `baton up`, or name its --run-dir") from None
    except NotADirectoryError:
        raise NothingUp(f"run_dir: {run_dir} is no directory; name another") from None
    except PermissionError:
        raise NothingUp(f"{path} can't be read: run this as root") from None
    except OSError as error:
        raise NothingUp(f"run_dir: {run_dir}: {error.strerror}; name another") from None
    except (ValueError, TypeError, KeyError) as error:
        remedy = f"send the supervisor SIGTERM if it still runs, then remove {run_dir}"
        raise Damaged(f"{path} is damaged ({error}): {remedy}") from None


def take_down(run_dir: Path, *, keep_logs: bool = False) -> list[str]:
    """Stops what `baton up` started and removes its files; returns the names of the processes that it stopped.

    A supervisor that runs stops its children in order. Children of a killed supervisor are ended one by one. Only processes
    with the recorded identity get a signal.

    Raises:
        NothingUp: nothing was started here.
    """
    state = load(run_dir)
    processes = {**state.services, "supervisor": state.supervisor}
    stopped = [name for name, identity in processes.items() if identity and identify(identity.pid) == identity]
    if keep_logs:
        (run_dir / KEEP_LOGS).touch()
    end(state.supervisor, STOP_S)
    with contextlib.suppress(NothingUp):
        state = load(run_dir)  # as the supervisor left it, in case it did not finish
    for identity in state.services.values():
        if identity is not None:
            end(identity, CHILD_STOP_S)
    remove(run_dir, state, keep_logs=keep_logs)
    return stopped


def remove(run_dir: Path, state: RunState, *, keep_logs: bool) -> None:
    """Removes the files of this run, and the run directory if Baton made it and it is empty now. Of a run that never got ready
    the logs that are kept are those that say something."""
    keep_logs = keep_logs or (run_dir / KEEP_LOGS).exists()
    for name in (STATE, *FILES, KEEP_LOGS):
        (run_dir / name).unlink(missing_ok=True)
    for name in DIRECTORIES:
        if (run_dir / name).is_dir() and not (run_dir / name).is_symlink():
            shutil.rmtree(run_dir / name, ignore_errors=True)
    for name in {*state.services, *state.logs, "supervisor"}:
        for suffix in (".log", ".log.1"):
            log = run_dir / (name + suffix)
            if not keep_logs or (not state.ready and log.is_file() and not log.stat().st_size):
                log.unlink(missing_ok=True)
    if state.made_run_dir:
        with contextlib.suppress(OSError):
            run_dir.rmdir()
    else:
        give_back(run_dir, state.run_dir_before)


def give_back(run_dir: Path, before: tuple[int, int] | None) -> None:
    """Gives a run directory the mode and group that it had before; None: they are as they were."""
    if before is not None:
        with contextlib.suppress(OSError):
            os.chown(run_dir, -1, before[1])
            run_dir.chmod(before[0])
