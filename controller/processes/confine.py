"""Takes the rights of a process away and becomes its program: `python -S -m controller.processes.confine RIGHTS PROGRAM...`.
An edge: limits, sockets, seccomp(2), setpriv(1).

RIGHTS is a `controller.processes.rights.Rights` as JSON. What needs rights is done here: limits, and packet sockets in another
network namespace. Then a filter refuses system calls (ebpf/calls.py), and util-linux' `setpriv` takes user, groups and
capabilities away. So the program has no right for a single instruction that it should not have.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import socket
import sys
from collections.abc import Sequence
from typing import Any

from controller.processes.identity import enter_netns
from ebpf.calls import refuse_calls

LINK = "BATON_LINK"
"""The environment's name for the descriptors of packet sockets."""
KEPT = "BATON_KEPT"
"""The environment's name for the descriptor of a file that outlives the process."""
REALTIME = ("sys_nice", "ipc_lock")
TC_PRIO_CONTROL = 7  # linux/pkt_sched.h
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h
ROOM_BYTES = 16_000_000
"""Of each socket, in each direction: thousands of hosts that speak at once, as when their leader starts, fill some 10 MB. The
kernel's usual room is for about 200 frames. Room that is not needed costs nothing."""


def packet_sockets(count: int, netns: str | None) -> list[int]:
    """The descriptors of new packet sockets in a network namespace (None: this one); their frames get the highest priority, and
    more room than others may ask for.

    Raises OSError: there is no such namespace, or CAP_NET_RAW or, for another namespace, CAP_SYS_ADMIN is missing."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if netns is not None:
            enter_netns(netns)
        made = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in range(count)]
        if netns is not None:
            enter_netns(f"/proc/self/fd/{home}")
    finally:
        os.close(home)
    for one in made:
        one.set_inheritable(True)
        with contextlib.suppress(PermissionError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, TC_PRIO_CONTROL)
            for room in (SO_RCVBUFFORCE, SO_SNDBUFFORCE):
                one.setsockopt(socket.SOL_SOCKET, room, ROOM_BYTES)
    return [one.detach() for one in made]


def kept_file(path: str) -> int:
    """The descriptor of a file, which is made if it is not there, to read and write. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    os.set_inheritable(descriptor, True)
    return descriptor


def limit(realtime: int) -> tuple[str, ...]:
    """Sets the limits of real-time priority and, if there is one, of locked memory. Returns the capabilities that take their
    place: where they can't be raised (without CAP_SYS_RESOURCE) the program needs some if it may have a priority."""
    try:
        resource.setrlimit(resource.RLIMIT_RTPRIO, (realtime, realtime))
        if realtime:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError:
        return REALTIME if os.geteuid() == 0 else ()
    return ()


def credentials(rights: dict[str, Any], more: Sequence[str] = ()) -> list[str]:
    """The beginning of a command that has the user, the groups and the capabilities of these rights and `more`, and ends with
    its parent."""
    command = ["setpriv", "--pdeathsig", "TERM", "--no-new-privs"]
    if rights["user"] is not None:
        kept = ",".join(["-all", *(f"+{name}" for name in (*rights["capabilities"], *more))])
        handed = ",".join(["-all", *(f"+{name}" for name in more)])
        command += ["--reuid", str(rights["user"]), "--regid", str(rights["group"]), "--clear-groups"]
        command += ["--inh-caps", handed, "--ambient-caps", handed, "--bounding-set", kept]
    return [*command, "--"]


def main(arguments: Sequence[str]) -> str:
    """Becomes the program of the arguments; returns only if it can't, with the reason."""
    rights, program = json.loads(arguments[0]), arguments[1:]
    more = limit(rights["realtime"])
    try:
        if rights["packet_sockets"]:
            os.environ[LINK] = " ".join(map(str, packet_sockets(rights["packet_sockets"], rights["netns"])))
    except OSError as error:
        return f"no packet sockets ({error}): start Baton as root, and name a network namespace that there is"
    try:
        if rights["kept_file"] is not None:
            os.environ[KEPT] = str(kept_file(rights["kept_file"]))
    except OSError as error:
        print(f"{rights['kept_file']}: {error.strerror}: no epoch is kept; let it be written", file=sys.stderr)
    try:
        refuse_calls(families=rights["families"], bpf=rights["bpf"])
    except OSError as error:
        if error.errno != errno.EINVAL:
            return f"no system calls can be refused ({error}): apt-get install libseccomp2"
        print("this kernel has no filters of system calls (CONFIG_SECCOMP_FILTER): none are refused", file=sys.stderr)
    command = [*credentials(rights, more), *program]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
