"""Measures figures one after another, those in virtual time two at once, and keeps what is done. An edge: processes, clock.

A figure has a folder of its own: its record, its pictures, what its command printed, and `state.json`. It runs again only if
its code or its command has changed, or it failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import pictures
from bench.figures.catalogue import Entry
from bench.figures.fingerprint import fingerprint

LOOK_S = 0.2
END_S = 15.0
MOST_S = 3600.0
"""A figure that takes longer has failed."""
BEING_MADE = ".new"
"""How the name of a folder ends as long as its figure is measured; then it takes the place of the earlier one."""
FAILED = ".failed"
"""How the name of a folder ends whose figure was measured again and failed, while its earlier record holds."""
STATE, OUTPUT, ERRORS, RECORD = "state.json", "output.txt", "errors.txt", "record.json"


class State(NamedTuple):
    """What became of a figure. `status`: done, failed or missing; `line`: more in words, such as the last that it printed."""

    status: str
    key: str = ""
    seconds: float = 0.0
    line: str = ""
    finished: str = ""


class Progress(NamedTuple):
    """How far all figures are: what runs now, the share that is done, and the seconds that are left."""

    running: tuple[str, ...]
    share: float
    left_s: float


Tell = Callable[[Progress], None]
Ended = Callable[[Entry, State], None]
"""Called for each figure that ends, and for each that need not run."""
Command = Callable[[Entry, Path], Sequence[str]]
"""The command line that measures an entry and writes its record."""


def command(entry: Entry, record: Path) -> list[str]:
    """Baton's own command, with its record as a file."""
    return [sys.executable, "-m", "cli.main", *entry.words, "--json", str(record)]


def read_state(directory: Path) -> State:
    """The state of a figure's folder."""
    try:
        found = json.loads((directory / STATE).read_text())
        return State(**found)
    except (OSError, ValueError, TypeError):
        return State("missing")


@dataclass(slots=True)
class _Running:
    entry: Entry
    key: str
    directory: Path
    process: subprocess.Popen[bytes]
    begun_s: float
    late: bool = False


