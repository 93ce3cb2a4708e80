"""Checks before the controller side is started; each one says in one line what is wrong and what to do.

An edge: files under /proc and /run, `ip` for an interface in another network namespace.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
from pathlib import Path
from stat import S_IMODE
from typing import NamedTuple

from controller.config.schema import Config
from controller.openflow.tls import CertificateError, context, load_pair
from controller.processes.identity import Identity, identify, in_netns, netns_path
from controller.spanning_tree.snmp_credentials import CredentialsError, load
from controller.store.url import socket_of
from controller.supervision import runstate
from controller.supervision.users import COORDINATOR, NAMES, OPENFLOW, WEB, Users
from protocol.auth import Key
from protocol.key import KeyFileError

LISTEN = "0A"  # enum tcp_state in include/net/tcp_states.h, as /proc/net/tcp shows it
NO_ADDRESS = "00:00:00:00:00:00"
"""What the kernel tells of the loopback interface, whose frames reach no switch."""


class CannotStart(Exception):
    """Something is missing or in the way; the text is one line with the field and the remedy."""


class Claim(NamedTuple):
    """A run directory that is ours from now on."""

    made: bool
    """Baton made it, now or in an earlier run that was killed."""
    before: tuple[int, int] | None
    """Mode and group of one that was there, if Baton changed them."""


def own_identity() -> Identity:
    """This process."""
    identity = identify(os.getpid())
    assert identity is not None
    return identity


def claim_run_dir(run_dir: Path, users: Users | None = None) -> Claim:
    """Makes the run directory if there is none. It is for its owner alone then; with `users`, these may pass through it to what
    is theirs.

    Raises:
        CannotStart: another controller side is up in it, it can't be made, somebody else may write into it, or a user of
            `users` can't reach it.
    """
    made = _claimed(run_dir)
    try:
        before = _guard(run_dir, None if users is None else users.group)
    except OSError as error:
        raise CannotStart(f"run_dir: {run_dir}: {error.strerror}; run as root, or set another") from None
    for name in NAMES if users is not None else ():
        if users is not None and (barrier := users.barrier(name, run_dir / "any")) is not None:
            runstate.give_back(run_dir, before)
            who = f"the {name}'s user (uid {users.uids[name]})"
            raise CannotStart(f"run_dir: {barrier} can't be entered by {who}; chmod 711 it, or set another")
    return Claim(made, None if made else before)


def _guard(run_dir: Path, group: int | None) -> tuple[int, int] | None:
    """Has nobody else read, write or enter a run directory that was there before; who has `group` may enter it. Returns the
    mode and group that it had; None: they are as they were.

    Raises CannotStart, OSError.
    """
    status = run_dir.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        whose = f"belongs to uid {status.st_uid}" if status.st_uid != os.geteuid() else "may be written by others"
        raise CannotStart(f"run_dir: {run_dir} {whose}; name a directory for Baton alone, or none that exists")
    names = {path.name for path in run_dir.iterdir()}
    if taken := names & {*runstate.DIRECTORIES, *runstate.FILES}:
        raise CannotStart(f"run_dir: {run_dir / min(taken)} is not Baton's; move it away, or set another run_dir")
    if not all(map(runstate.may_be_ours, names)):  # what has other entries is not for Baton alone
        return None
    run_dir.chmod(0o700 if group is None else 0o710)
    if group is not None:
        os.chown(run_dir, -1, group)
    return S_IMODE(status.st_mode), status.st_gid


def _claimed(run_dir: Path) -> bool:
    try:
        before = runstate.load(run_dir)
    except runstate.Damaged as error:
        raise CannotStart(str(error)) from None
    except runstate.NothingUp:
        before = None
    if before is not None:
        if before.alive():
            down = runstate.command("down", run_dir)
            raise CannotStart(f"run_dir: {run_dir} is in use by pid {before.supervisor.pid}; `{down}` stops it")
        runstate.take_down(run_dir, keep_logs=True)
    try:
        if run_dir.is_dir():
            return _is_ours(run_dir) if before is None else before.made_run_dir
        run_dir.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise CannotStart(f"run_dir: {run_dir} can't be made ({error.strerror}); run as root, or set another") from None
    return True


def _is_ours(run_dir: Path) -> bool:
    """Whether the directory holds nothing but the log of a start that failed: that start made it."""
    names = [path.name for path in run_dir.iterdir()]
    return bool(names) and all(name.startswith(runstate.LOG) for name in names)


def check_store(url: str, users: Users | None) -> None:
    """Raises CannotStart: the store is a Unix socket that a process's user can't reach."""
    if users is None or (path := socket_of(url)) is None:
        return
    for name in (OPENFLOW, COORDINATOR, WEB):
        barrier = users.barrier(name, Path(path))
        if barrier is None and Path(path).exists() and not users.may_write(name, Path(path)):
            barrier = Path(path)
        if barrier is not None:
            uid = users.uids[name]
            raise CannotStart(f"store: {barrier} keeps the {name}'s user (uid {uid}) out; open it to the group, or use TCP")


def check_listen(config: Config) -> None:
    """Raises CannotStart: the port for switches is in use, or nobody can listen at the address."""
    _, port = config.openflow.listen
    if listening(port):
        raise CannotStart(f"openflow.listen: port {port} is in use; stop the other controller, or set another port")
    if reason := cannot_listen(*config.openflow.listen):
        raise CannotStart(f"openflow.listen: {reason}; write an address of this machine")


def check_secrets(config: Config, users: Users | None) -> None:
    """Raises CannotStart: a certificate, or the SNMP credentials of a switch, can't be used."""
    if config.openflow.tls is not None:
        try:
            context(config.openflow.tls.files(Path()))
        except CertificateError as error:
            raise CannotStart(str(error)) from None
    if (web := config.web) is not None and web.cert is not None:
        user = os.geteuid() if users is None else users.uids[WEB]
        try:
            load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "web", str(web.cert), str(web.key), user)
        except CertificateError as error:
            raise CannotStart(str(error)) from None
    for source in config.sources:
        if source.credentials:
            try:
                load(Path(source.credentials))
            except CredentialsError as error:
                raise CannotStart(f"fabric: switch {source.switch}: {error}") from None


