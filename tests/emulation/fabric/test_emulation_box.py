"""A box contains the processes and interfaces made in it, and removes them when it ends."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

BOX = (sys.executable, "-m", "emulation.box", "--")
SHELL = (*BOX, "bash", "-c")


def out(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout


def processes_with(mark: str) -> list[int]:
    """The processes (zombies have no command line) whose arguments contain a text, this one's aside."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def eventually(condition: str, *, mark: str, count: int, within_s: float = 5) -> None:
    deadline = time.monotonic() + within_s
    while len(processes_with(mark)) != count:
        assert time.monotonic() < deadline, f"{condition}: {processes_with(mark)}"
        time.sleep(0.02)


@pytest.fixture
def mark() -> Iterator[str]:
    """A duration that no other process sleeps for."""
    yield f"{os.getpid()}.{time.monotonic_ns()}"


def test_a_box_has_only_a_loopback_that_is_up_and_its_own_processes() -> None:
    seen = out(*SHELL, "ls /sys/class/net; ip -br link | cut -d' ' -f1; cat /sys/class/net/lo/flags; ps -e -o comm=")
    interfaces, _, rest = seen.partition("0x9\n")  # IFF_UP | IFF_LOOPBACK
    assert interfaces.split() == ["lo", "lo"]
    assert set(rest.split()) <= {"python", "python3", "bash", "ps"}


def test_a_box_passes_the_exit_status_and_a_fatal_signal_on() -> None:
    assert subprocess.run([*SHELL, "exit 7"], check=False).returncode == 7
    assert subprocess.run([*SHELL, "kill -KILL $$"], check=False).returncode == 128 + signal.SIGKILL
    missing = subprocess.run([*BOX, "no-such-command"], check=False, capture_output=True, text=True)
    assert (missing.returncode, missing.stderr) == (127, "box: no-such-command: No such file or directory\n")


def test_two_boxes_can_use_the_same_names_and_none_shows_outside() -> None:
    script = "ip netns add twin && ip link add veth0 type veth peer name veth1 && sleep 0.3 && ip netns list"
    boxes = [subprocess.Popen([*SHELL, script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [one.communicate(timeout=30)[0].split()[0] for one in boxes] == ["twin", "twin"]
    assert "twin" not in out("ip", "netns", "list")
    assert "veth0" not in out("ip", "-br", "link")


@pytest.mark.parametrize("victim", ["the caller", "unshare"])
def test_kill_9_of_what_holds_a_box_ends_every_process_in_it(mark: str, victim: str) -> None:
    # Two processes in sessions of their own, like daemons.
    holder = subprocess.Popen([*SHELL, f"setsid sleep {mark} & setsid sleep {mark} & wait"])
    try:
        eventually("the box is up", mark=f"sleep\0{mark}", count=2)
        child = int(Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()[0])
        os.kill(holder.pid if victim == "the caller" else child, signal.SIGKILL)
        eventually("all are gone", mark=mark, count=0)
    finally:
        holder.kill()
        holder.wait()


def test_the_commands_end_ends_what_it_left_running(mark: str) -> None:
    subprocess.run([*SHELL, f"setsid sleep {mark} & sleep 0.1"], check=True, timeout=30)
    eventually("all are gone", mark=f"sleep\0{mark}", count=0)


def test_sigterm_reaches_the_command_which_ends_in_order() -> None:
    script = "trap 'echo cleaned; exit 3' TERM; echo up; while :; do sleep 0.05; done"
    box = subprocess.Popen([*SHELL, script], stdout=subprocess.PIPE, text=True)
    assert box.stdout is not None
    assert box.stdout.readline() == "up\n"
    box.terminate()
    assert box.communicate(timeout=10)[0] == "cleaned\n"
    assert box.returncode == 3


def test_a_closed_terminal_s_sighup_to_the_whole_group_lets_the_command_end_in_order() -> None:
    script = "trap 'sleep 0.3; echo cleaned; exit 3' HUP; echo up; while :; do sleep 0.05; done"
    heard = ("env", "--default-signal=HUP")  # what nohup starts has it ignored
    box = subprocess.Popen([*heard, *SHELL, script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert box.stdout is not None
    assert box.stdout.readline() == "up\n"
    os.killpg(box.pid, signal.SIGHUP)
    assert "cleaned\n" in box.communicate(timeout=10)[0]
    assert box.returncode == 3


def test_ctrl_c_on_the_terminal_ends_the_command_in_order_and_leaves_the_terminal_as_it_was() -> None:
    program = (
        "import sys, time, tty\n"
        "tty.setcbreak(0)\n"  # an interactive program's terminal
        "try:\n"
        "    print('up', flush=True)\n"
        "    time.sleep(30)\n"
        "except KeyboardInterrupt: print('cleaned', flush=True); sys.exit(4)\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # what a shell starts in the background may have it ignored
        os.execv(sys.executable, [*BOX, sys.executable, "-c", program])
    try:
        before = termios.tcgetattr(terminal)
        seen = read_until(terminal, "up")
        assert termios.tcgetattr(terminal) != before
        os.write(terminal, b"\x03")
        seen += read_until(terminal, "cleaned")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 4, seen
        assert termios.tcgetattr(terminal) == before
    finally:
        os.close(terminal)


def test_a_shell_at_the_terminal_works_in_a_box() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [*BOX, "bash", "--norc", "-i"])
    try:
        os.write(terminal, b"echo $((6 * 7))-$(tty)\n")
        assert "42-/dev/pts/" in read_until(terminal, "42-/dev/pts/")
        os.write(terminal, b"exit 6\n")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 6
    finally:
        os.close(terminal)


def read_until(terminal: int, text: str) -> str:
    seen = ""
    while text not in seen:
        try:
            seen += os.read(terminal, 4096).decode()
        except OSError as error:
            raise AssertionError(f"ended without {text!r}: {seen!r}") from error
    return seen


def test_a_readable_box_lets_every_user_into_a_checkout_in_a_closed_directory_and_opens_nothing_outside(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    program, text = closed / "deeper" / "checkout" / "emulation" / "box.py", closed / "deeper" / "checkout" / "text"
    program.parent.mkdir(parents=True)
    shutil.copy("emulation/box.py", program)
    text.write_text("found")
    for directory in (closed, closed / "deeper"):
        directory.chmod(0o700)
    as_user = ("setpriv", "--reuid", "98101", "--regid", "98100", "--clear-groups", "cat", str(text))
    box = (sys.executable, str(program))
    assert subprocess.run([*box, "--", *as_user], check=False, capture_output=True).returncode == 1
    assert out(*box, "--readable", "--", *as_user) == "found"
    out(*box, "--readable", "--", "sh", "-c", f"echo more > {text}")
    assert text.read_text() == "more\n"
    assert [path.stat().st_mode & 0o777 for path in (closed, closed / "deeper")] == [0o700, 0o700]
    assert subprocess.run(as_user, check=False, capture_output=True).returncode == 1
