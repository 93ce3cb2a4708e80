"""An interface's root qdisc as it was found: recorded in a file before the first change, put back at the end. An edge.

A kernel default (handle 0) comes back by itself when ours is deleted. A classless qdisc that an administrator set is put back
from the kernel's own dump of its options. Refused is what the dump does not show in full: a classful one (and red, choke and
gred), one with another below it or with filters of its own, and one with a table of sizes (`stab`, unless that only adds
overhead).
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import struct
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from agents.kernel.netlink import (
    NLM_F_CREATE,
    NLM_F_REPLACE,
    RTM_DELQDISC,
    RTM_DELTFILTER,
    RTM_GETQDISC,
    RTM_GETTFILTER,
    RTM_NEWQDISC,
    TC_H_CLSACT,
    TC_H_ROOT,
    TCA_KIND,
    TCA_OPTIONS,
    TCA_STAB,
    Entry,
    Netlink,
    NetlinkError,
    attribute,
    attributes,
    message,
)
from agents.kernel.offload import read_segments, set_segments
from ebpf import egress

log = logging.getLogger("baton.host")

CLASSIFIER_PREFERENCE = 47809
"""The preference of the classifier's filter, which identifies it among filters at the same hook."""
TAGGER_PREFERENCE = CLASSIFIER_PREFERENCE - 1
"""The tagger's: before the classifier at the same hook, which reads the DSCP that the tagger writes."""
NIC_CLASS_PREFERENCE = CLASSIFIER_PREFERENCE + 1
"""The preference of the program that gives packets their traffic class, where the interface obeys PFC: after the classifier,
whose result it reads."""
INGRESS, EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
ETH_P_ALL = 0x0300  # in network order
NOT_RESTORABLE = frozenset(
    {"atm", "cbq", "drr", "dsmark", "ets", "hfsc", "htb", "mq", "mqprio", "multiq", "prio", "qfq", "taprio"}
    | {"choke", "gred", "red"}
)
"""Classful qdiscs; and those whose dump is no set-up: it lacks a table that red and choke need, and gred takes its queues one
by one (red_change, choke_change, gred_init in the kernel's net/sched/)."""
TCA_STAB_BASE, SIZE_SPECIFICATION = 1, struct.Struct("=BBhiIIII")
"""struct tc_sizespec of linux/pkt_sched.h; its last field counts the entries of the table."""
SO_NETNS_COOKIE = 71
WAKEUP_FILTER = "drop_wakeup"
"""The name of the filter at Baton's root qdisc, by which it is known."""


class ForeignQdisc(Exception):
    """The interface carries a qdisc that this agent did not make and cannot put back, or has no egress for its filters."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was found: the root qdisc (kind empty for none), whether there was a clsact, and the limit of super-packets
    (frames)."""

    interface: str
    kind: str
    handle: int
    options: str
    clsact: bool
    gso_segments: int
    size_table: str = ""
    """In hexadecimal, as the options are: what counts as a packet's size, where that needs no table."""


def take(netlink: Netlink, interface: str, index: int, *, take_over: bool) -> Snapshot:
    """Reads the root qdisc of an interface, by its index.

    Raises:
        ForeignQdisc: it is classful, or has a qdisc below it that an administrator made, or filters, or a table of sizes, or is
            another agent's, and `take_over` was not given; or there is no egress for filters.
    """
    found = _qdiscs(netlink, index)
    if why := without_egress(found, interface):
        raise ForeignQdisc(why)
    segments = read_segments(netlink, index)
    clsact = any(entry.parent == TC_H_CLSACT and entry.kind == "clsact" for entry in found)
    root = _root(found)
    # The kernel gives no handle to those that it makes below another.
    below = next((entry for entry in found if entry.handle and entry.parent not in (TC_H_ROOT, TC_H_CLSACT)), None)
    if root is None or (root.handle == 0 and below is None):
        return Snapshot(interface, "", 0, "", clsact, segments)
    has = _not_shown(netlink, index, root)
    if root.kind in NOT_RESTORABLE or below is not None or has:
        if not take_over:
            if root.handle and _is_ours(netlink, index, root):
                raise ForeignQdisc(
                    f"interface {interface}: another agent of Baton, started with another --run-dir, runs there, or was killed "
                    f"there; stop that agent first (`pgrep -af 'baton agent'`), or, if none runs, remove the queues that it "
                    f"left (tc qdisc del dev {interface} root)"
                )
            within = has if below is None else f" with {_named(below)} below it"
            at = "root" if root.handle or below is None else f"parent :{below.parent & 0xFFFF:x}"
            raise ForeignQdisc(
                f"interface {interface}: its root qdisc is {_named(root)}{within}, which Baton did not make; "
                f"remove it (tc qdisc del dev {interface} {at}), or give --take-over to lose it"
            )
        return Snapshot(interface, "", 0, "", clsact, segments)
    return Snapshot(interface, root.kind, root.handle, root.options.hex(), clsact, segments, root.size_table.hex())


