"""Starts the controller side, keeps it running, and applies a changed configuration. An edge: processes, files.

One process supervises Redis (if private), the OpenFlow application and the watcher of spanning trees that Baton does not
control (each if `sources` asks for it), the keeper of this machine's switch ports (if `switch_queues` names any), the
coordinator and the dashboard. It takes no part in slices or packets: it waits for a child's end, a signal, or a changed file. A
killed child runs again within milliseconds.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path

from controller.config.file import ConfigFile, differences, reads_tree, uses_openflow
from controller.config.reading import ConfigError
from controller.config.schema import Config
from controller.election.controllers import Controllers, name_of
from controller.processes.logs import LOG_FORMAT
from controller.processes.private_file import private
from controller.processes.services import LOG_BYTES, Service, ServiceFailed, Services
from controller.store import logins, private_redis
from controller.store.store import Store, StoreUnavailable
from controller.store.url import redacted, with_login
from controller.supervision import preflight, runstate
from controller.supervision.changes import coordinator_moved, coordinator_restarts, fixed_fields
from controller.supervision.children import CONTROL, COORDINATOR, OPENFLOW, QUEUES, REDIS, TREE, WEB, Children
from controller.supervision.copies import Copies
from controller.supervision.dashboard import Dashboard
from controller.supervision.outbox import Outbox
from controller.supervision.preflight import CannotStart
from controller.supervision.runstate import RunState
from controller.supervision.saved_state import SavedState
from controller.supervision.users import NoUsers, check_ports, check_program, notice, resolve
from controller.supervision.wakeups import Wakeups

log = logging.getLogger("baton.supervisor")

LOOK_S, CALM_S = 0.25, 30.0
"""How often the supervisor looks at what tells nothing by itself: the store that is away, who leads, a file without events. And
how often where none of these is the case, to be safe."""
START_S = 20.0


class Supervisor:
    """The controller side of one run directory: `start` starts it, `run` keeps it running, `close` ends it."""

    def __init__(
        self, path: Path | None, *, framework: str | None = None, owner: int = 0, standby: bool = False
    ) -> None:
        """Reads the configuration (None: all defaults). Raises ConfigError, CannotStart.

        `framework` overrides the file's. `owner` is the pid of an OpenFlow application that was started by hand: then the
        supervisor starts none, and ends with it. `standby`: this controller leaves the first lease to another.
        """
        self.path = path
        self._file = ConfigFile(path, framework)
        self.config = config = self._file.load()
        if standby and (config.store is None or config.coordinator is None):
            raise CannotStart("store: a standby shares the leader's; set store to its URL, and a coordinator section beside it")
        self.run_dir = config.run_dir
        try:
            self.users = resolve(config.users)
        except NoUsers as error:
            raise CannotStart(str(error)) from None
        passwords = logins.passwords() if config.store is None else None
        if passwords is not None:
            socket_url = private_redis.url(config.run_dir / runstate.STORE_DIR)
            urls = {login: with_login(socket_url, logins.user(login), word) for login, word in passwords.items()}
            self.store_url = urls[logins.OPERATOR]
        else:
            assert config.store is not None
            self.store_url, urls = config.store, config.store_urls()
        self.store = Store(self.store_url)
        self.controllers = Controllers(self.store, name_of(config.run_dir), standby=standby)
        self._children = Children(
            run_dir=config.run_dir,
            store_url=self.store_url,
            name=self.controllers.name,
            standby=standby,
            users=self.users,
            passwords=passwords,
            urls=urls,
        )
        self._copies = Copies(config.run_dir)
        self._owner = owner
        self._services = Services()
        self._outbox = Outbox(self.store)
        self._dashboard = Dashboard(self._services, self._children, self._outbox, self.users)
        self._wakeups = Wakeups(LOOK_S)
        self._stopping = self._reload_asked = False
        self._policy_owed = False
        """Whether the policy of the last configuration has not reached the store yet."""
        self._state: SavedState | None = None
        self._fabric = ""
        """The text of the fabric that the children read."""

    # -- up and down ---------------------------------------------------------------------------------------

    def start(self, *, log_to_file: bool = False) -> None:
        """Starts everything; returns when it works. The log may go to a file in the run directory, too.

        Raises:
            CannotStart: something is missing, or a process ended at once; no child is left running.
        """
        if self.users is not None:
            try:
                check_program(self.users)
            except NoUsers as error:
                raise CannotStart(str(error)) from None
        if self.config.store is not None:
            preflight.check_store(self.config.store, self.users)
        claim = preflight.claim_run_dir(self.run_dir, self.users)
        if log_to_file:
            private(self.run_dir / runstate.LOG, os.O_APPEND).close()
            handler = RotatingFileHandler(self.run_dir / runstate.LOG, maxBytes=LOG_BYTES, backupCount=1)
            handler.setFormatter(logging.Formatter(LOG_FORMAT))
            logging.getLogger().addHandler(handler)
        state = RunState(
            supervisor=preflight.own_identity(),
            config=str(self.path or ""),
            store=self.store_url,
            made_run_dir=claim.made,
            run_dir_before=claim.before,
        )
        self._state = SavedState(self.run_dir, state, self._services)
        try:
            self._bring_up()
        except BaseException:
            self.close(keep_logs=True)
            raise

    def _bring_up(self) -> None:
        config = self.config
        self._check_sources(config)
        self._check_listen(config)
        control_mac = preflight.check_coordinator(config)
        self._children.make_directories()
        self._renew_copies()
        if config.store is None:
            try:
                self._run(self._children.redis())
            except private_redis.RedisMissing as error:
                raise CannotStart(f"store: {error}") from None
        self._wait(self._store_answers, f"the store at {redacted(self.store_url)} does not answer")
        self._write_settings(config)
        environment = self._children.environment(config, control_mac)
        self._saved.update(environment=environment)
        if config.switch_queues is not None:
            self._run(self._children.queues(environment))
        self._follow_leader()
        self._run_control(environment)
        if self._runs_openflow(config):
            self._run(self._children.openflow(config, environment))
            address, port = config.openflow.listen
            self._wait(lambda: preflight.listening(port), f"nothing listens on {address}:{port} for switches")
        if config.coordinator is not None:
            self._run(self._children.coordinator(config))
            self._wait(self._coordinator_reports, "the coordinator does not report to the store")
        else:
            log.warning("no coordinator section in the configuration: forwarding only, no host is coordinated")
        self._run_web()
        self._saved.update(ready=True)
        if told := notice(self.users):
            self._outbox.tell("users", *told)
        self._outbox.tell("up", "info", "the controller side is up")

    def run(self) -> None:
        """Keeps everything running until `stop` is called."""
        while not self._stopping:
            ended, changed = self._services.turn(self._patience_s, *self._wakeups.sources)
            self._wakeups.drain()
            self._tend_copies()
            if self._dashboard.tend() or changed or self._saved.unsaved:
                self._saved.save()
            for service in ended:
                self._outbox.tell("restart", "error", f"{service.name} {service.last_exit}; it is started again")
            self._outbox.publish()
            self._publish_policy(self.config)
            self._follow_leader()
            if self._reload_asked or self._file.changed():
                self._reload()
            if self._owner and os.getppid() != self._owner:
                log.info("the process that started this one has ended")
                self.stop()

    @property
    def _patience_s(self) -> float:
        """How long to wait for an event."""
        calm = self._wakeups.sees_changes and self._outbox.empty and not self._owner and not reads_tree(self.config)
        owes = self._saved.unsaved or self._dashboard.waits or self._policy_owed
        return CALM_S if calm and not owes else LOOK_S

    def stop(self) -> None:
        """Has `run` return soon."""
        self._stopping = True
        self._wakeups.wake()

    def reload_soon(self) -> None:
        """Has `run` read the configuration again."""
        self._reload_asked = True
        self._wakeups.wake()

    def close(self, *, keep_logs: bool = False) -> None:
        """Stops the children, last started first, and removes their files; keeps the logs if asked to, also by `baton down`."""
        self._services.stop_all()
        if self._state is not None:
            self._tend_copies()
        self.store.close()
        self._wakeups.close()
        if self._state is not None:
            self._state.remove(keep_logs=keep_logs)
            self._state = None

    # -- children ------------------------------------------------------------------------------------------

    def _run(self, service: Service) -> None:
        self._services.run(service)
        self._saved.save()

    def _run_web(self) -> None:
        """Has the dashboard follow the configuration; an application that was started by hand has none."""
        if not self._owner:
            self._dashboard.follow(self.config.web)

    def _run_control(self, environment: dict[str, str]) -> None:
        """Runs the keeper of control frames if the configuration asks for one."""
        if uses_openflow(self.config) and self.config.openflow.control_first:
            self._run(self._children.control(environment))
        else:
            self._services.stop(CONTROL)

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
            self.store.connection.wait(0)
        except StoreUnavailable as error:
            if REDIS in self._services:
                return False
            raise CannotStart(str(error)) from None
        return True

    def _coordinator_reports(self) -> bool:
        process = self._services[COORDINATOR].process
        return process is not None and self.controllers.ready(process.pid)

    def _follow_leader(self) -> None:
        """Runs the watcher of spanning trees while this controller leads, and stops it otherwise."""
        wanted = reads_tree(self.config) and not self.controllers.other_leads()
        if wanted and TREE not in self._services:
            self._run(self._children.tree(self.environment))
        elif not wanted and TREE in self._services:
            self._services.stop(TREE)
            self._saved.save()

    # -- what the children read ----------------------------------------------------------------------------

    def _renew_copies(self) -> None:
        """Keeps the copies that the configuration asks for now, and looks out for changes of their originals."""
        self._children.copy_files(self.config, self._copies)
        self._tend_copies()
        watched = {path.parent: path for path in (*([self.path] if self.path else []), *self._copies.sources())}
        if self.users is not None:
            watched[self.run_dir / runstate.KEYS_DIR] = self.run_dir / runstate.KEYS_DIR / "any"
        self._wakeups.watch(watched.values())

    def _tend_copies(self) -> None:
        """Copies what has changed, and does to the key what the coordinator has done to its copy."""
        coordinator = self.config.coordinator
        if coordinator is not None and (told := self._copies.take_back(coordinator.key_file)):
            self._outbox.tell("key", "info", told)
        for problem in self._copies.refresh():
            self._outbox.tell("config", "error", problem)

    def _write_settings(self, config: Config) -> bool:
        """Writes the settings' files of a configuration, and publishes the policy unless another controller leads. Returns
        whether the fabric is another than before, be it in the same file. Raises CannotStart: nothing was written."""
        try:
            fabric = self._children.write_settings(config)
        except OSError as error:
            why = f"{error.filename or self.run_dir}: {error.strerror}"
            raise CannotStart(f"settings can't be written: {why}; free the place, then send the supervisor a SIGHUP") from None
        changed, self._fabric = fabric != self._fabric, fabric
        self._policy_owed = True
        self._publish_policy(config)
        return changed

    def _publish_policy(self, config: Config) -> None:
        """Publishes the policy of a configuration that was taken over, unless another controller leads; later, while the store
        is away."""
        if not self._policy_owed:
            return
        coordinator, _ = self._children.settings(config)
        with contextlib.suppress(StoreUnavailable):
            if coordinator is not None and not self.controllers.other_leads():
                self.store.set_policy(coordinator.changeable())
            self._policy_owed = False

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the OpenFlow application, once `start` has returned."""
        return self._state.state.environment if self._state is not None else {}

    # -- reloading -----------------------------------------------------------------------------------------

    def _reload(self) -> None:
        """Applies the file as it is now, or keeps the last good configuration and reports why."""
        self._reload_asked = False
        if self.path is None:
            return
        try:
            config = self._file.load()
            if changed := fixed_fields(self.config, config):
                raise CannotStart(f"{' and '.join(changed)} can't change while this runs: `baton down`, then `baton up`")
            self._check_sources(config)
            if OPENFLOW not in self._services or config.openflow.listen != self.config.openflow.listen:
                self._check_listen(config)
            control_mac = preflight.check_coordinator(config)
            fabric_changed = self._write_settings(config)
        except (ConfigError, CannotStart) as error:
            self._keep_configuration(str(error))
            return
        except Exception as error:  # whatever a check of ours lacks, what runs goes on
            log.exception("the configuration could not be checked")
            self._keep_configuration(f"it could not be checked ({type(error).__name__}); see {runstate.LOG}")
            return
        self._take_over(config, control_mac, fabric_changed=fabric_changed)

    def _keep_configuration(self, why: str) -> None:
        self._saved.update(config_error=why)
        self._outbox.tell("config", "error", f"configuration not taken over, the last good one stays: {why}")

    def _take_over(self, config: Config, control_mac: str, *, fabric_changed: bool) -> None:
        """Has the children follow a configuration whose settings are written."""
        before, self.config = self.config, config
        old, new = self._children.settings(before), self._children.settings(config)
        self._renew_copies()
        environment = self._children.environment(config, control_mac)
        self._saved.update(config_error="", environment=environment)
        restarted = []
        if config.openflow.control_first != before.openflow.control_first or uses_openflow(config) != uses_openflow(before):
            self._run_control(environment)
        if not self._runs_openflow(config):
            self._services.stop(OPENFLOW)
        elif new[1] != old[1] or fabric_changed or coordinator_moved(before, config):
            self._run(self._children.openflow(config, environment))
            restarted.append(OPENFLOW)
        if not reads_tree(config):
            self._services.stop(TREE)
        elif TREE in self._services and (config.sources != before.sources or fabric_changed):
            self._run(self._children.tree(environment))
            restarted.append(TREE)
        if config.switch_queues is None:
            self._services.stop(QUEUES)
        elif config.switch_queues != before.switch_queues:
            self._run(self._children.queues(environment))
            restarted.append(QUEUES)
        if coordinator_restarts(before, config, old[0], new[0]):
            self._services.stop(COORDINATOR)
            if config.coordinator is not None:
                self._run(self._children.coordinator(config))
                restarted.append(COORDINATOR)
        if config.web != before.web or WEB not in self._services:
            self._run_web()
        self._saved.save()
        names = f"; restarted {' and '.join(restarted)}" if restarted else ""
        changed = list(differences(before, config))
        if fabric_changed and "fabric" not in changed:  # its file was edited
            changed.append("fabric")
        self._outbox.tell("config", "info", f"configuration reloaded, changed: {', '.join(changed) or 'nothing'}{names}")

    def _runs_openflow(self, config: Config) -> bool:
        return not self._owner and uses_openflow(config)

    def _check_listen(self, config: Config) -> None:
        """Raises CannotStart: the OpenFlow application could not listen where the configuration says."""
        if not self._runs_openflow(config):
            return
        try:
            check_ports(self.users, [("openflow.listen", config.openflow.listen[1])])
        except NoUsers as error:
            raise CannotStart(str(error)) from None
        preflight.check_listen(config)

    def _check_sources(self, config: Config) -> None:
        """Raises CannotStart: the sources of the tree do not fit the rest of the configuration."""
        if reads_tree(config) and config.fabric is None:
            raise CannotStart("fabric: is missing; sources other than openflow need its links and their ports")
        preflight.check_secrets(config, self.users)
        if self._owner and not uses_openflow(config):
            raise CannotStart("sources: openflow is missing; add it, or use `baton up` instead of ryu-manager")

    # -- the run directory -----------------------------------------------------------------------------------

    @property
    def _saved(self) -> SavedState:
        assert self._state is not None, "it is started"
        return self._state
