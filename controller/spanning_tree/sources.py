"""The active spanning tree of switches that Baton does not control. An edge: runs `ovs-vsctl` and `bridge`, asks by SNMP.

    states = read(TreeSource("ovsdb", "unix:/run/openvswitch/db.sock"), TreeSource("bridge", "br0"))
    tree = tree_from_port_states(fabric, states)

| kind     | where                                              | what is read                               |
|----------|----------------------------------------------------|--------------------------------------------|
| `ovsdb`  | an OVSDB server: `unix:PATH`, `tcp:HOST:PORT`, ... | `rstp_status`, `stp_state`, `link_state`   |
| `bridge` | a bridge, `NAME` or `NAMESPACE/NAME`; `*` for all  | the state that `bridge link` shows         |
| `snmp`   | a managed switch's agent, `HOST` or `HOST:PORT`    | BRIDGE-MIB, IF-MIB, LLDP-MIB: snmp_tables  |

Ports have the names that the switches themselves give them; a fabric file must use the same. The same holds for switches,
except for a source that is written at one switch of the fabric file: its report is about that switch.

A port forwards when its spanning tree protocol says so, or has none, and its link is up. `parse_...` and
`tree_from_port_states` are pure.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from controller.config.settings import TreeSource
from controller.spanning_tree.port_states import PortState, TreeSourceError
from protocol.bodies.text import printable
from topology.fabric import Fabric, Link
from topology.spanning_tree import Tree

TIMEOUT_S = 3
FORWARDING = "forwarding"  # IEEE 802.1D-2004 clause 17.2 and Linux's BR_STATE_FORWARDING; OVS capitalises RSTP's
OVSDB_QUERY = (
    *("--columns=name,ports,rstp_enable,stp_enable", "list", "Bridge"),
    *("--", "--columns=_uuid,name,interfaces,rstp_status,status", "list", "Port"),
    *("--", "--columns=_uuid,link_state", "list", "Interface"),
)


def reader(source: TreeSource) -> Callable[[], frozenset[PortState]]:
    """A function that reads one source again and again, as `read` does; it may keep a session between two readings."""
    return _SnmpReader(source).read if source.kind == "snmp" else partial(read, source)


class _SnmpReader:
    """Reads one switch by SNMP; keeps the session, and reads the credentials' file again until it is usable."""

    def __init__(self, source: TreeSource) -> None:
        # pysnmp takes half a second to import, and most fabrics have no such switch
        from controller.spanning_tree.snmp_switch import SnmpSwitch

        self._source = source
        self._make = SnmpSwitch
        self._switch: SnmpSwitch | None = None

    def read(self) -> frozenset[PortState]:
        from controller.spanning_tree.snmp_credentials import CredentialsError, load

        _, where, name, credentials = self._source
        try:
            if self._switch is None:
                self._switch = self._make(name, where, load(Path(credentials)))
            return self._switch.read()
        except CredentialsError as error:
            raise TreeSourceError(f"tree source {self._source} can't be read: {error}") from None
        except TreeSourceError:
            self.close()  # the next reading takes the credentials' file as it is then
            raise

    def close(self) -> None:
        if self._switch is not None:
            self._switch.close()
            self._switch = None


def read(*sources: TreeSource) -> frozenset[PortState]:
    """The states of all ports of the switches of these sources; "openflow" has none. Blocks.

    Raises:
        TreeSourceError: a source could not be read, or its answer could not be parsed.
    """
    states: set[PortState] = set()
    for source in sources:
        kind, where, switch, _ = source
        try:
            if kind == "ovsdb":
                options = [f"--db={where}", f"--timeout={TIMEOUT_S}", "--format=json"]
                states |= parse_ovsdb(_output(["ovs-vsctl", *options, "--", *OVSDB_QUERY]))
            elif kind == "bridge":
                namespace, _, bridge = where.rpartition("/")
                argv = ["bridge", *(["-n", namespace] if namespace else []), "-j", "link", "show"]
                found = parse_bridges(_output(argv))
                chosen = {state for state in found if bridge in ("*", state.switch)}
                if not chosen and bridge != "*":
                    raise TreeSourceError(f"tree source {kind}:{where} has no ports; name a bridge that has some")
                states |= {state._replace(switch=switch or state.switch) for state in chosen}
            elif kind == "snmp":
                session = _SnmpReader(source)
                try:
                    states |= session.read()
                finally:
                    session.close()
        except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
            raise TreeSourceError(f"tree source {kind}:{where} can't be read: {_reason(error)}") from error
    return frozenset(states)


