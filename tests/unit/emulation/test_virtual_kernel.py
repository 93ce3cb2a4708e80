"""What keeps virtual time from being had is said in one line that names it and the remedy, with status 2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulation.virtual import kernel, machine

ROOT = Path(__file__).resolve().parents[3]


def said(*words: str, **environment: str) -> str:
    """The one line that a command prints on its standard error; it ends with 2."""
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("kernel of virtual time:"))
    return line


class TestBuild:
    """`make virtual`."""

    def test_a_source_that_cannot_be_had(self, tmp_path: Path) -> None:
        if kernel.missing():
            pytest.skip(f"{kernel.missing()[0][0]} is missing")
        (tmp_path / "apt-get").write_text("#!/bin/sh\necho 'E: Unable to locate package linux-source' >&2\nexit 100\n")
        (tmp_path / "apt-get").chmod(0o755)
        line = said("emulation.virtual.kernel", PATH=f"{tmp_path}:{os.environ['PATH']}", XDG_CACHE_HOME=str(tmp_path))
        assert "package lists cannot be fetched" in line and "Unable to locate" in line

    def test_a_cache_that_cannot_be_written(self) -> None:
        line = said("emulation.virtual.kernel", XDG_CACHE_HOME="/proc/none")
        assert "/proc/none/baton/virtual cannot be written" in line and "set XDG_CACHE_HOME" in line

    def test_a_missing_tool_is_named_with_its_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(kernel, "TOOLS", {"no-such-tool": "its-package"})
        with pytest.raises(kernel.KernelError, match="no-such-tool is missing: apt-get install its-package"):
            kernel.build(lambda what, fraction: None)

    @pytest.mark.parametrize(
        ("limit", "problem"),
        [("DISK_BYTES", "a build takes .*: free some"), ("MEMORY_BYTES", "MB of memory are free, a build takes")],
    )
    def test_too_little_disk_or_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, problem: str) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(kernel, "missing", list)
        monkeypatch.setattr(kernel, limit, 1 << 60)
        with pytest.raises(kernel.KernelError, match=problem) as refused:
            kernel.build(lambda what, fraction: None)
        assert "\n" not in str(refused.value)


class TestRun:
    """`baton virtual run`, and `--virtual`."""

    @pytest.mark.parametrize(
        "words", ["virtual run -- true", "demo --virtual", "bench xco mix --virtual", "bench figures demo"]
    )
    def test_a_command_without_the_kernel_says_in_one_line_how_to_build_it(self, tmp_path: Path, words: str) -> None:
        into = ("--into", str(tmp_path)) if "figures" in words else ()
        line = said("cli.main", *words.split(), *into, XDG_CACHE_HOME="/proc/none")
        assert line == "Error: there is no kernel of virtual time: run `make virtual`"

    def test_each_guest_has_a_processor_of_its_own_as_long_as_there_are_some(self, tmp_path: Path) -> None:
        allowed = sorted(os.sched_getaffinity(0))
        with ExitStack() as stack:
            taken = [stack.enter_context(machine.processor(tmp_path)) for _ in allowed]
            assert taken == allowed
            assert stack.enter_context(machine.processor(tmp_path)) is None
        with machine.processor(tmp_path) as number:
            assert number == allowed[0]

    def test_more_memory_than_there_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernel, "find", lambda: Path("/none/linux"))
        monkeypatch.setattr(machine, "_compile_programs", lambda image: pytest.fail("it went on"))
        with pytest.raises(kernel.KernelError, match="a guest of 99999999 MB may need half of that: give it less"):
            machine.run(["true"], memory_mb=99_999_999)

    def test_no_room_for_the_guests_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(64 << 20, 0, 64 << 20))
        with pytest.raises(kernel.KernelError, match=r"have no room, .*free some, or set TMPDIR"):
            machine._memory(tmp_path, 3072)

    def test_it_lies_in_the_run_s_directory_where_shared_memory_is_small(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes = {Path("/dev/shm"): 64 << 20, tmp_path: 1 << 40}  # as containers have it
        monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(sizes[path], 0, sizes[path]))
        assert machine._memory(tmp_path, 3072) == tmp_path
