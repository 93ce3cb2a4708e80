"""The text of Baton's systemd units, of their commands and sandboxes, and of the users that systemd-sysusers makes. Pure.

Both units start as root, since queues, raw frames and eBPF need it, but in a sandbox; systemd.exec(5) and
systemd.resource-control(5) explain every line. A unit allows what its program needs while it starts; the agent then drops
nearly all of it by itself (agents/kernel/capabilities.py), and the controller's supervisor starts each process with its own
user and rights (controller/processes/confine.py), under systemd as by hand: hence one unit. Settings left out, with reasons:
MemoryDenyWriteExecute (libbpf's callbacks are made at run time), PrivateUsers and PrivateNetwork (Baton controls the host's own
network), ProcSubset=pid (the agent reads /proc/sys), ProtectProc=invisible for the controller (the supervisor would not see its
own children).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

RUN_DIR = Path("/run/baton")
"""systemd makes this one."""
MARK = "# Made by `baton install-units`; what is changed here is lost when it runs again: use `systemctl edit`."
COMMON_CAPABILITIES = ("CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF", "CAP_PERFMON", "CAP_SYS_NICE", "CAP_IPC_LOCK")
SUPERVISING = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_CHOWN", "CAP_KILL", "CAP_DAC_OVERRIDE")
"""For giving each process its user and its files, and for ending it."""
USERS = (
    ("baton-store", "the private store"),
    ("baton-openflow", "the OpenFlow application"),
    ("baton-coordinator", "the coordinator"),
    ("baton-web", "the dashboard"),
)
SANDBOX = (
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=read-only",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "RemoveIPC=yes",
    "KeyringMode=private",
    "UMask=0077",
    "SystemCallArchitectures=native",
    "SystemCallErrorNumber=EPERM",
)


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A systemd unit: the name of its file, and its text."""

    name: str
    text: str


def agent(
    program: Sequence[str],
    *,
    interface: str,
    arguments: Sequence[str],
    writable: Iterable[Path],
    run_dir: Path = RUN_DIR,
    priorities: bool = False,
    guests: bool = False,
) -> UnitFile:
    """The unit of a host's agent on one interface; it starts and stops with the interface.

    Args:
        program: the command line of `baton`, an absolute path first.
        arguments: all arguments of `baton agent` but --interface.
        writable: directories that the agent writes to: for the key, for compiled eBPF programs, and a run directory of its own.
        run_dir: the run directory.
        priorities: whether the agent registers congestion controls.
        guests: whether the agent hears guests, by UDP.
    """
    device = f"sys-subsystem-net-devices-{escaped(interface)}.device"
    capabilities = [*COMMON_CAPABILITIES, "CAP_SETPCAP"]
    if priorities:
        capabilities.append("CAP_SYS_ADMIN")  # to find the settings of a congestion control that is there already
    lines = [
        MARK,
        "[Unit]",
        f"Description=Baton agent on {interface.replace('%', '%%')}",
        f"After=network.target {device}",
        f"BindsTo={device}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={command([*program, 'agent', '--interface', interface, *arguments])}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "Restart=always",
        "RestartSec=200ms",
        "TimeoutStopSec=20s",
        "OOMScoreAdjust=-800",
        "LimitMEMLOCK=infinity",
        *_directories(writable, run_dir),
        f"CapabilityBoundingSet={' '.join(capabilities)}",
        *SANDBOX,
        "SystemCallFilter=@system-service bpf",
        "ProtectProc=invisible",
        f"RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_PACKET{' AF_INET AF_INET6' if guests or priorities else ''}",
        "RestrictNamespaces=yes",
        *([] if guests else ["IPAddressDeny=any"]),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return UnitFile(f"baton-agent@{escaped(interface)}.service", "\n".join(lines) + "\n")


def controller(
    program: Sequence[str], *, config: Path, writable: Iterable[Path], run_dir: Path = RUN_DIR, netns: bool = False
) -> UnitFile:
    """The unit of the controller side: `baton up` in the foreground, and all that it starts.

    Args:
        program: the command line of `baton`, an absolute path first.
        config: the configuration file.
        writable: directories that the processes write to, also a run directory of their own.
        run_dir: the run directory.
        netns: the coordinator's interface is in a network namespace, which needs CAP_SYS_ADMIN.
    """
    capabilities = [*COMMON_CAPABILITIES, *SUPERVISING, *(["CAP_SYS_ADMIN"] if netns else [])]
    lines = [
        MARK,
        "[Unit]",
        "Description=Baton controller",
        "Wants=network-online.target",
        "After=network-online.target openvswitch-switch.service redis-server.service",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={command([*program, 'up', '--foreground', '--config', str(config)])}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "Restart=always",
        "RestartSec=1s",
        "KillMode=mixed",
        "TimeoutStopSec=20s",
        "OOMScoreAdjust=-800",
        "LimitMEMLOCK=infinity",
        "LimitRTPRIO=99",
        *_directories(writable, run_dir),
        f"CapabilityBoundingSet={' '.join(capabilities)}",
        *SANDBOX,
        "SystemCallFilter=@system-service bpf seccomp",
        "RestrictAddressFamilies=AF_UNIX AF_NETLINK AF_PACKET AF_INET AF_INET6",
        f"RestrictNamespaces={'net' if netns else 'yes'}",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return UnitFile("baton-controller.service", "\n".join(lines) + "\n")


def _directories(writable: Iterable[Path], run_dir: Path) -> list[str]:
    """The lines about directories. The run directory survives a stop: from it the next agent undoes what a killed one did. One
    below /run does not survive the machine's start, so systemd makes it anew."""
    paths = " ".join(quoted(f"-{path}") for path in dict.fromkeys(writable))
    volatile = [str(run_dir.relative_to("/run"))] if Path("/run") in run_dir.parents else []
    return [
        f"RuntimeDirectory={' '.join(quoted(name) for name in dict.fromkeys(('baton', *volatile)))}",
        "RuntimeDirectoryMode=0710",
        "RuntimeDirectoryPreserve=yes",
        *([f"ReadWritePaths={paths}"] if paths else []),
    ]


def users() -> UnitFile:
    """The file of sysusers.d(5) that names the group and the users of the controller's processes."""
    lines = [MARK, "g baton -", *(f'u {name} -:baton "Baton, {what}" /' for name, what in USERS)]
    return UnitFile("baton.conf", "\n".join(lines) + "\n")


def command(words: Iterable[str]) -> str:
    """Words quoted for ExecStart, so that systemd expands no specifier or variable in them."""
    return " ".join(quoted(word.replace("$", "$$")) for word in words)


def quoted(word: str) -> str:
    """A word quoted by the rules of systemd.syntax(7). Raises ValueError: it has control characters."""
    if not word.isprintable():
        raise ValueError(f"{word!r} can't be in a unit; use a name without control characters")
    word = word.replace("%", "%%")
    if re.fullmatch(r"[\w@%+=:,./$-]+", word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def escaped(name: str) -> str:
    """A name escaped for a unit's name, as by systemd-escape(1)."""

    def one(match: re.Match[str]) -> str:
        return "".join(f"\\x{byte:02x}" for byte in match[0].encode())

    return re.sub(r"^\.|[^A-Za-z0-9:_./]", one, name).replace("/", "-")
