"""Refuses system calls to this process and all that it becomes, by a filter of classic BPF that libseccomp makes. An edge:
seccomp(2).

The filter denies what no process of Baton needs and an attacker would use: tracing, mounting, namespaces, modules, kernel keys,
io_uring, clocks, eBPF (but where it is needed), and sockets of other families.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterable

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
