"""Many cases: several at a time here, or on a Dask cluster; each result is kept in a file, and not computed again. An edge."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from typing import Any

from simulation.cases import Case
from simulation.run import RunError, simulate
from simulation.toolchain import ToolchainError, code_digest, is_this_code, program

Result = dict[str, Any]
Tell = Callable[[Case, float], None]
"""Hears which part of a case is done, now and then; 1 when its result is there."""


class ClusterError(Exception):
    """Dask is missing, or its scheduler cannot be reached; the text says what to do."""


class FolderError(Exception):
    """Results cannot be kept in the folder; the text says which, and why."""


def kept(case: Case, folder: Path) -> Result | None:
    """The result of an earlier run of this case by the same code; None if there is none, or its file is damaged."""
    for path in (_file(folder, case.key, code_digest()), *sorted(folder.glob(f"{case.key}-{code_digest()}+*.json"))):
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and found.get("key") == case.key and is_this_code(str(found.get("code"))):
            return found
    return None


def all_kept(cases: Sequence[Case], folder: Path) -> bool:
    """Whether nothing is left to simulate."""
    return all(kept(case, folder) is not None for case in cases)


def keep(result: Result, folder: Path) -> None:
    """Writes a result's file, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = _file(folder, result["key"], result["code"])
    fresh = path.with_suffix(f".{os.getpid()}.new")
    fresh.write_text(json.dumps(result, indent=1) + "\n")
    fresh.replace(path)


def _prepare(folder: Path) -> None:
    """Makes the folder, and tries to write there: a simulation may take hours. Raises FolderError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(bytes(4096))
    except OSError as error:
        raise FolderError(f"{folder} cannot be written: {error.strerror or error}") from None


def _file(folder: Path, key: str, code: str) -> Path:
    return folder / f"{key}-{code}.json"


def sweep(
    cases: Sequence[Case], folder: Path, tell: Tell, *, jobs: int, scheduler: str | None = None, again: bool = False
) -> list[Result]:
    """The cases' results, in their order. Interrupted, it keeps what is done.

    Each simulation is a process of its own; `jobs` threads start them, read their lines and add up. With `scheduler`, the
    address of a Dask cluster's (tcp://HOST:PORT), its workers do that instead; they need Baton, ns-3 and a compiler.

    Raises:
        ToolchainError, RunError: nothing can be simulated here, or a run failed.
        ClusterError: the cluster cannot be used.
        FolderError: something is to be simulated, and the folder cannot be written.
    """
    found = {} if again else {case.key: result for case in cases if (result := kept(case, folder)) is not None}
    for case in cases:
        if case.key in found:
            tell(case, 1.0)
    missing = [case for case in cases if case.key not in found]
    if missing:
        _prepare(folder)
    runs = _on_cluster(missing, scheduler) if scheduler and missing else _here(missing, tell, jobs)
    for case, result in runs:
        keep(result, folder)
        found[case.key] = result
        tell(case, 1.0)
    return [found[case.key] for case in cases]


def _here(cases: Sequence[Case], tell: Tell, jobs: int) -> Iterator[tuple[Case, Result]]:
    if not cases:
        return
    program("fabric_run")  # compiled once, before several need it
    stopped = Event()

    def one(case: Case) -> Result:
        def progress(done: float) -> None:
            if stopped.is_set():
                raise RunError("stopped")  # ends the program, too
            tell(case, done)

        return simulate(case, progress)

    with ThreadPoolExecutor(jobs) as pool:
        running: dict[Future[Result], Case] = {pool.submit(one, case): case for case in cases}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _on_cluster(cases: Sequence[Case], scheduler: str) -> Iterator[tuple[Case, Result]]:
    try:
        from dask import distributed
    except ImportError:
        raise ClusterError("Dask is not installed: run `pip install 'baton[cluster]'`, or leave --scheduler out") from None
    try:
        client = distributed.Client(scheduler, timeout="10s")
    except (OSError, ValueError) as error:
        raise ClusterError(f"the scheduler at {scheduler} does not answer ({error}); start `dask scheduler` there") from None
    with client:
        futures = client.map(simulate, cases, pure=False)
        by_key = {future.key: case for future, case in zip(futures, cases, strict=True)}
        for future in distributed.as_completed(futures):
            try:
                result: Result = future.result()
            except (RunError, ToolchainError):
                raise
            except Exception as error:  # whatever the cluster says of a worker that is gone
                raise ClusterError(f"a worker of {scheduler} failed ({error}); see its log, and run again") from None
            if not is_this_code(result["code"]):
                raise ClusterError(
                    f"a worker of {scheduler} simulates by other code ({result['code']}, here {code_digest()}); "
                    "install this Baton and this ns-3 there"
                )
            yield by_key[future.key], result
