"""Takes the rights of a process away and becomes its program: `python -S -m controller.processes.confine RIGHTS PROGRAM...`.
An edge: limits, sockets, seccomp(2), setpriv(1).

RIGHTS is a `controller.processes.rights.Rights` as JSON. What needs rights is done here: limits, and packet sockets in another
network namespace. Then libseccomp's filter denies what no process of Baton needs and an attacker would (tracing, mounting,
namespaces, modules, keys, eBPF, sockets of other families), and util-linux' `setpriv` takes user, groups and capabilities away.
So the program has no right for a single instruction that it should not have.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import socket
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from controller.processes.identity import enter_netns

LINK = "BATON_LINK"
"""The environment's name for the descriptors of packet sockets."""
REALTIME = ("sys_nice", "ipc_lock")
TC_PRIO_CONTROL = 7  # linux/pkt_sched.h
ALLOW, REFUSE = 0x7FFF0000, 0x00050000  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(0) in seccomp.h
SPECULATION, OPTIMIZE = 7, 8  # SCMP_FLTATR_CTL_SSB, SCMP_FLTATR_CTL_OPTIMIZE
EQUAL, ABOVE, MASKED = 4, 6, 7  # SCMP_CMP_EQ, _GT, _MASKED_EQ
UNKNOWN = -1  # __NR_SCMP_ERROR
NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)  # CLONE_NEW* in linux/sched.h
LAST_FAMILY = 63
REFUSED = """
ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp
mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr
open_by_handle_at quotactl quotactl_fd swapon swapoff acct
unshare setns
init_module finit_module delete_module kexec_load kexec_file_load reboot
add_key request_key keyctl
bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
settimeofday clock_settime clock_adjtime adjtimex stime sethostname setdomainname syslog vhangup
iopl ioperm modify_ldt uselib ustat sysfs nfsservctl lookup_dcookie
""".split()  # noqa: SIM905 -- a list of words, by purpose


class _Compared(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


class Filter:
    """A seccomp filter that allows what no rule refuses. Raises OSError: there is no libseccomp."""

    def __init__(self) -> None:
        self._library = library = ctypes.CDLL("libseccomp.so.2")
        library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))
        for attribute in (SPECULATION, OPTIMIZE):  # no slower branches; a tree, not a list. Old libraries lack them
            library.seccomp_attr_set(self._context, attribute, ctypes.c_uint32(2 if attribute == OPTIMIZE else 1))

    def refuse(self, name: str, *compared: tuple[int, int, int, int], error: int = errno.EPERM) -> None:
        """Refuses a system call, if all (argument, comparison, value, value) hold; passes over one that this machine lacks."""
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number == UNKNOWN:
            return
        array = (_Compared * len(compared))(*(_Compared(*one) for one in compared))
        refused = self._library.seccomp_rule_add_array(
            self._context, ctypes.c_uint32(REFUSE | error), number, len(compared), array
        )
        if refused not in (0, -errno.EDOM):  # EDOM: of another architecture
            raise OSError(-refused, f"{name}: {os.strerror(-refused)}")

    def load(self) -> None:
        """Binds this process, and all that it becomes or starts, for ever; also sets no_new_privs. Raises OSError."""
        if refused := self._library.seccomp_load(self._context):
            raise OSError(-refused, os.strerror(-refused))


def refuse_calls(*, families: Iterable[str], bpf: bool) -> None:
    """Loads the filter. Raises OSError: there is no libseccomp, or the kernel has no filters."""
    made = Filter()
    for name in REFUSED:
        if not (bpf and name == "bpf"):
            made.refuse(name)
    made.refuse("clone3", error=errno.ENOSYS)  # its flags are in memory, where no filter looks: glibc then calls clone
    for flag in NAMESPACES:
        made.refuse("clone", (0, MASKED, flag, flag))
    allowed = {int(getattr(socket, name)) for name in families}
    for family in range(LAST_FAMILY + 1):
        if family not in allowed:
            made.refuse("socket", (0, EQUAL, family, 0), error=errno.EAFNOSUPPORT)
    made.refuse("socket", (0, ABOVE, LAST_FAMILY, 0), error=errno.EAFNOSUPPORT)
    made.load()


def packet_sockets(count: int, netns: str | None) -> list[int]:
    """The descriptors of new packet sockets in a network namespace (None: this one); their frames get the highest priority.

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
    return [one.detach() for one in made]


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
