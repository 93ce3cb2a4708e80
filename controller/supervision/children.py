"""The supervisor's child processes: the command line, the environment and the settings' file of each. An edge: files.

Children that read settings find them as JSON in the run directory; `Children.write_settings` puts them there.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from controller.config.schema import Config
from controller.config.settings import CoordinatorSettings, OpenFlowSettings
from controller.config.web import WebSection
from controller.processes.identity import STARTING_PRIORITY, at_priority
from controller.processes.services import Service
from controller.store import private_redis
from controller.supervision import runstate

REPOSITORY = Path(__file__).resolve().parents[2]
REDIS, OPENFLOW, TREE, COORDINATOR, QUEUES, WEB = "redis", "openflow", "tree", "coordinator", "queues", "web"
Environment = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """Describes the children of one run directory; starts none of them."""

    run_dir: Path
    store_url: str
    name: str
    """Of this controller, among those that share the store."""
    standby: bool

    def redis(self) -> Service:
        """The private store. Raises private_redis.RedisMissing."""
        return self._service(REDIS, private_redis.configure(self.run_dir), {})

    def openflow(self, config: Config, environment: Environment) -> Service:
        """The OpenFlow application, under its framework."""
        address, port = config.openflow.listen
        listen = ["--listen-host", address, "--listen-port", str(port)]
        return self._python(OPENFLOW, "controller.openflow.framework", config.openflow.framework, *listen, env=environment)

    def tree(self, environment: Environment) -> Service:
        """The watcher of spanning trees that Baton does not control."""
        return self._python(TREE, "controller.spanning_tree.watch", "--config", str(self._openflow_file), env=environment)

    def queues(self, environment: Environment) -> Service:
        """The keeper of this machine's switch ports."""
        config = str(self.run_dir / runstate.QUEUES_FILE)
        return self._python(QUEUES, "controller.switch_queues.keeper", "--config", config, env=environment)

    def coordinator(self, config: Config) -> Service:
        """The coordinator; the configuration has a section for it."""
        section = config.coordinator
        assert section is not None, "the caller looked"
        # From its first instruction: the traffic that a dead coordinator's hosts send leaves no processor to others.
        prefix = at_priority(STARTING_PRIORITY if section.realtime_priority else None)
        words = ["--config", str(self._coordinator_file)]
        words += ["--netns", section.netns] if section.netns is not None else []
        return self._service(COORDINATOR, [*prefix, sys.executable, "-m", "controller.coordinator.process", *words], {})

    def web(self, web: WebSection) -> Service:
        """The dashboard. It finds the store in BATON_REDIS: every user of the machine can read an argument."""
        host, port = web.listen
        words = ["--users", str(web.users), "--host", host, "--port", str(port)]
        if web.cert is not None:
            words += ["--cert", str(web.cert), "--key", str(web.key)]
        if web.login_to_read:
            words.append("--login-to-read")
        for name in web.names:
            words += ["--name", name]
        return self._python(WEB, "webui.serve", *words, env={"BATON_REDIS": self.store_url})

    def environment(self, config: Config, control_mac: str) -> Environment:
        """What the OpenFlow application and the other children of the fabric read from their environment."""
        environment = {
            "BATON_SUPERVISED": "1",
            "BATON_CONFIG": str(self._openflow_file),
            "BATON_REDIS": self.store_url,
        }
        if config.coordinator is not None:
            environment["BATON_CONTROLLER"] = self.name
            environment["BATON_STANDBY"] = "1" if self.standby else ""
            environment["BATON_CONTROL_PORT"] = config.coordinator.attachment
            environment["BATON_CONTROL_MAC"] = control_mac
        return environment

    def settings(self, config: Config) -> tuple[CoordinatorSettings | None, OpenFlowSettings]:
        """What a configuration means for the coordinator (None: there is none) and for the OpenFlow application."""
        fabric = self.run_dir / runstate.FABRIC_FILE if isinstance(config.fabric, dict) else None
        if isinstance(config.fabric, str):
            fabric = Path(config.fabric)
        coordinator = config.coordinator_settings(self.store_url)
        if coordinator is not None:
            coordinator = replace(coordinator, name=self.name, standby=self.standby)
        return coordinator, config.openflow_settings(fabric)

    def write_settings(self, config: Config) -> None:
        """Writes the settings' files of a configuration."""
        coordinator, openflow = self.settings(config)
        if isinstance(config.fabric, dict):
            runstate.write_whole(self.run_dir / runstate.FABRIC_FILE, json.dumps(config.fabric))
        runstate.write_whole(self._openflow_file, openflow.to_json())
        if config.switch_queues is not None:
            runstate.write_whole(self.run_dir / runstate.QUEUES_FILE, config.switch_queues.settings().to_json())
        if coordinator is not None:
            runstate.write_whole(self._coordinator_file, coordinator.to_json())

    @property
    def _coordinator_file(self) -> Path:
        return self.run_dir / runstate.COORDINATOR_FILE

    @property
    def _openflow_file(self) -> Path:
        return self.run_dir / runstate.OPENFLOW_FILE

    def _python(self, name: str, module: str, *words: str, env: Environment) -> Service:
        return self._service(name, [sys.executable, "-m", module, *words], env)

    def _service(self, name: str, command: list[str], environment: Environment) -> Service:
        environment = {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **environment}
        return Service(name, command, environment, self.run_dir / f"{name}.log")