def _not_shown(netlink: Netlink, index: int, root: Entry) -> str:
    """What a root qdisc has that could not be put back from its dump; empty: nothing."""
    sizes = dict(attributes(root.size_table)).get(TCA_STAB_BASE, b"")
    if len(sizes) >= SIZE_SPECIFICATION.size and SIZE_SPECIFICATION.unpack_from(sizes)[7]:
        return " with a table of sizes (stab)"
    if root.handle and netlink.dump(RTM_GETTFILTER, index, root.handle):
        return " with filters of its own"
    return ""


def without_egress(found: list[Entry], interface: str) -> str:
    """Why no program may be attached to the egress of an interface with these qdiscs, and what to do; empty: one may."""
    if block := next((entry.egress_block for entry in found if entry.egress_block), 0):
        return (
            f"interface {interface}: its clsact shares block {block} of filters with others; "
            f"give it one of its own (tc qdisc del dev {interface} clsact; tc qdisc add dev {interface} clsact)"
        )
    if not (why := egress.without_egress(entry.kind for entry in found)):
        return ""
    return (
        f"interface {interface}: it {why}; "
        f"put that in its place (tc qdisc del dev {interface} ingress; tc qdisc add dev {interface} clsact)"
    )


def _qdiscs(netlink: Netlink, index: int) -> list[Entry]:
    """All qdiscs of an interface.

    The kernel leaves some out of a dump when another interface vanishes meanwhile (see `Queues._qdisc`). So root and hook are
    asked for by themselves, and what stands below them is that of two dumps.
    """
    asked = [netlink.under(index, parent) for parent in (TC_H_ROOT, TC_H_CLSACT)]
    dumped = [*netlink.dump(RTM_GETQDISC, index), *netlink.dump(RTM_GETQDISC, index)]
    below = {(entry.parent, entry.handle): entry for entry in dumped if entry.parent not in (TC_H_ROOT, TC_H_CLSACT)}
    return [*(entry for entry in asked if entry is not None), *below.values()]


def _root(found: list[Entry]) -> Entry | None:
    return next((entry for entry in found if entry.parent == TC_H_ROOT), None)


def _named(qdisc: Entry) -> str:
    return f"{qdisc.kind} {qdisc.handle >> 16:x}:"


def restore(netlink: Netlink, snapshot: Snapshot, index: int) -> None:
    """Puts the root qdisc back, unless another program has made its own since, and removes our filters; does nothing if the
    interface is gone.

    Args:
        index: the interface's. By now it may have another name, and another interface may have this one.

    Raises:
        NetlinkError: the first refusal, once all the rest is put back.
    """
    if is_gone(index):
        log.warning(
            "interface %s: gone, so nothing is put back; if it was moved to another network namespace, it needs there: "
            "ip link set %s gso_max_segs %d",
            snapshot.interface, snapshot.interface, snapshot.gso_segments,
        )  # fmt: skip
        return
    refused: list[NetlinkError] = []
    for put_back in (_put_back_segments, _put_back_root, _put_back_hook):
        try:
            put_back(netlink, index, snapshot)
        except NetlinkError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def _put_back_segments(netlink: Netlink, index: int, snapshot: Snapshot) -> None:
    set_segments(netlink, index, snapshot.gso_segments)


def _put_back_root(netlink: Netlink, index: int, snapshot: Snapshot) -> None:
    root = netlink.under(index, TC_H_ROOT)
    if root is not None and root.handle and not _is_ours(netlink, index, root):
        return
    with suppress(NetlinkError):  # none of ours left: the default is there already
        netlink.request(message(RTM_DELQDISC, 0, index, parent=TC_H_ROOT))
    if snapshot.kind:
        body = attribute(TCA_KIND, snapshot.kind.encode() + b"\0")
        if snapshot.options:
            body += attribute(TCA_OPTIONS, bytes.fromhex(snapshot.options))
        if snapshot.size_table:
            body += attribute(TCA_STAB, bytes.fromhex(snapshot.size_table))
        flags = NLM_F_CREATE | NLM_F_REPLACE
        netlink.request(message(RTM_NEWQDISC, flags, index, handle=snapshot.handle, parent=TC_H_ROOT, body=body))


