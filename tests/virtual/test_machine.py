"""Commands in virtual time: what they print, leave and return, what ends them, and that a seed decides all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def virtual(directory: Path, *command: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """`baton virtual run` in a directory."""
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", *options, "--", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_it_gives_both_streams_and_the_exit_status(tmp_path: Path) -> None:
    done = virtual(tmp_path, "sh", "-c", "echo out; echo problem >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "problem\n")


def test_what_is_written_in_the_working_directory_stays_and_nothing_else(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    done = virtual(inside, "sh", "-c", f"echo kept >file; echo gone >{outside}/file; cat {outside}/file; id -u")
    assert done.returncode == 0 and done.stdout.split() == ["gone", str(os.geteuid())]
    assert (inside / "file").read_text() == "kept\n"
    assert not list(outside.iterdir())


def test_a_directory_may_be_added_to_what_is_writable(tmp_path: Path) -> None:
    inside, other = tmp_path / "inside", tmp_path / "other"
    inside.mkdir()
    other.mkdir()
    virtual(inside, "sh", "-c", f"echo kept >{other}/file", options=("--writable", str(other)))
    assert (other / "file").read_text() == "kept\n"


def test_temporary_files_are_the_guests_also_where_tmp_is_writable(tmp_path: Path) -> None:
    """Else what another user makes there belongs to this process's, and Baton's users could not reach their store."""
    program = """
import os, pathlib, socket, tempfile
path = pathlib.Path(tempfile.mkdtemp(prefix="baton-virtual-test-")) / "socket"
path.parent.chmod(0o777)
os.setuid(98101)
socket.socket(socket.AF_UNIX).bind(str(path))
print(path.parent, path.stat().st_uid)
"""
    box = str(ROOT / "emulation/box.py")
    command = (sys.executable, "-I", box, "--", sys.executable, "-c", program)
    done = virtual(tmp_path, *command, options=("--writable", tempfile.gettempdir()))
    directory, owner = done.stdout.split()
    assert owner == "98101" and not Path(directory).exists()


def test_an_hour_asleep_takes_no_time(tmp_path: Path) -> None:
    begun = time.monotonic()
    done = virtual(tmp_path, "sh", "-c", "a=$(date +%s); sleep 3600; echo $(($(date +%s) - a))")
    assert done.stdout == "3600\n" and time.monotonic() - begun < 60


def test_its_network_is_its_own(tmp_path: Path) -> None:
    done = virtual(tmp_path, "ip", "-br", "link")
    names = {line.split()[0].partition("@")[0] for line in done.stdout.splitlines()}
    assert "lo" in names and names <= {"lo", "sit0", "ip6tnl0", "ifb0", "ifb1", "dummy0", "ovs-system"}


@pytest.mark.parametrize("options", [(), ("--seed", "5")])
def test_the_same_seed_gives_the_same_random_numbers_addresses_and_times(tmp_path: Path, options: tuple[str, ...]) -> None:
    program = "import os, time, uuid; print(uuid.uuid4(), id(object()), os.getpid(), time.time_ns(), hash('a'))"
    runs = {virtual(tmp_path, sys.executable, "-c", program, options=options).stdout for _ in range(2)}
    assert len(runs) == 1 and len(next(iter(runs)).split()) == 5


def test_another_seed_gives_others(tmp_path: Path) -> None:
    read = ("cat", "/proc/sys/kernel/random/uuid")
    runs = {virtual(tmp_path, *read, options=("--seed", seed)).stdout for seed in ("1", "2")}
    assert len(runs) == 2


@pytest.mark.parametrize(("number", "impatient"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)])
def test_a_signal_ends_the_guest_and_leaves_nothing(tmp_path: Path, number: signal.Signals, impatient: bool) -> None:
    """Also two of them, such as one of a terminal and one of `timeout`."""
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", "sh", "-c", "echo up; while sleep 1; do :; done"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        guests = [int(line) for line in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        process.send_signal(number)
        if impatient:
            time.sleep(0.003)
            process.send_signal(signal.SIGHUP)
        assert process.wait(20) == 128 + number
    assert guests and not any(Path(f"/proc/{guest}").exists() for guest in guests)
    assert not list(tmp_path.iterdir())


def test_without_a_kernel_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = virtual(tmp_path, "true")
    assert done.returncode == 2 and "make virtual" in done.stderr and len(done.stderr.splitlines()) == 1
