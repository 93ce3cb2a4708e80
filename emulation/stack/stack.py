"""Baton itself over an emulated fabric: `baton up` for the controller side, `baton agent` on every host. An edge: processes.

It runs the commands that an operator runs, with the same files: a key, a file for each host, a fabric, a configuration.

    with EmulatedFabric(fabric, controller=stack.OPENFLOW) as emulated, Stack(emulated) as baton:
        baton.start_agents()
        baton.set_policy("timeslice", slice_ns=2_000_000)
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from agents.config import REALTIME
from controller.members.enrolments import EnrolmentFile
from controller.processes.waiting import wait_until
from controller.store.store import Store
from controller.supervision import runstate
from controller.supervision.users import code_is_open
from emulation.fabric.fabric import COORDINATOR_NODE, EmulatedFabric
from emulation.processes import end_process
from emulation.resource import Resource
from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.hosts import Credentials, Master
from topology import files

OPENFLOW = ("127.0.0.1", 6653)
START_S = 60.0


class StackError(RuntimeError):
    """Baton did not come up as it should; the text includes the logs."""


class Stack(Resource):
    """The controller side over a fabric, and agents that may be started and ended."""

    def __init__(
        self,
        emulated: EmulatedFabric,
        *,
        coordinator: Mapping[str, Any] | None = None,
        agents: Mapping[str, Any] | None = None,
        priorities: Mapping[str, Any] | None = None,
        openflow: Mapping[str, Any] | None = None,
        framework: str = "ryu",
        store: str | None = None,
    ) -> None:
        """Starts when the block is entered.

        Args:
            coordinator, agents, priorities, openflow: more fields of the configuration's sections of these names.
            store: the URL of a store that runs already; None: Baton starts its own.
        """
        self.emulated = emulated
        self._coordinator = dict(coordinator or {})
        self._agents_section = dict(agents or {})
        self._priorities = dict(priorities or {})
        self._openflow = dict(openflow or {})
        self._framework = framework
        self._store = store
        self.directory = Path()
        self.agents: dict[str, subprocess.Popen[Any]] = {}
        self.store: Store

    def _start(self, stack: ExitStack) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="baton-"))
        self.directory.chmod(0o711)  # the processes' users pass through it
        stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self._write_files()
        stack.callback(self._down)
        self._baton("up", "--config", str(self.directory / "baton.yaml"))
        self.store = Store(runstate.load(self.directory / "run").store)
        stack.callback(self.store.close)
        self.emulated.connect_switches(START_S)
        self.wait(lambda: self.store.status() is not None, "the coordinator to report")
        stack.callback(self.stop_agents)

    @property
    def key_file(self) -> Path:
        """The file of the controllers' master key."""
        return self.directory / "key"

    def host_file(self, host: str) -> Path:
        """The file with which a host was enrolled."""
        return self.directory / "hosts" / host

    def credentials(self, host: str) -> Credentials:
        """A host's keys at its interface."""
        return host_file.load(self.host_file(host)).at(bytes.fromhex(self.emulated.node(host).MAC().replace(":", "")))

    def _write_files(self) -> None:
        emulated = self.emulated
        master = Master(Key.generate(self.key_file))
        self.host_file("").mkdir(mode=0o700)
        with EnrolmentFile(self.key_file).changing() as enrolments:
            for host in emulated.fabric.hosts:
                made = master.enroll(host)
                host_file.save(made, self.host_file(host))
                enrolments.add(made.enrolment, host, (), int(time.time()))
        (self.directory / "fabric.yaml").write_text(files.dumps(emulated.fabric))
        config = {
            "run_dir": str(self.directory / "run"),
            "store": self._store or "none",
            "fabric": "fabric.yaml",
            "openflow": {
                "framework": self._framework, "listen": f"{OPENFLOW[0]}:{OPENFLOW[1]}", "poll": "250ms",
                "control_first": False,  # an emulated port has a queue for control frames, and its link's delay is measured
                **self._openflow,
            },
            "coordinator": {
                "interface": emulated.coordinator_interface,
                "attachment": f"{emulated.coordinator_switch}:{emulated.coordinator_port}",
                "netns": f"/proc/{emulated.node(COORDINATOR_NODE).pid}/ns/net",
                "key_file": "key",
                "policy": "timeslice",
                **self._coordinator,
            },
            "agents": self._agents_section,
            "users": {} if code_is_open() else "none",  # only root may read a checkout in /root
            "web": "none",  # the web server would take processor time from what is measured
            "priorities": self._priorities,
        }
        (self.directory / "baton.yaml").write_text(yaml.safe_dump(config))

    def _baton(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "cli.main", *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S)
        except subprocess.TimeoutExpired:
            raise StackError(f"baton {arguments[0]} did not end within {START_S:g} s\n{self.logs()}") from None
        if done.returncode:
            raise StackError(f"baton {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}\n{self.logs()}")

    def _down(self) -> None:
        try:
            self._baton("down", "--run-dir", str(self.directory / "run"))
        except StackError:
            return  # Baton did not come up, or is down already

    def logs(self) -> str:
        """The last 8 lines of every log."""
        found = []
        for path in sorted((self.directory / "run").glob("*.log")):
            found += [f"{path.stem}: {line}" for line in path.read_text(errors="replace").splitlines()[-8:]]
        return "\n".join(found)

    # -- agents ---------------------------------------------------------------------------------------------------------

    def start_agents(self, *hosts: str, options: tuple[str, ...] = (), timeout_s: float = START_S) -> None:
        """Starts agents, on all hosts unless some are named, and waits until they are members at known switch ports."""
        fabric = self.emulated.fabric
        for host in hosts or fabric.hosts:
            attached = fabric.attachment(host)
            assert attached is not None
            command = [
                sys.executable, "-m", "cli.main", "agent",
                "--interface", self.emulated.interface(host),
                "--rate", str(fabric.capacity_bps((host, attached))),
                "--key", str(self.host_file(host)),
                "--name", host,
                "--realtime", str(REALTIME),  # the emulation's switch has a higher one
                "--run-dir", str(self.directory / "run"),
                "--statistics", str(self.directory / f"{host}.json"),
            ]  # fmt: skip
            for address in fabric.addresses(host):
                command += ["--address", str(address)]
            log = (self.directory / "run" / f"agent-{host}.log").open("ab")
            self.agents[host] = self.emulated.popen(
                host, [*command, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            log.close()
        self.wait(self._all_members, "the agents to become members", timeout_s)

    def _all_members(self) -> bool:
        for host, process in self.agents.items():
            if process.poll() is not None:
                raise StackError(f"the agent of {host} ended\n{self.logs()}")
        status = self.store.status()
        return status is not None and status["members"] >= len(self.agents) and not status["unplaced"]

    def stop_agents(self) -> dict[str, dict[str, Any]]:
        """Ends the agents, which restore their interfaces; what each agent measured, by host."""
        for process in self.agents.values():
            process.terminate()
        found = {}
        for host, process in self.agents.items():
            end_process(process)
            statistics = self.directory / f"{host}.json"
            if statistics.exists():
                found[host] = json.loads(statistics.read_text())
        self.agents.clear()
        return found

    # -- steering -------------------------------------------------------------------------------------------------------

    def set_policy(self, policy: str, **changes: Any) -> None:  # noqa: ANN401 -- any field of the policy document
        """Changes the running coordinator's policy, and waits until its status shows the change."""
        self.store.set_policy({"policy": policy, **changes})
        self.wait(lambda: (self.store.status() or {}).get("policy") == policy, f"the policy {policy}")

    def status(self) -> dict[str, Any]:
        """The coordinator's newest status."""
        return self.store.status() or {}

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = START_S) -> None:
        """Returns when the condition holds. Raises StackError with the logs if it does not within `timeout_s`."""
        if not wait_until(condition, timeout_s):
            raise StackError(f"waited {timeout_s:.0f} s for {what}\n{self.logs()}")
