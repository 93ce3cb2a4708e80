"""Starts the controller side, keeps it running, and takes a changed configuration into use. An edge: processes, files.

One process supervises Redis (if private), the OpenFlow application, the watcher of trees that others make (each if `sources`
asks for it), the keeper of this machine's switch ports (if `switch_queues` names any), the coordinator and the dashboard.
It does nothing for a slice or a packet: it waits for a child's end, a signal, or a changed file. A child that is killed is back
within milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from controller.config.file import ConfigFile, differences, reads_tree, uses_openflow
from controller.config.reading import ConfigError
from controller.config.schema import Config
from controller.config.settings import CoordinatorSettings, OpenFlowSettings
from controller.election.controllers import Controllers, name_of
from controller.processes.identity import STARTING_PRIORITY, at_priority
from controller.processes.logs import LOG_FORMAT
from controller.processes.services import Service, ServiceFailed, Services
from controller.store import private_redis
from controller.store.store import EVENTS_KEPT, Store, StoreUnavailable
from controller.supervision import children, preflight, runstate
from controller.supervision.preflight import CannotStart
from controller.supervision.runstate import RunState

log = logging.getLogger("baton.supervisor")

LOOK_S = 0.25
"""How often the configuration file is looked at."""
START_S = 20.0
REPOSITORY = Path(__file__).resolve().parents[2]

REDIS, OPENFLOW, TREE, COORDINATOR, QUEUES = "redis", "openflow", "tree", "coordinator", "queues"


class Supervisor:
    """The controller side of one run directory: `start` brings it up, `run` keeps it up, `close` ends it."""

    def __init__(
        self, path: Path | None, *, framework: str | None = None, owner: int = 0, standby: bool = False
    ) -> None:
        """Reads the configuration (None: all defaults). Raises ConfigError, CannotStart.

        `framework` is taken instead of the file's. `owner` is the OpenFlow application when it was started
        by hand: none is started then, and everything ends with it. `standby`: the first lease is left to another controller.
        """
        self.path = path
        self._file = ConfigFile(path, framework)
        self.config = config = self._file.load()
        if standby and (config.store is None or config.coordinator is None):
            raise CannotStart("store: a standby shares the leader's; set store to its URL, and a coordinator section beside it")
        self.run_dir = config.run_dir
        self.store_url = config.store or private_redis.url(config.run_dir)
        self.store = Store(self.store_url)
        self.controllers = Controllers(self.store, name_of(config.run_dir), standby=standby)
        self._owner = owner
        self._services = Services()
        self._untold: deque[tuple[str, str, str]] = deque(maxlen=EVENTS_KEPT)
        self._stopping = self._reload_asked = False
        self._state: RunState | None = None
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)

    # -- up and down ---------------------------------------------------------------------------------------

    def start(self, *, log_to_file: bool = False) -> None:
        """Returns when everything works. The log may go to a file in the run directory, too.

        Raises:
            CannotStart: something is missing, or a process ended at once; nothing is left running.
        """
        made = preflight.claim_run_dir(self.run_dir)
        if log_to_file:
            handler = logging.FileHandler(self.run_dir / "supervisor.log")
            handler.setFormatter(logging.Formatter(LOG_FORMAT))
            logging.getLogger().addHandler(handler)
        self._state = RunState(
            supervisor=preflight.own_identity(),
            config=str(self.path or ""),
            store=self.store_url,
            made_run_dir=made,
        )
        self._save()
        try:
            self._bring_up()
        except BaseException:
            self.close(keep_logs=True)
            raise

    def _bring_up(self) -> None:
        config = self.config
        self._check_sources(config)
        preflight.check_listen(config, self._runs_openflow(config))
        control_mac = preflight.check_coordinator(config)
        if config.store is None:
            try:
                self._run(REDIS, private_redis.configure(self.run_dir), {})
            except private_redis.RedisMissing as error:
                raise CannotStart(f"store: {error}") from None
        self._wait(self._store_answers, f"the store at {self.store_url} does not answer")
        self._write_settings()
        environment = self._environment(control_mac)
        self._update(environment=environment)
        if config.switch_queues is not None:
            self._run_queue_keeper(environment)
        self._follow_leader()
        if self._runs_openflow(config):
            self._run_openflow(environment)
            address, port = config.openflow.listen
            self._wait(lambda: preflight.listening(port), f"nothing listens on {address}:{port} for switches")
        if config.coordinator is not None:
            self._run_coordinator(config.coordinator.netns)
            self._wait(self._coordinator_reports, "the coordinator does not report to the store")
        else:
            log.warning("no coordinator section in the configuration: forwarding only, nobody is coordinated")
        self._run_web()
        self._update(ready=True)
        self._tell("up", "info", "the controller side is up")

    def run(self) -> None:
        """Keeps everything running until `stop` is called."""
        while not self._stopping:
            ended, changed = self._services.turn(LOOK_S, self._woken)
            self._drain()
            if changed:
                self._save()
            for service in ended:
                self._tell("restart", "error", f"{service.name} {service.last_exit}; it is started again")
            self._tell_store()
            self._follow_leader()
            if self._reload_asked or self._file.changed():
                self._reload()
            if self._owner and os.getppid() != self._owner:
                log.info("the process that started this one has ended")
                self.stop()

    def stop(self) -> None:
        """Ends `run` soon."""
        self._stopping = True
        self._poke()

    def reload_soon(self) -> None:
        """Has `run` read the configuration again."""
        self._reload_asked = True
        self._poke()

    def _poke(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.send(b"!")

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(64)

    def close(self, *, keep_logs: bool = False) -> None:
        """Stops the children, last started first, and removes what was made; logs as `baton down` decides."""
        self._services.stop_all()
        self.store.close()
        self._woken.close()
        self._wake.close()
        if self._state is not None:
            runstate.remove(self.run_dir, self._state, keep_logs=keep_logs)
            self._state = None

    # -- children ------------------------------------------------------------------------------------------

    def _run(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        environment = {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **environment}
        self._services.run(Service(name, command, environment, self.run_dir / f"{name}.log"))
        self._save()

    def _run_openflow(self, environment: dict[str, str]) -> None:
        address, port = self.config.openflow.listen
        listen = ["--listen-host", address, "--listen-port", str(port)]
        command = [sys.executable, "-m", "controller.openflow.framework", self.config.openflow.framework, *listen]
        self._run(OPENFLOW, command, environment)

    def _run_tree_watch(self, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "controller.spanning_tree.watch", "--config", str(self._openflow_file)]
        self._run(TREE, command, environment)

    def _run_web(self) -> None:
        if not self._owner:
            children.restart(self.config, self.store_url, self._services, self._run, self._tell)

    def _run_queue_keeper(self, environment: dict[str, str]) -> None:
        config = self.run_dir / runstate.QUEUES_FILE
        command = [sys.executable, "-m", "controller.switch_queues.keeper", "--config", str(config)]
        self._run(QUEUES, command, environment)

    def _run_coordinator(self, netns: str | None) -> None:
        assert self.config.coordinator is not None, "the caller looked"
        # From its first instruction: a dead coordinator's flood leaves no processor to others.
        command = [*at_priority(STARTING_PRIORITY if self.config.coordinator.realtime_priority else None), sys.executable]
        command += ["-m", "controller.coordinator.process", "--config", str(self._coordinator_file)]
        command += ["--netns", netns] if netns is not None else []
        self._run(COORDINATOR, command, {})

    def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        try:
            works = self._services.wait(lambda: self._stopping or condition(), START_S)
        except ServiceFailed as error:
            raise CannotStart(str(error)) from None
        if self._stopping:
            raise CannotStart("stopped while starting")
        if works:
            return
        raise CannotStart(f"{otherwise} after {START_S:g} s; see the logs in {self.run_dir}")

    def _store_answers(self) -> bool:
        try:
            self.store.wait(0)
        except StoreUnavailable as error:
            if REDIS in self._services:
                return False
            raise CannotStart(str(error)) from None
        return True

    def _coordinator_reports(self) -> bool:
        process = self._services[COORDINATOR].process
        return process is not None and self.controllers.ready(process.pid)

    def _follow_leader(self) -> None:
        """The tree that others make is watched beside the leader only."""
        wanted = reads_tree(self.config) and not self.controllers.other_leads()
        if wanted and TREE not in self._services:
            self._run_tree_watch(self._state.environment if self._state else {})
        elif not wanted and TREE in self._services:
            self._services.stop(TREE)
            self._save()

    # -- what the children are told ------------------------------------------------------------------------

    @property
    def _coordinator_file(self) -> Path:
        return self.run_dir / runstate.COORDINATOR_FILE

    @property
    def _openflow_file(self) -> Path:
        return self.run_dir / runstate.OPENFLOW_FILE

    def _settings(self, config: Config) -> tuple[CoordinatorSettings | None, OpenFlowSettings]:
        fabric = self.run_dir / runstate.FABRIC_FILE if isinstance(config.fabric, dict) else None
        if isinstance(config.fabric, str):
            fabric = Path(config.fabric)
        coordinator = config.coordinator_settings(self.store_url)
        if coordinator is not None:
            coordinator = replace(coordinator, name=self.controllers.name, standby=self.controllers.standby)
        return coordinator, config.openflow_settings(fabric)

    def _write_settings(self) -> None:
        """Writes the settings' files and tells the store the policy."""
        coordinator, openflow = self._settings(self.config)
        if isinstance(self.config.fabric, dict):
            runstate.write_whole(self.run_dir / runstate.FABRIC_FILE, json.dumps(self.config.fabric))
        runstate.write_whole(self._openflow_file, openflow.to_json())
        if self.config.switch_queues is not None:
            runstate.write_whole(self.run_dir / runstate.QUEUES_FILE, self.config.switch_queues.settings().to_json())
        if coordinator is not None:
            runstate.write_whole(self._coordinator_file, coordinator.to_json())
            with contextlib.suppress(StoreUnavailable):
                if not self.controllers.other_leads():
                    self.store.set_policy(coordinator.changeable())
                    self.store.disown("policy")  # the courier keeps the newest, should the store lose it

    @property
    def environment(self) -> dict[str, str]:
        """What the OpenFlow application reads, once `start` has returned."""
        return self._state.environment if self._state is not None else {}

    def _environment(self, control_mac: str) -> dict[str, str]:
        environment = {
            "BATON_SUPERVISED": "1",
            "BATON_CONFIG": str(self._openflow_file),
            "BATON_REDIS": self.store_url,
        }
        if self.config.coordinator is not None:
            environment["BATON_CONTROLLER"] = self.controllers.name
            environment["BATON_STANDBY"] = "1" if self.controllers.standby else ""
            environment["BATON_CONTROL_PORT"] = self.config.coordinator.attachment
            environment["BATON_CONTROL_MAC"] = control_mac
        return environment

    # -- reloading -----------------------------------------------------------------------------------------

    def _reload(self) -> None:
        """Takes the file as it is now into use, or keeps what is in use and says why."""
        self._reload_asked = False
        if self.path is None:
            return
        try:
            config = self._file.load()
            if (config.run_dir, config.store) != (self.config.run_dir, self.config.store):
                raise CannotStart("run_dir and store can't change while this runs: `baton down`, then `baton up`")
            self._check_sources(config)
            if OPENFLOW not in self._services or config.openflow.listen != self.config.openflow.listen:
                preflight.check_listen(config, self._runs_openflow(config))
            control_mac = preflight.check_coordinator(config)
        except (ConfigError, CannotStart) as error:
            self._update(config_error=str(error))
            self._tell("config", "error", f"configuration not taken over, the last good one stays: {error}")
            return
        self._take_over(config, control_mac)

    def _take_over(self, config: Config, control_mac: str) -> None:
        before, self.config = self.config, config
        old, new = self._settings(before), self._settings(config)
        self._write_settings()
        environment = self._environment(control_mac)
        self._update(config_error="", environment=environment)
        restarted = []
        fabric_changed = config.fabric != before.fabric
        if not self._runs_openflow(config):
            self._services.stop(OPENFLOW)
        elif new[1] != old[1] or fabric_changed or self._moved(before):
            self._run_openflow(environment)
            restarted.append(OPENFLOW)
        if not reads_tree(config):
            self._services.stop(TREE)
        elif TREE in self._services and (config.sources != before.sources or fabric_changed):
            self._run_tree_watch(environment)
            restarted.append(TREE)
        if config.switch_queues is None:
            self._services.stop(QUEUES)
        elif config.switch_queues != before.switch_queues:
            self._run_queue_keeper(environment)
            restarted.append(QUEUES)
        if self._coordinator_needs_restart(before, old[0], new[0]):
            self._services.stop(COORDINATOR)
            if config.coordinator is not None:
                self._run_coordinator(config.coordinator.netns)
                restarted.append(COORDINATOR)
        if config.web != before.web:
            self._run_web()
        self._save()
        names = f"; restarted {' and '.join(restarted)}" if restarted else ""
        changed = ", ".join(differences(before, config)) or "nothing"
        self._tell("config", "info", f"configuration reloaded, changed: {changed}{names}")

    def _runs_openflow(self, config: Config) -> bool:
        return not self._owner and uses_openflow(config)

    def _check_sources(self, config: Config) -> None:
        """Raises CannotStart: the sources of the tree don't go with the rest."""
        if reads_tree(config) and config.fabric is None:
            raise CannotStart("fabric: is missing; sources other than openflow need its links and their ports")
        preflight.check_secrets(config)
        if self._owner and not uses_openflow(config):
            raise CannotStart("sources: openflow is missing; add it, or use `baton up` instead of ryu-manager")

    def _moved(self, before: Config) -> bool:
        """Whether the coordinator is attached elsewhere now."""
        now, then = self.config.coordinator, before.coordinator
        return (now and (now.attachment, now.interface)) != (then and (then.attachment, then.interface))

    def _coordinator_needs_restart(
        self, before: Config, old: CoordinatorSettings | None, new: CoordinatorSettings | None
    ) -> bool:
        if old is None or new is None:
            return old is not new
        assert before.coordinator is not None and self.config.coordinator is not None
        return bool(old.needs_restart(new)) or before.coordinator.netns != self.config.coordinator.netns

    # -- telling -------------------------------------------------------------------------------------------

    def _tell(self, kind: str, severity: str, text: str) -> None:
        log.log(logging.ERROR if severity == "error" else logging.INFO, "%s", text)
        self._untold.append((kind, severity, text))
        self._tell_store()

    def _tell_store(self) -> None:
        """Tells the store what it has not heard, and what it has lost; when it is away, another time."""
        with contextlib.suppress(StoreUnavailable):
            self.store.republish()
            while self._untold:
                self.store.publish_event(*self._untold[0])
                self._untold.popleft()

    def _update(self, **changes: object) -> None:
        assert self._state is not None
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]  # names are checked by replace itself
        self._save()

    def _save(self) -> None:
        assert self._state is not None
        self._state = replace(
            self._state,
            services={service.name: service.identity for service in self._services},
            restarts={service.name: service.restarts for service in self._services},
        )
        runstate.save(self.run_dir, self._state)
