"""A box: runs one command in network, PID and mount namespaces of its own. An edge: makes namespaces, mounts, processes.

Every emulation runs in a box. However the box ends (return, Ctrl-C, SIGTERM, kill -9 of any part of it), the kernel ends every
process in it and removes every interface, switch and namespace; nothing touches the machine's own network. A box has its own
/run (a tmpfs), so its `ip netns` names, sockets and pid files never clash with those of another box.

    python -m emulation.box [--readable] -- COMMAND [ARGUMENT...]

With `--readable` every user may enter the directories above this checkout, as Baton's processes have to, which run by users of
their own. For tests in a checkout such as /root/baton: a new file right in a closed directory is lost with the box.

The processes: the caller waits and passes signals on; util-linux `unshare` makes the namespaces and dies with the caller
(PR_SET_PDEATHSIG); inside, this file runs as PID 1, mounts, starts the command and reaps. It is run by its path, so it imports
only the standard library.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

MARKER = "BATON_BOX"  # in the environment: the PID namespace of the box that set it
_AS_INIT, _READABLE = "--as-init", "--readable"
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_WAITED_FOR = (*_PASSED_ON, signal.SIGCHLD)
_TOOLS = ("unshare", "setpriv", "mount", "ip")


def inside() -> bool:
    """Whether this process runs in a box. A process that has left its box still has the marker, but not the PID namespace."""
    return os.environ.get(MARKER) == _pid_namespace()


def enter(argv: Sequence[str]) -> None:
    """Returns inside a box. Outside, runs `argv` (this program again) in a new one and raises SystemExit with its status."""
    if not inside():
        raise SystemExit(run(argv))


def run(argv: Sequence[str], *, readable: bool = False) -> int:
    """Runs a command in a new box; `readable`: one in which every user may enter the directories above this checkout.

    Returns:
        its exit status; 128 + n if signal n ended it.

    Raises:
        SystemExit: the box cannot be made; says what to do.
    """
    if os.geteuid() != 0:
        raise SystemExit("box: namespaces need root; run this as root (sudo)")
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        raise SystemExit(f"box: {', '.join(missing)} not found; install the packages util-linux and iproute2")
    command = ["setpriv", "--pdeathsig", "KILL", "--"]
    command += ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
    # By path and isolated: this works from any directory, and PID 1 does not get the caller's PYTHONPATH.
    command += [sys.executable, "-I", str(Path(__file__).resolve()), _AS_INIT, *([_READABLE] if readable else []), *argv]
    terminal = termios.tcgetattr(sys.stdin) if sys.stdin and sys.stdin.isatty() else None
    sys.stdout.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    try:
        # unshare lives on when a terminal closes: the box would be killed with it, before its command has put anything back.
        unshare = os.posix_spawnp(command[0], command, os.environ, setsigmask={*before, signal.SIGHUP})
        return _wait(unshare, lambda number: _signal_init(unshare, number), reap=unshare)
    finally:
        if terminal is not None:
            _take_back(terminal)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _take_back(settings: list[Any]) -> None:
    """Takes the terminal back, which a shell in the box made its own, and resets it, since a killed program may leave it
    raw."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))  # or a background process would stop here
    with suppress(OSError, termios.error):  # it was closed
        os.tcsetpgrp(sys.stdin.fileno(), os.getpgrp())
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)


def _wait(child: int, forward: Callable[[int], None], reap: int) -> int:
    """Waits until `child` ends; reaps what `reap` names (as waitpid); forwards signals that only this process got."""
    while True:
        arrived = signal.sigwaitinfo(_WAITED_FOR)
        if arrived.si_signo != signal.SIGCHLD:
            # The kernel's signals have positive codes: a terminal's Ctrl-C has already reached the whole foreground group.
            if arrived.si_code <= 0:
                forward(arrived.si_signo)
            continue
        while True:
            try:
                pid, status = os.waitpid(reap, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == child and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code


def _signal_init(unshare: int, number: int) -> None:
    # unshare itself blocks SIGTERM and SIGINT, and has SIGHUP blocked; its only child is PID 1 of the box.
    for child in Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split():
        os.kill(int(child), number)


def _init(argv: list[str]) -> int:
    """PID 1 of the box."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    _prepare()
    if argv[0] == _READABLE:
        argv = argv[1:]
        _open_checkout()
    environment = {**os.environ, MARKER: _pid_namespace()}
    try:
        child = os.posix_spawnp(argv[0], argv, environment, setsigmask=())
    except OSError as error:
        print(f"box: {argv[0]}: {error.strerror}", file=sys.stderr)
        return 127
    return _wait(child, lambda number: os.kill(child, number), reap=-1)


def _prepare() -> None:
    """A /sys that shows the new network namespace, a private /run and BPF file system, the loopback up."""
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    old, groups = Path("/run/old-sys"), Path("/sys/fs/cgroup")
    for directory in (old, Path("/run/netns"), Path("/run/lock")):
        directory.mkdir()
    _mount("--rbind", "/sys", str(old))
    _mount("-t", "sysfs", "sysfs", "/sys")
    if groups.is_dir():
        _mount("--rbind", str(old / "fs/cgroup"), str(groups))
    if Path("/sys/fs/bpf").is_dir():
        _mount("-t", "bpf", "bpf", "/sys/fs/bpf")
    subprocess.run(["umount", "--recursive", "--lazy", old], check=True)
    old.rmdir()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _open_checkout() -> None:
    """Puts a directory that all may enter, with the same entries, in the place of each closed one above this checkout."""
    here = Path.cwd()
    kept = Path("/run/closed")
    kept.mkdir()
    for closed in reversed(Path(__file__).resolve().parents[1].parents):
        if closed.stat().st_mode & 0o001:
            continue
        _mount("--rbind", str(closed), str(kept))
        _mount("-t", "tmpfs", "-o", "mode=711", "tmpfs", str(closed))
        for entry in kept.iterdir():
            place = closed / entry.name
            if entry.is_symlink():
                place.symlink_to(entry.readlink())
                continue
            if entry.is_dir():
                place.mkdir()
            else:
                place.touch()
            _mount("--rbind", str(entry), str(place))
        subprocess.run(["umount", "--recursive", "--lazy", kept], check=True)
    kept.rmdir()
    os.chdir(here)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def main() -> int:
    """`python -m emulation.box -- COMMAND...`"""
    argv = sys.argv[1:]
    if argv[:1] == [_AS_INIT]:
        return _init(argv[1:])
    if readable := argv[:1] == [_READABLE]:
        argv = argv[1:]
    argv = argv[1:] if argv[:1] == ["--"] else argv
    if not argv:
        raise SystemExit("usage: python -m emulation.box [--readable] -- COMMAND [ARGUMENT...]")
    return run(argv, readable=readable)


if __name__ == "__main__":
    raise SystemExit(main())
