"""The supervisor's child processes: the command line, the rights, the environment and the files of each. An edge: files.

Children that read settings find them as JSON in the run directory; `Children.write_settings` puts them there. With users of
their own they also find copies of the files of root's that they need (`controller.supervision.copies`), and each has a login of
its own at the store.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from controller.config.schema import Config
from controller.config.settings import CoordinatorSettings, OpenFlowSettings, TlsFiles
from controller.config.web import WebSection
from controller.election import last_epoch
from controller.members import enrolments
from controller.processes.identity import STARTING_PRIORITY, at_priority, before_coordinator
from controller.processes.rights import INTERNET, NETLINK, Rights
from controller.processes.services import Service
from controller.store import logins, private_redis
from controller.supervision import runstate, users
from controller.supervision.copies import Copies, prepare
from controller.supervision.users import Users
from protocol.key_files import new_beside

REPOSITORY = Path(__file__).resolve().parents[2]
REDIS, OPENFLOW, TREE, COORDINATOR, QUEUES, WEB, CONTROL = (
    "redis", "openflow", "tree", "coordinator", "queues", "web", "control"
)  # fmt: skip
PACKET_SOCKETS = 2
"""Of the coordinator: `protocol.link.ControlSocket`."""
KEEPERS_CAPABILITIES = ("net_admin", "bpf", "perfmon")
"""Of the processes that look after this machine's switch ports: queues by netlink, eBPF programs."""
Environment = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """Describes the children of one run directory; starts none of them."""

    run_dir: Path
    store_url: str
    name: str
    """Of this controller, among those that share the store."""
    standby: bool
    users: Users | None = None
    """None: all run by this process's user."""
    passwords: Mapping[str, str] | None = None
    """Of the private store, by login; None: the store is none of ours."""
    urls: Mapping[str, str] = field(default_factory=dict)
    """The store's URL by login; one that is not there has `store_url`."""

    def redis(self) -> Service:
        """The private store. Raises private_redis.RedisMissing."""
        directory = self.run_dir / runstate.STORE_DIR
        rights = self._rights(users.STORE, families=("AF_UNIX",))
        mode = 0o700 if self.users is None else 0o770
        command = private_redis.configure(directory, logins=self.passwords, owner=self._uid(users.STORE), mode=mode)
        return self._service(REDIS, [*before_coordinator(), *rights.command(command)], {})

    def openflow(self, config: Config, environment: Environment) -> Service:
        """The OpenFlow application, under its framework."""
        address, port = config.openflow.listen
        listen = ["--listen-host", address, "--listen-port", str(port)]
        words = ("controller.openflow.framework", config.openflow.framework, *listen)
        return self._python(OPENFLOW, *words, env=environment, rights=self._rights(users.OPENFLOW, families=NETLINK))

    def tree(self, environment: Environment) -> Service:
        """The watcher of spanning trees that Baton does not control."""
        words = ("controller.spanning_tree.watch", "--config", str(self.run_dir / runstate.TREE_FILE))
        return self._python(TREE, *words, env=environment, rights=self._machine_rights())

    def queues(self, environment: Environment) -> Service:
        """The keeper of this machine's switch ports."""
        words = ("controller.switch_queues.keeper", "--config", str(self.run_dir / runstate.QUEUES_FILE))
        return self._python(QUEUES, *words, env=environment, rights=self._machine_rights(*KEEPERS_CAPABILITIES))

    def control(self, environment: Environment) -> Service:
        """The keeper of control frames at this machine's switches, which the OpenFlow application tells what it wants."""
        words = ["controller.switch_queues.control_keeper", "--listen", str(self._control_socket)]
        uid = self._uid(users.OPENFLOW)
        words += ["--peer", str(os.geteuid() if uid is None else uid)]
        return self._python(CONTROL, *words, env=environment, rights=self._machine_rights(*KEEPERS_CAPABILITIES))

    def coordinator(self, config: Config) -> Service:
        """The coordinator; the configuration has a section for it."""
        section = config.coordinator
        assert section is not None, "the caller looked"
        # From its first instruction: the traffic that a dead coordinator's hosts send leaves no processor to others.
        prefix = at_priority(STARTING_PRIORITY if section.realtime_priority else None)
        rights = self._rights(
            users.COORDINATOR,
            families=INTERNET,
            realtime=section.realtime_priority or 0,
            packet_sockets=PACKET_SOCKETS,
            netns=section.netns,
            kept_file=str(last_epoch.beside(section.key_file)),
        )
        words = [sys.executable, "-m", "controller.coordinator.process", "--config", str(self._coordinator_file)]
        return self._service(COORDINATOR, [*prefix, *rights.command(words)], {})

    def web(self, web: WebSection) -> Service:
        """The dashboard. It finds the store in BATON_REDIS: every user of the machine can read an argument."""
        host, port = web.listen
        web = web.model_copy(update=self._web_copies(web))
        words = ["--users", str(web.users), "--host", host, "--port", str(port)]
        if web.cert is not None:
            words += ["--cert", str(web.cert), "--key", str(web.key)]
        if web.login_to_read:
            words.append("--login-to-read")
        for name in web.names:
            words.append(f"--name={name}")
        environment = {"BATON_REDIS": self.urls.get(logins.WEB, self.store_url)}
        return self._python(WEB, "webui.serve", *words, env=environment, rights=self._rights(users.WEB))

    def environment(self, config: Config, control_mac: str) -> Environment:
        """What the OpenFlow application and the other children of the fabric read from their environment."""
        environment = {
            "BATON_SUPERVISED": "1",
            "BATON_CONFIG": str(self._openflow_file),
            "BATON_REDIS": self.urls.get(logins.OPENFLOW, self.store_url),
        }
        if config.openflow.control_first:
            environment["BATON_CONTROL_FIRST"] = str(self._control_socket)
        if config.coordinator is not None:
            environment["BATON_CONTROLLER"] = self.name
            environment["BATON_STANDBY"] = "1" if self.standby else ""
            environment["BATON_CONTROL_PORT"] = config.coordinator.attachment
            environment["BATON_CONTROL_MAC"] = control_mac
        return environment

    def settings(self, config: Config) -> tuple[CoordinatorSettings | None, OpenFlowSettings]:
        """What a configuration means for the coordinator (None: there is none) and for the OpenFlow application."""
        fabric = self.run_dir / runstate.FABRIC_FILE if config.fabric is not None else None
        coordinator = config.coordinator_settings(self.urls.get(logins.COORDINATOR, self.store_url))
        if coordinator is not None:
            coordinator = replace(coordinator, name=self.name, standby=self.standby)
            if self.users is not None:
                shared = coordinator.shared_key_file
                coordinator = replace(
                    coordinator,
                    key_file=self._key_copy(coordinator.key_file),
                    shared_key_file=None if shared is None else self._key_copy(shared, ".shared"),
                )
        openflow = config.openflow_settings(fabric)
        if self.users is not None and openflow.tls is not None:
            directory = self.run_dir / runstate.OPENFLOW_DIR
            openflow = replace(openflow, tls=TlsFiles(*(str(directory / f"{name}.pem") for name in TlsFiles._fields)))
        return coordinator, openflow

    def make_directories(self) -> None:
        """Makes the directories in the run directory. Those of the store (to whose socket the group gets) and of the keys
        belong to the users; of the others only what is in them does. Raises OSError."""
        for name, user in ((runstate.STORE_DIR, users.STORE), (runstate.KEYS_DIR, users.COORDINATOR)):
            closed = self.users is None or name == runstate.KEYS_DIR
            self._make_directory(name, self._uid(user), 0o700 if closed else 0o710)
        for name in (runstate.WEB_DIR, runstate.OPENFLOW_DIR):
            self._make_directory(name, None, 0o700 if self.users is None else 0o710)

    def write_settings(self, config: Config) -> str:
        """Writes the settings' files of a configuration, all or none. Returns the fabric's text; empty: there is none. Raises
        OSError."""
        coordinator, openflow = self.settings(config)
        fabric = ""
        files: list[tuple[str, str, str | None]] = [(runstate.OPENFLOW_FILE, openflow.to_json(), users.OPENFLOW)]
        if config.fabric is not None:
            fabric = Path(config.fabric).read_text() if isinstance(config.fabric, str) else json.dumps(config.fabric)
            of_tree = replace(openflow, fabric_file=self.run_dir / runstate.TREE_FABRIC_FILE)
            files.append((runstate.FABRIC_FILE, fabric, users.OPENFLOW))
            files.append((runstate.TREE_FABRIC_FILE, fabric, None))
            files.append((runstate.TREE_FILE, of_tree.to_json(), None))
        if config.switch_queues is not None:
            files.append((runstate.QUEUES_FILE, config.switch_queues.settings().to_json(), None))
        if coordinator is not None:
            files.append((runstate.COORDINATOR_FILE, coordinator.to_json(), users.COORDINATOR))
        self._put(files)
        return fabric

    def copy_files(self, config: Config, copies: Copies) -> None:
        """Has copies be kept of the files of root's that a configuration names, for those users that need them."""
        if self.users is None:
            return
        copies.forget(*(self.run_dir / name for name in (runstate.KEYS_DIR, runstate.WEB_DIR, runstate.OPENFLOW_DIR)))
        if config.coordinator is not None:
            key, owner = config.coordinator.key_file, self.users.uids[users.COORDINATOR]
            for source in (key, new_beside(key), enrolments.beside(key)):
                copies.want(source, self._key_copy(source), owner=owner)
            if (shared := config.coordinator.shared_key_file) is not None:
                copies.want(shared, self._key_copy(shared, ".shared"), owner=owner)
        if (tls := config.openflow.tls) is not None:
            owner, directory = self.users.uids[users.OPENFLOW], self.run_dir / runstate.OPENFLOW_DIR
            for name in TlsFiles._fields:
                copies.want(getattr(tls, name), directory / f"{name}.pem", owner=owner, secret=name == "key")
        if config.web is not None:
            for name, copy in self._web_copies(config.web).items():
                owner = self.users.uids[users.WEB]
                copies.want(getattr(config.web, name), copy, owner=owner, secret=name != "cert")

    @property
    def _coordinator_file(self) -> Path:
        return self.run_dir / runstate.COORDINATOR_FILE

    @property
    def _openflow_file(self) -> Path:
        return self.run_dir / runstate.OPENFLOW_FILE

    @property
    def _control_socket(self) -> Path:
        return self.run_dir / runstate.CONTROL_SOCKET

    def _key_copy(self, source: Path, ending: str = "") -> Path:
        return self.run_dir / runstate.KEYS_DIR / (source.name + ending)

    def _web_copies(self, web: WebSection) -> dict[str, Path]:
        """The copies of the web server's files by the names of their fields; none where it reads the files themselves."""
        if self.users is None:
            return {}
        names = {"users": "users.json"} | ({"cert": "cert.pem", "key": "key.pem"} if web.cert is not None else {})
        return {of: self.run_dir / runstate.WEB_DIR / name for of, name in names.items()}

    def _uid(self, name: str) -> int | None:
        return None if self.users is None else self.users.uids[name]

    def _rights(self, name: str, **more: Any) -> Rights:  # noqa: ANN401 -- the fields of Rights
        group = None if self.users is None else self.users.group
        return Rights(user=self._uid(name), group=group, **more)

    def _machine_rights(self, *capabilities: str) -> Rights:
        """Of a process that works on this machine itself: Open vSwitch and files of credentials are root's."""
        group = None if self.users is None else self.users.group
        user = None if self.users is None else 0
        return Rights(user=user, group=group, capabilities=capabilities, families=NETLINK, bpf=bool(capabilities))

    def _make_directory(self, name: str, owner: int | None, mode: int) -> None:
        path = self.run_dir / name
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(mode)  # first: what is another's can't be changed without CAP_FOWNER
        if self.users is not None:
            os.chown(path, 0 if owner is None else owner, self.users.group, follow_symlinks=False)

    def _put(self, files: list[tuple[str, str, str | None]]) -> None:
        """Replaces files of the run directory (name, text, user) once there is room for all of them. Raises OSError."""
        made: list[tuple[Path, Path]] = []
        try:
            for name, text, user in files:
                path, owner = self.run_dir / name, None if user is None else self._uid(user)
                made.append((prepare(self.run_dir, path, text.encode(), owner), path))
            for temporary, path in made:
                temporary.replace(path)
        except OSError:
            for temporary, _ in made:
                temporary.unlink(missing_ok=True)
            raise

    def _python(self, name: str, module: str, *words: str, env: Environment, rights: Rights) -> Service:
        return self._service(name, rights.command([sys.executable, "-m", module, *words]), env)

    def _service(self, name: str, command: list[str], environment: Environment) -> Service:
        environment = {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **environment}
        return Service(name, command, environment, self.run_dir / f"{name}.log")
