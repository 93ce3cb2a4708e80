"""Reads the ports of a managed switch from its SNMP agent, by pysnmp. An edge: UDP.

    switch = SnmpSwitch("s1", "10.0.0.11", load(Path("/etc/baton/snmp.yaml")))
    switch.read()        # frozenset[PortState], as every source of the tree has it

controller/spanning_tree/snmp_tables.py has the tables and their meaning. Every reading asks for states; it asks for names and
neighbours, which are much more data, every `NAMES_NS`, or when a port is new. No error ever shows a credential.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from pysnmp.hlapi.v3arch import asyncio as snmp
from pysnmp.proto import errind
from pysnmp.proto.rfc1905 import EndOfMibView

from controller.spanning_tree.port_states import PortState, TreeSourceError
from controller.spanning_tree.snmp_credentials import Community, Credentials, User
from controller.spanning_tree.snmp_tables import NAMES, STATES, STP_STATE, Column, Oid, port_states
from topology.sources import split_address

TIMEOUT_S, RETRIES = 1, 2
PATIENCE_S = 15
"""How long one whole reading may take."""
REPETITIONS = 24
"""Rows that one GETBULK asks for: with nine columns of names about as much as fits in a datagram."""
ROWS_MAX = 20_000
NAMES_NS = 15_000_000_000

AUTH = {
    "sha": snmp.USM_AUTH_HMAC96_SHA,
    "sha224": snmp.USM_AUTH_HMAC128_SHA224,
    "sha256": snmp.USM_AUTH_HMAC192_SHA256,
    "sha384": snmp.USM_AUTH_HMAC256_SHA384,
    "sha512": snmp.USM_AUTH_HMAC384_SHA512,
}
PRIV = {"aes": snmp.USM_PRIV_CFB128_AES, "aes192": snmp.USM_PRIV_CFB192_AES, "aes256": snmp.USM_PRIV_CFB256_AES}

REASONS: dict[type[Exception], str] = {
    errind.UnknownUserName: "does not know the user; make the user there, or mend user in the credentials",
    errind.WrongDigest: "refuses auth_password; mend it, or auth, in the credentials",
    errind.AuthenticationFailure: "refuses auth_password; mend it, or auth, in the credentials",
    errind.DecryptionError: "can't decrypt; mend priv_password, or priv, in the credentials",
    errind.EncryptionError: "can't be asked by version 3 here: it needs the library cryptography 47 or newer; run `make setup`",
    errind.UnsupportedSecurityLevel: "does not let the user ask with authentication and encryption; allow it there (authPriv)",
    errind.NotInTimeWindow: "has another time than it had; it is asked anew",
    errind.UnknownCommunityName: "refuses the community; mend it in the credentials",
}
SILENT = {
    Community: "no answer within {s} s; check its address, the community (a wrong one gets no answer), and who may ask there",
    User: "no answer within {s} s; check its address, priv_password (a wrong one gets no answer), and who may ask there",
}

logging.getLogger("pysnmp").setLevel(logging.WARNING)


class SnmpSwitch:
    """One switch. Two threads must not use it at once."""

    def __init__(self, name: str, address: str, credentials: Credentials) -> None:
        """`name` is the fabric's; `address` is HOST, HOST:PORT or [IPV6]:PORT."""
        self._name = name
        self._address = address
        self._silent = SILENT[type(credentials)]
        self._who = _who(credentials)
        self._context = snmp.ContextData(contextName="" if isinstance(credentials, Community) else credentials.context)
        self._runner = asyncio.Runner()
        self._engine: Any = None  # pysnmp publishes no types
        self._target: Any = None
        self._names: dict[Oid, Column] = {}
        self._ports: frozenset[Oid] = frozenset()
        self._names_ns = 0

    def read(self) -> frozenset[PortState]:
        """The states of its ports now. Blocks for `PATIENCE_S` at the most.

        Raises:
            TreeSourceError: no answer, refused, or a table is missing or breaks off; says which and what to do.
        """
        try:
            return self._runner.run(asyncio.wait_for(self._read(), PATIENCE_S))
        except TimeoutError:
            reason = self._silent.format(s=PATIENCE_S)
        except TreeSourceError as error:
            reason = str(error)
        except Exception as error:  # whatever pysnmp raises at an agent's answer: its text might hold credentials
            reason = f"{type(error).__name__} in its answer; see that snmpwalk reads it"
        self._forget()
        raise TreeSourceError(f"tree source snmp:{self._address} ({self._name}) {reason}") from None

    def close(self) -> None:
        """Closes its socket."""
        self._forget()
        self._runner.close()

    def _forget(self) -> None:
        """Has the next reading open a new session: an agent that was restarted has another engine and other clocks."""
        if self._engine is not None:
            self._engine.close_dispatcher()
        self._engine = self._target = None
        self._names_ns = 0

    async def _read(self) -> frozenset[PortState]:
        if self._engine is None:
            self._engine = snmp.SnmpEngine()
            self._target = await _target(self._address)
        columns = await self._walk(STATES)
        now_ns = time.monotonic_ns()
        known = self._names and columns[STP_STATE].keys() <= self._ports
        if not known or now_ns - self._names_ns > NAMES_NS:
            self._names, self._names_ns = await self._walk(NAMES), now_ns
            self._ports = frozenset(columns[STP_STATE])
        return port_states(self._name, columns | self._names)

    async def _walk(self, columns: Sequence[Oid]) -> dict[Oid, Column]:
        """All rows of columns, side by side: RFC 3416, section 4.2.3."""
        found: dict[Oid, dict[Oid, int | bytes]] = {column: {} for column in columns}
        last = {column: column for column in columns}
        while last:
            order = list(last)
            answer = await self._ask([last[column] for column in order])
            if not answer:  # at the end of its tables it would say so in each row
                raise TreeSourceError("answers without a row before its tables end; see that snmpbulkwalk reads all its ports")
            for at, (oid, value) in enumerate(answer):
                column = order[at % len(order)]
                if column not in last:
                    continue  # it ended in an earlier row of this answer
                if oid[: len(column)] != column or value is None:
                    del last[column]
                    continue
                if oid <= last[column] or len(found[column]) >= ROWS_MAX:
                    raise TreeSourceError("answers with tables that do not end; its software needs an update")
                last[column] = oid
                found[column][oid[len(column) :]] = value
        return dict(found)

    async def _ask(self, after: Sequence[Oid]) -> list[tuple[Oid, int | bytes | None]]:
        """The objects after these, row by row; None at the end of the agent's tables."""
        wanted = [snmp.ObjectType(snmp.ObjectIdentity(oid)) for oid in after]
        problem, status, _, found = await snmp.bulk_cmd(
            self._engine, self._who, self._target, self._context, 0, REPETITIONS, *wanted, lookupMib=False
        )
        if problem is not None:
            raise TreeSourceError(_reason(problem, self._silent))
        if status:
            name = status.prettyPrint()
            raise TreeSourceError(f"answers {name}; give this reader a view of BRIDGE-MIB, IF-MIB and LLDP-MIB")
        return [(tuple(oid), _value(value)) for oid, value in found]