class Runner:
    """Measures a list of figures into a folder."""

    def __init__(
        self,
        entries: Sequence[Entry],
        results: Path,
        *,
        jobs: int = 2,
        again: bool = False,
        key_of: Callable[[Entry], str] = lambda entry: fingerprint(entry.module, entry.words),
        command: Command = command,
        draw: Callable[[Entry, Path], None] = pictures.draw,
    ) -> None:
        """`jobs`: how many figures in virtual time run at once; `again`: whether to measure those that are done, too."""
        self._entries, self._results, self._jobs, self._again = entries, results, max(1, jobs), again
        self._key_of, self._command, self._draw = key_of, command, draw
        self._running: list[_Running] = []
        self._known = {entry.name: read_state(results / entry.name) for entry in entries}
        self._pace = 1.0

    def run(self, tell: Tell, ended: Ended) -> dict[str, State]:
        """Measures what is to be measured; the state of every figure. An interrupt leaves what is done, and is raised."""
        found: dict[str, State] = {}
        waiting: list[tuple[Entry, str]] = []
        for entry in self._entries:
            try:
                key = self._key_of(entry)
            except (OSError, ValueError, SyntaxError) as error:
                found[entry.name] = self._keep(entry, State("failed", line=str(error), finished=_now()))
                ended(entry, found[entry.name])
                continue
            before = self._known[entry.name]
            if before.status == "done" and before.key == key and not self._again:
                found[entry.name] = before
                ended(entry, before._replace(line="not measured again: its code and its command are unchanged"))
            else:
                waiting.append((entry, key))
        # Those in real time come last, each with the machine for itself.
        waiting.sort(key=lambda pair: not pair[0].virtual)
        total_s = sum(self._expected(entry) for entry, _ in waiting)
        try:
            while waiting or self._running:
                while waiting and self._may_start(waiting[0][0]):
                    self._start(*waiting.pop(0))
                time.sleep(LOOK_S)
                for one in [one for one in self._running if self._over(one)]:
                    self._running.remove(one)
                    found[one.entry.name] = self._conclude(one)
                    ended(one.entry, found[one.entry.name])
                tell(self._progress(waiting, total_s))
        finally:
            _end(*(one.process for one in self._running))
            for one in self._running:
                shutil.rmtree(one.directory, ignore_errors=True)
        return found

    def _may_start(self, entry: Entry) -> bool:
        if not entry.virtual:
            return not self._running
        return len(self._running) < self._jobs

    def _start(self, entry: Entry, key: str) -> None:
        directory = self._results / f"{entry.name}{BEING_MADE}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        argv = self._command(entry, directory / RECORD)
        with (directory / OUTPUT).open("wb") as out, (directory / ERRORS).open("wb") as error:
            # A session of its own: Ctrl-C reaches this process, which ends the others in order.
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=error, start_new_session=True)
        self._running.append(_Running(entry, key, directory, process, time.monotonic()))

    def _over(self, one: _Running) -> bool:
        if time.monotonic() - one.begun_s > MOST_S and one.process.poll() is None:
            one.late = True
            _end(one.process)
        return one.process.poll() is not None

    def _conclude(self, one: _Running) -> State:
        seconds = round(time.monotonic() - one.begun_s, 1)
        self._pace = 0.5 * self._pace + 0.5 * seconds / self._expected(one.entry)
        line = ""
        if one.late:
            line = f"it took longer than {MOST_S / 60:.0f} minutes"
        elif one.process.returncode:
            said = _last_line(one.directory / ERRORS) or _last_line(one.directory / OUTPUT)
            line = said or f"it ended with status {one.process.returncode} and printed nothing"
        else:
            try:
                self._draw(one.entry, one.directory)
            except Exception as error:  # whatever is wrong with one picture, the other figures are measured
                line = f"the picture: {type(error).__name__}: {error}"
        kept, before = self._results / one.entry.name, self._known[one.entry.name]
        if line and before.status == "done" and before.key == one.key:  # measured again for nothing
            failed = self._results / f"{one.entry.name}{FAILED}"
            shutil.rmtree(failed, ignore_errors=True)
            one.directory.rename(failed)
            return State("failed", one.key, seconds, f"{line} (the earlier record is kept; see {failed.name})", _now())
        shutil.rmtree(kept, ignore_errors=True)
        one.directory.rename(kept)
        return self._keep(one.entry, State("failed" if line else "done", one.key, seconds, line, _now()))

    def _keep(self, entry: Entry, state: State) -> State:
        directory = self._results / entry.name
        directory.mkdir(parents=True, exist_ok=True)
        fresh = directory / f"{STATE}.new"
        fresh.write_text(json.dumps(state._asdict(), indent=1) + "\n")
        fresh.replace(directory / STATE)
        return state

    def _expected(self, entry: Entry) -> float:
        before = self._known[entry.name]
        return before.seconds if before.status == "done" and before.seconds else float(entry.seconds)

    def _progress(self, waiting: Sequence[tuple[Entry, str]], total_s: float) -> Progress:
        now = time.monotonic()
        rest = [max(self._expected(one.entry) * self._pace - (now - one.begun_s), 5.0) for one in self._running]
        beside = sum(self._expected(entry) for entry, _ in waiting if entry.virtual) * self._pace
        alone = sum(self._expected(entry) for entry, _ in waiting if not entry.virtual)
        left_s = max([(sum(rest) + beside) / self._jobs, *rest], default=0.0) + alone
        share = 1 - (sum(rest) / self._pace + beside / self._pace + alone) / total_s if total_s else 1.0
        return Progress(tuple(one.entry.name for one in self._running), max(0.0, min(1.0, share)), left_s)


def _end(*processes: subprocess.Popen[Any]) -> None:
    """Ends commands in order: each ends its guest or its box itself. An interrupt meanwhile ends them at once."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    until_s = time.monotonic() + END_S
    try:
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until_s - time.monotonic()))
    finally:
        for process in processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
