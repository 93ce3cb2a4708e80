"""Managed switches for tests: net-snmp's snmpd on loopback in a namespace, each with a recording of what a switch answers."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.emulation.namespaces import run

HERE = Path(__file__).parent
COMMUNITY, USER, AUTH, PRIV = "readers-word", "watcher", "authenticates-1", "hides-it-well-2"
TABLES = (".1.3.6.1.2.1.17", ".1.3.6.1.2.1.2.2", ".1.3.6.1.2.1.31.1.1", ".1.0.8802.1.1.2")
FORWARDING, BLOCKING, UP, DOWN = 5, 2, 1, 2
_numbers = itertools.count(16100)


@dataclass
class Port:
    """A port as the switch's tables have it: bridge port number `at`, interface index `at` + 100."""

    name: str
    state: int = FORWARDING
    oper: int = UP
    neighbour: tuple[str, str] | None = None


def recording(ports: list[Port]) -> str:
    """BRIDGE-MIB, IF-MIB and LLDP-MIB of a switch with these ports, as snmp_recorded.py reads it."""
    lines = []
    for at, port in enumerate(ports, 1):
        lines += [
            f".1.3.6.1.2.1.17.1.4.1.2.{at}|integer|{at + 100}",
            f".1.3.6.1.2.1.17.2.15.1.3.{at}|integer|{port.state}",
            f".1.3.6.1.2.1.2.2.1.2.{at + 100}|string|long description of {port.name}",
            f".1.3.6.1.2.1.2.2.1.8.{at + 100}|integer|{port.oper}",
            f".1.3.6.1.2.1.31.1.1.1.1.{at + 100}|string|{port.name}",
            f".1.0.8802.1.1.2.1.3.7.1.2.{at}|integer|5",
            f".1.0.8802.1.1.2.1.3.7.1.3.{at}|string|{port.name}",
        ]
        if port.neighbour is not None:
            system, remote = port.neighbour
            lines += [
                f".1.0.8802.1.1.2.1.4.1.1.6.0.{at}.1|integer|5",
                f".1.0.8802.1.1.2.1.4.1.1.7.0.{at}.1|string|{remote}",
                f".1.0.8802.1.1.2.1.4.1.1.9.0.{at}.1|string|{system}",
            ]
    return "\n".join(lines) + "\n"


class SnmpAgent:
    """One switch's agent, at `address` of a namespace, for version 2c and 3."""

    def __init__(self, namespace: str, directory: Path, ports: list[Port]) -> None:
        self.directory = directory
        self.directory.mkdir()
        self.address = f"127.0.0.1:{next(_numbers)}"
        self._namespace = namespace
        self._file = directory / "recording"
        self.set(ports)
        serve = f"{sys.executable} {HERE / 'snmp_recorded.py'} {self._file}"
        (directory / "agent.conf").write_text(
            "\n".join(
                [
                    f"agentAddress udp:{self.address}",
                    f"rocommunity {COMMUNITY} 127.0.0.1",
                    "view none included .1.3.6.1.2.1.1",
                    "rocommunity narrow-view 127.0.0.1 -V none",
                    f'createUser {USER} SHA "{AUTH}" AES "{PRIV}"',
                    f"rouser {USER} priv .1",
                    *(f"pass_persist -p 1 {table} {serve}" for table in TABLES),
                ]
            )
        )
        self._log = (directory / "snmpd.log").open("wb")
        self._process = subprocess.Popen(
            ("ip", "netns", "exec", namespace, "snmpd", "-f", "-Lo", "-C", "-c", str(directory / "agent.conf")),
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "SNMP_PERSISTENT_DIR": str(directory), "MIBS": ""},
        )
        deadline = time.monotonic() + 20
        for table in TABLES:  # whose helper starts with the first question
            command = ("snmpgetnext", "-On", "-t", "1", "-v2c", "-c", COMMUNITY, self.address, table)
            while subprocess.run((*self._tool, *command), capture_output=True, check=False).returncode:
                assert time.monotonic() < deadline, (directory / "snmpd.log").read_text()

    def set(self, ports: list[Port]) -> None:
        """What it answers from now on."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(recording(ports))
        fresh.replace(self._file)

    def walk(self, oid: str, *who: str) -> dict[str, str]:
        """What net-snmp's own snmpwalk reads, by the last number of the OID; `who` are its options for the credentials."""
        pairs = (line.split(maxsplit=1) for line in run(*self._tool, "snmpwalk", "-Onq", *who, self.address, oid).splitlines())
        return {key.rpartition(".")[2]: value.strip('"') for key, value in pairs}

    @property
    def _tool(self) -> tuple[str, ...]:
        """Runs one of net-snmp's tools in the namespace; what it keeps is in our directory."""
        return ("ip", "netns", "exec", self._namespace, "env", f"SNMP_PERSISTENT_DIR={self.directory}", "MIBS=")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(5)
        self._log.close()


def missing() -> str | None:
    """Why such an agent can't run here, or None."""
    if os.geteuid() != 0:
        return "needs root: makes network namespaces"
    for tool, package in (("snmpd", "snmpd"), ("snmpwalk", "snmp")):
        if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            return f"needs {tool} (apt-get install {package})"
    return None