def listening(port: int) -> bool:
    """Whether some process listens on this TCP port. Reads /proc: a test connection would look like a switch."""
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                return True
    return False


def cannot_listen(host: str, port: int) -> str:
    """Why no process can listen at this address now; empty if one can."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        return f"{host}:{port}: {error.strerror}"
    except UnicodeError:  # of the codec for names of hosts
        return f"{host}:{port}: is no name of a host"
    return ""


def numeric(host: str, port: int) -> str:
    """The address of a host by name or address; empty if there is none. May take as long as name servers do."""
    try:
        return str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][4][0])
    except (OSError, UnicodeError):
        return ""


def check_coordinator(config: Config) -> str:
    """The MAC address of the coordinator's interface; empty when there is no coordinator section.

    Raises:
        CannotStart: no such namespace, interface or key; names the field.
    """
    coordinator = config.coordinator
    if coordinator is None:
        return ""
    for field, file in (("key_file", coordinator.key_file), ("shared_key_file", coordinator.shared_key_file)):
        try:
            if file is not None:
                Key.load(file)
        except KeyFileError as error:
            raise CannotStart(f"coordinator.{field}: {error}") from None
    netns = coordinator.netns
    if netns is not None and not Path(netns_path(netns)).exists():
        raise CannotStart(f"coordinator.netns: there is no {netns_path(netns)}; name one that `ip netns` shows")
    command = [*in_netns(netns), "ip", "-j", "link", "show", "dev", coordinator.interface]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        where = f" in {netns}" if netns else ""
        raise CannotStart(
            f"coordinator.interface: no interface {coordinator.interface}{where} ({answer.stderr.strip()}); "
            "name one that `ip link` shows"
        )
    address: str = json.loads(answer.stdout)[0].get("address", NO_ADDRESS)  # a tunnel (tun, WireGuard) has none
    if address == NO_ADDRESS:
        raise CannotStart(f"coordinator.interface: {coordinator.interface} has no MAC address; name an Ethernet interface")
    return address
