"""Turns the tables of a managed switch's SNMP agent into the states of its ports. Pure.

| what                 | object                              | source                          |
|----------------------|-------------------------------------|---------------------------------|
| a port's tree state  | dot1dStpPortState (5: forwarding)   | BRIDGE-MIB, RFC 4188            |
| which interface it is| dot1dBasePortIfIndex                | BRIDGE-MIB, RFC 4188            |
| is its link up       | ifOperStatus (1: up)                | IF-MIB, RFC 2863                |
| what it is called    | ifName, else ifDescr                | IF-MIB, RFC 2863                |
| its neighbour        | lldpRemSysName, lldpRemPortId, ...  | LLDP-MIB, IEEE 802.1AB-2005, 12 |

RSTP's state discarding appears as blocking(2) (RFC 4318). A column is a mapping from the rest of the OID behind it, the index,
to the value: int, or bytes for text and addresses.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.spanning_tree.port_states import Neighbour, PortState, TreeSourceError
from protocol.bodies.text import printable

Oid = tuple[int, ...]
Column = Mapping[Oid, int | bytes]

_MIB2: Oid = (1, 3, 6, 1, 2, 1)
_LLDP: Oid = (1, 0, 8802, 1, 1, 2, 1)
STP_STATE: Oid = (*_MIB2, 17, 2, 15, 1, 3)
BASE_IF_INDEX: Oid = (*_MIB2, 17, 1, 4, 1, 2)
OPER_STATUS: Oid = (*_MIB2, 2, 2, 1, 8)
IF_DESCR: Oid = (*_MIB2, 2, 2, 1, 2)
IF_NAME: Oid = (*_MIB2, 31, 1, 1, 1, 1)
LOCAL_SUBTYPE, LOCAL_ID = ((*_LLDP, 3, 7, 1, column) for column in (2, 3))
REMOTE_SUBTYPE, REMOTE_ID, REMOTE_DESCR, REMOTE_NAME = ((*_LLDP, 4, 1, 1, column) for column in (6, 7, 8, 9))

STATES = (STP_STATE, OPER_STATUS)
"""The columns that change with the tree."""
NAMES = (BASE_IF_INDEX, IF_NAME, IF_DESCR, LOCAL_SUBTYPE, LOCAL_ID, REMOTE_SUBTYPE, REMOTE_ID, REMOTE_DESCR, REMOTE_NAME)
"""The columns that change with a cable or with the switch's configuration."""

FORWARDING, UP = 5, 1
INTERFACE_NAME, MAC_ADDRESS = 5, 3  # LldpPortIdSubtype


def port_states(switch: str, columns: Mapping[Oid, Column]) -> frozenset[PortState]:
    """The ports of the fabric's switch `switch`, from its columns of STATES and NAMES.

    Raises:
        TreeSourceError: a table that is needed is empty; the text says which one, and does not name the source.
    """
    states, interfaces = columns[STP_STATE], columns[BASE_IF_INDEX]
    names = {index: _text(name) for index, name in {**columns[IF_DESCR], **columns[IF_NAME]}.items() if name}
    for found, table in ((states, "BRIDGE-MIB (dot1dStpPortState)"), (interfaces, "BRIDGE-MIB (dot1dBasePortIfIndex)")):
        if not found:
            raise TreeSourceError(f"shows no {table}; turn its spanning tree on, and give this reader a view of the table")
    if not names:
        raise TreeSourceError("shows no IF-MIB (ifName, ifDescr); give this reader a view of it")
    neighbours = _neighbours(columns, {port: names.get(_index(value), "") for port, value in interfaces.items()})
    ports = set()
    for port, value in interfaces.items():
        name = names.get(_index(value))
        if name is None or port not in states:
            continue
        up = columns[OPER_STATUS].get(_index(value), UP) == UP
        ports.add(PortState(switch, name, up and states[port] == FORWARDING, neighbours.get(name)))
    if not ports:
        raise TreeSourceError("shows no port both in BRIDGE-MIB and in IF-MIB; compare its dot1dBasePortIfIndex and ifName")
    return frozenset(ports)


def _neighbours(columns: Mapping[Oid, Column], port_names: Mapping[Oid, str]) -> dict[str, Neighbour]:
    """Neighbours by the name of our port. A port with several (a hub, a bridge that forwards LLDP) counts as one with none."""
    told: dict[str, set[Neighbour]] = {}
    for index, system in columns[REMOTE_NAME].items():
        local = index[1:2]  # lldpRemTimeMark, lldpRemLocalPortNum, lldpRemIndex
        name, remote = _local_name(columns, local, port_names), _remote_port(columns, index)
        if name and system:
            told.setdefault(name, set()).add(Neighbour(_text(system), remote))
    return {name: found.pop() for name, found in told.items() if len(found) == 1}


def _local_name(columns: Mapping[Oid, Column], number: Oid, port_names: Mapping[Oid, str]) -> str:
    """A port's name in lldpLocPortTable, if that is an interface's name; else the number is a dot1dBasePort."""
    if columns[LOCAL_SUBTYPE].get(number) == INTERFACE_NAME:
        return _text(columns[LOCAL_ID].get(number, b""))
    return port_names.get(number, "")


def _remote_port(columns: Mapping[Oid, Column], index: Oid) -> str:
    """The neighbour's own name of its port; the port's description where its id is a MAC address."""
    if columns[REMOTE_SUBTYPE].get(index) == MAC_ADDRESS:
        return _text(columns[REMOTE_DESCR].get(index, b""))
    return _text(columns[REMOTE_ID].get(index, b""))


def _index(value: int | bytes) -> Oid:
    return (value,) if isinstance(value, int) else ()


def _text(value: int | bytes) -> str:
    return printable(value.decode(errors="replace").strip("\0 ")) if isinstance(value, bytes) else str(value)