def _who(credentials: Credentials) -> Any:  # noqa: ANN401 -- pysnmp publishes no types
    if isinstance(credentials, Community):
        return snmp.CommunityData(credentials.community.get_secret_value(), mpModel=1)
    return snmp.UsmUserData(
        credentials.user,
        authKey=credentials.auth_password.get_secret_value(),
        privKey=credentials.priv_password.get_secret_value(),
        authProtocol=AUTH[credentials.auth],
        privProtocol=PRIV[credentials.priv],
    )


async def _target(address: str) -> Any:  # noqa: ANN401 -- as above
    host, port = split_address(address)
    kind = snmp.Udp6TransportTarget if ":" in host else snmp.UdpTransportTarget
    return await kind.create((host, port), timeout=TIMEOUT_S, retries=RETRIES)


def _value(value: Any) -> int | bytes | None:  # noqa: ANN401 -- as above
    if isinstance(value, EndOfMibView):
        return None
    try:
        return bytes(value) if hasattr(value, "asOctets") else int(value)
    except (TypeError, ValueError):
        return b""  # an object identifier, say: none of ours


def _reason(problem: Any, silent: str) -> str:  # noqa: ANN401 -- an ErrorIndication, an exception that is returned
    if isinstance(problem, errind.RequestTimedOut):
        return silent.format(s=TIMEOUT_S * (RETRIES + 1))
    for kind, text in REASONS.items():
        if isinstance(problem, kind):
            return text
    return f"refuses to answer ({type(problem).__name__}); see its log of SNMP"
