"""The users by which the processes run, and whether they reach what they need. An edge: the machine's users, directories.

A user that the machine does not have is replaced by a number of Baton's own: those from FIRST_ID on. No program of Debian gives
out uids from 65,536 to 99,999: `useradd` ends at 60,000, systemd's dynamic users at 65,519, and ranges of subordinate ids begin
at 100,000. So such a uid owns no file and no process but Baton's. If it does have a name here, Baton does not use it.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controller.config.schema import UsersSection

HOW = "`baton install-units` says how to make it"
FIRST_ID = 98_100
"""The gid of the group; the uids of STORE and so on follow it."""
STORE, OPENFLOW, COORDINATOR, WEB = "store", "openflow", "coordinator", "web"
NAMES = (STORE, OPENFLOW, COORDINATOR, WEB)
REPOSITORY = Path(__file__).resolve().parents[2]


class NoUsers(Exception):
    """The processes can't run by users of their own; the text is one line with the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """The numbers of the processes' users, and of the group that all of them have."""

    group: int
    uids: Mapping[str, int]
    missing: tuple[str, ...] = ()
    """The names that the machine does not know."""

    def barrier(self, name: str, path: Path) -> Path | None:
        """The first directory above a path that this user can't enter (access control lists do not count); None: none."""
        for directory in reversed(path.parents):
            try:
                status = directory.stat()
            except OSError:
                return directory
            if not _allowed(status, self.uids[name], self.group, stat.S_IXUSR, stat.S_IXGRP, stat.S_IXOTH):
                return directory
        return None


    def may_write(self, name: str, path: Path) -> bool:
        """Whether this user can write to a file, or connect to a socket."""
        return _allowed(path.stat(), self.uids[name], self.group, stat.S_IWUSR, stat.S_IWGRP, stat.S_IWOTH)


def resolve(section: UsersSection | None) -> Users | None:
    """The users of a configuration; None: all processes run by the user who starts Baton, who is not root or said so.

    Raises:
        NoUsers: a name that is not the default is not known here, two are the same or root's, or Baton's numbers are taken.
    """
    if section is None or os.geteuid() != 0:
        return None
    missing = []
    found = {}
    try:
        group = grp.getgrnam(section.group).gr_gid
    except KeyError:
        if section.group != UsersSection.model_fields["group"].default:
            raise NoUsers(f"users.group: there is no group {section.group}; {HOW}") from None
        missing.append(section.group)
        group = FIRST_ID
    for number, field in enumerate(NAMES, FIRST_ID + 1):
        name = getattr(section, field)
        try:
            found[field] = pwd.getpwnam(name).pw_uid
        except KeyError:
            if name != UsersSection.model_fields[field].default:
                raise NoUsers(f"users.{field}: there is no user {name}; {HOW}") from None
            missing.append(name)
            found[field] = number
            _check_free(number)
    if len({0, *found.values()}) <= len(found):
        raise NoUsers("users: must be four users, none of them root; or write `users: none` to run everything as root")
    return Users(group=group, uids=found, missing=tuple(missing))


def check_program(users: Users) -> None:
    """Raises NoUsers: a user can't enter the directories of Baton's code or of Python."""
    for path in (REPOSITORY / "controller", Path(sys.executable), Path(sys.prefix) / "lib"):
        for name in NAMES[1:]:
            if (barrier := users.barrier(name, path)) is not None:
                remedy = "install Baton where every user reads it, such as /opt, or write `users: none` to run all as root"
                raise NoUsers(f"users: {barrier} can't be entered by the {name}'s user (uid {users.uids[name]}); {remedy}")


def code_is_open() -> bool:
    """Whether users other than root reach Baton's code and Python."""
    try:
        check_program(Users(group=FIRST_ID, uids=dict.fromkeys(NAMES, FIRST_ID)))
    except NoUsers:
        return False
    return True


def check_ports(users: Users | None, ports: Iterable[tuple[str, int]]) -> None:
    """Raises NoUsers: a port is one of those that only root may listen on. `ports`: (field, port)."""
    first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    for field, port in ports:
        if users is not None and port < first:
            raise NoUsers(f"{field}: {port} is for root alone; write {first} or more, or lower ip_unprivileged_port_start")


def _check_free(number: int) -> None:
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        return
    raise NoUsers(f"users: uid {number} belongs to {name} here; make the users that `baton install-units` names")


def _allowed(status: os.stat_result, uid: int, gid: int, owner: int, group: int, others: int) -> bool:
    """Whether the bit of the mode that counts for this user is set."""
    bit = owner if status.st_uid == uid else group if status.st_gid == gid else others
    return bool(status.st_mode & bit)


def notice(users: Users | None) -> tuple[str, str] | None:
    """What the operator should know where processes run by other users than the configuration's: a severity, and the text."""
    if users is None:
        if os.geteuid():
            return None
        return "warning", "users: none: every process runs as root, and what takes one over is root"
    if not users.missing:
        return None
    numbers = ", ".join(f"{name} {uid}" for name, uid in users.uids.items())
    names = ", ".join(users.missing)
    return "info", f"users: {names} are not known here; processes run by numbers of Baton's: {numbers}"