def tree_from_port_states(fabric: Fabric, states: Iterable[PortState]) -> Tree:
    """The tree of a fabric whose links forward where the ports at both ends do.

    A port that a reporting switch does not list does not forward. Ends at hosts, at switches that don't report, and without a
    known port name don't block a link.

    Raises:
        FabricError: the forwarding links have a loop, as it may seem while a tree converges: keep the last tree and read
            again.
    """
    forwards = {(state.switch, state.port): state.forwarding for state in states}
    reporting = {switch for switch, _ in forwards}

    def blocked(link: Link) -> bool:
        ends = ((direction.source, fabric.port(direction)) for direction in link.directions)
        return any(not forwards.get((node, port), False) for node, port in ends if node in reporting and port is not None)

    return Tree.from_blocked(fabric, [link for link in fabric.links if blocked(link)])


def parse_ovsdb(text: str) -> frozenset[PortState]:
    """The states in the three tables of OVSDB_QUERY, one JSON object a line (RFC 7047, section 5.1, for the values).

    Raises ValueError, KeyError or TypeError on anything else.
    """
    bridges, ports, interfaces = (list(_rows(json.loads(line))) for line in text.splitlines() if line.strip())
    down = {row["_uuid"][1] for row in interfaces if row["link_state"] == "down"}
    port_of = {row["_uuid"][1]: row for row in ports}
    states = set()
    for bridge in bridges:
        for uuid in _references(bridge["ports"]):
            port = port_of[uuid]
            if port["name"] == bridge["name"]:
                continue  # the bridge's own port is no link of the fabric
            told = FORWARDING
            if bridge["rstp_enable"]:
                told = dict(port["rstp_status"][1]).get("rstp_port_state", FORWARDING)
            elif bridge["stp_enable"]:
                told = dict(port["status"][1]).get("stp_state", FORWARDING)
            up = any(interface not in down for interface in _references(port["interfaces"]))
            forwards = up and told.lower() == FORWARDING
            states.add(PortState(printable(bridge["name"]), printable(port["name"]), forwards))
    return frozenset(states)


def parse_bridges(text: str) -> frozenset[PortState]:
    """The states in the JSON of `bridge link`; raises as `parse_ovsdb` does."""
    return frozenset(
        PortState(
            printable(port["master"]), printable(port["ifname"]), port["state"] == FORWARDING and "LOWER_UP" in port["flags"]
        )
        for port in json.loads(text or "[]")
        if "master" in port and "state" in port
    )


def _rows(table: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 -- JSON
    for row in table["data"]:
        yield dict(zip(table["headings"], row, strict=True))


def _references(value: list[Any]) -> list[str]:
    """The uuids of a column of references: ["uuid", x] for one, ["set", [["uuid", x], ...]] for any other number."""
    references = value[1] if value[0] == "set" else [value]
    return [uuid for _, uuid in references]


def _output(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=TIMEOUT_S + 1).stdout


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} not found; install openvswitch-switch or iproute2"
    if isinstance(error, subprocess.TimeoutExpired) or (
        isinstance(error, subprocess.CalledProcessError) and error.returncode == -signal.SIGALRM
    ):
        return f"no answer within {TIMEOUT_S} s; check its address and that it runs"
    if isinstance(error, subprocess.CalledProcessError):
        lines = error.stderr.strip().splitlines() or [f"{error.cmd[0]} failed"]
        return f"{printable(lines[-1])}; check its address and that it runs"
    return f"{error!r} in its answer; check its version"
