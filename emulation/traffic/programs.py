"""Traffic programs as the processes that an experiment starts, waits for and reads. An edge: processes and clock."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from emulation.fabric.fabric import EmulatedFabric, EmulationError
from emulation.traffic import workloads

END_TIMEOUT_S = 10
_PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


class Program:
    """A running traffic program, killed when the stack unwinds before the program has ended."""

    def __init__(
        self, emulated: EmulatedFabric, node: str | None, argv: Sequence[str], stack: ExitStack, text: str = ""
    ) -> None:
        """Starts the program in a node, or outside all of them (None), and gives it `text` as its standard input."""
        self.name = f"{node or 'outside all hosts'}: {argv[len(workloads.COMMAND)]}"
        self._process = subprocess.Popen(argv, **_PIPES) if node is None else emulated.popen_limited(node, argv, **_PIPES)
        stack.callback(_kill, self._process)
        assert self._process.stdin is not None, "a pipe"
        self._process.stdin.write(text)
        self._process.stdin.close()
        self._process.stdin = None  # communicate() would flush it

    def wait_ready(self) -> None:
        """Returns when the program has said that it is ready. Raises EmulationError: it ended, or said something else."""
        assert self._process.stdout is not None, "a pipe"
        if self._process.stdout.readline().strip() != workloads.READY:
            self.output()
            raise EmulationError(f"{self.name} did not get ready")

    def output(self, until_ns: int = 0) -> str:
        """What the program prints until it ends, without the line that says that it is ready.

        Raises:
            EmulationError: the program failed, or has not ended `END_TIMEOUT_S` after now and after `until_ns`
            (CLOCK_MONOTONIC).
        """
        left_s = max(0.0, (until_ns - time.monotonic_ns()) / 1e9)
        try:
            out, error = self._process.communicate(timeout=left_s + END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise EmulationError(f"{self.name} did not end within {END_TIMEOUT_S} s after the measurement") from None
        if self._process.returncode:
            lines = error.strip().splitlines()
            raise EmulationError(f"{self.name} failed: {lines[-1] if lines else self._process.returncode}")
        return str(out).removeprefix(f"{workloads.READY}\n")

    def result(self, until_ns: int = 0) -> dict[str, Any]:
        """The JSON object that the program prints. Raises EmulationError as `output` does."""
        found: dict[str, Any] = json.loads(self.output(until_ns))
        return found


def sleep_until(instant_ns: int, begin_ns: int, progress: Callable[[float], None] | None = None) -> None:
    """Sleeps until an instant (CLOCK_MONOTONIC); calls `progress` ten times a second with the seconds since `begin_ns`."""
    while (left_ns := instant_ns - time.monotonic_ns()) > 0:
        if progress is not None:
            progress(max(0.0, (time.monotonic_ns() - begin_ns) / 1e9))
        time.sleep(min(left_ns / 1e9, 0.1))


def _kill(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()