def _is_ours(netlink: Netlink, index: int, root: Entry) -> bool:
    name = WAKEUP_FILTER.encode() + b"\0"
    return root.kind == "htb" and any(name in entry.options for entry in netlink.dump(RTM_GETTFILTER, index, root.handle))


def _put_back_hook(netlink: Netlink, index: int, snapshot: Snapshot) -> None:
    for preference in (TAGGER_PREFERENCE, CLASSIFIER_PREFERENCE, NIC_CLASS_PREFERENCE):
        with suppress(NetlinkError):  # it was never attached
            netlink.request(message(RTM_DELTFILTER, 0, index, parent=EGRESS, info=preference << 16 | ETH_P_ALL))
    foreign = any(netlink.dump(RTM_GETTFILTER, index, parent=parent) for parent in (INGRESS, EGRESS))
    if not snapshot.clsact and not foreign:
        ours = attribute(TCA_KIND, b"clsact\0")
        with suppress(NetlinkError):  # nor was the hook made, or it is another one by now
            netlink.request(message(RTM_DELQDISC, 0, index, handle=0xFFFF0000, parent=TC_H_CLSACT, body=ours))


def is_gone(index: int) -> bool:
    """Whether this network namespace has no such interface: it was deleted, or moved to another one."""
    try:
        socket.if_indextoname(index)
    except OSError:
        return True
    return False


class InterfaceGone(Exception):
    """An agent's interface was deleted or moved away. The text names it and the remedy."""


class InterfaceInUse(Exception):
    """Another agent has the interface. The text names it and the remedy."""


def identity(interface: str) -> str:
    """What no other interface has, neither after a reboot nor in a network namespace that was given the inode of one that is
    gone, nor one that was made under the same name."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    cookie, index = bytes(8), 0
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:  # a family that the unit allows
        cookie = one.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, len(cookie))  # since Linux 5.14
    with suppress(OSError):  # there is no such interface
        index = socket.if_nametoindex(interface)
    return f"{boot} {cookie.hex()} {index}"


def _locked(path: Path, interface: str) -> TextIO:
    """A file that no other process has locked, open and locked. Raises InterfaceInUse, with the process id that it holds."""
    opened = path.open("a+")
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(opened.fileno()).st_nlink:  # its agent ended, and removed it, between our two calls
            raise BlockingIOError
    except OSError:
        opened.seek(0)
        pid = opened.read().strip() or "unknown"
        opened.close()
        raise InterfaceInUse(f"interface {interface}: an agent runs there already (pid {pid}); stop it first") from None
    return opened


class StateFile:
    """The file that holds a snapshot while Baton's queues are in place: one for each interface of a network namespace, and for
    one agent at a time.

    It goes by the interface's index: a name may belong to another interface by the time it is read. An older agent's goes by
    the name.
    """

    def __init__(self, directory: Path, interface: str, index: int) -> None:
        """Raises InterfaceInUse: an agent that lives has this file; OSError: the directory can't be written."""
        namespace = os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116 -- a magic link, not a file
        self.path = directory / f"agent-{namespace}.{index}.json"
        self._older = directory / f"agent-{namespace}-{interface}.json"
        self._interface = interface
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = self.path.with_suffix(".lock")
        self._locked = _locked(self._lock, interface)
        if (older := self._older.with_suffix(".lock")).exists():
            try:
                _locked(older, interface).close()
            except InterfaceInUse:
                self.release()
                raise
            older.unlink(missing_ok=True)
        self._locked.truncate(0)
        self._locked.write(f"{os.getpid()}\n")
        self._locked.flush()

    def write(self, snapshot: Snapshot) -> None:
        """Records the snapshot, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(snapshot) | {"of": identity(self._interface)}))
        fresh.replace(self.path)

    def read(self) -> Snapshot | None:
        """The snapshot that an agent left that did not end well; None if there is none of this very interface."""
        try:
            found = json.loads((self.path if self.path.exists() else self._older).read_text())
            mine = identity(self._interface)
            return Snapshot(**found) if found.pop("of", mine) == mine else None  # an older agent did not say of which
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return None

    def clear(self) -> None:
        """Deletes the file: the interface is as it was found."""
        self.path.unlink(missing_ok=True)
        self._older.unlink(missing_ok=True)

    def remove(self) -> None:
        """Deletes the file, and lets another agent have the interface."""
        try:
            self.clear()
            self.release()
        except OSError as error:  # the rights over others' files are given up by now
            log.error("%s: the interface is put back, but its record stays: %s; remove it", self.path, error.strerror)
            self._locked.close()

    def release(self) -> None:
        """Lets another agent have the interface."""
        if not self._locked.closed:
            self._lock.unlink(missing_ok=True)
            self._locked.close()
