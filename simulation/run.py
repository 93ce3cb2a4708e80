"""Runs a case's program and summarises what came out. An edge: a process of its own, which ends with this one."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from signal import SIGKILL
from threading import Thread
from typing import Any

from emulation import cdfs
from simulation.cases import Case
from simulation.results import ended, summary
from simulation.toolchain import code_digest, program

Progress = Callable[[float], None]
"""Hears now and then which part of the flows has ended."""


class RunError(Exception):
    """A program failed; the text is its message."""


def lines_of(
    name: str,
    text: str,
    told: Callable[[dict[str, Any]], None] | None = None,
    answer: Callable[[dict[str, Any]], str] | None = None,
) -> list[dict[str, Any]]:
    """The lines of JSON that a program writes for an input. Raises RunError, ToolchainError.

    `told` hears each. With `answer` the program's questions, lines with "told", are answered by it, and are not in the result.
    Half a line, as a program that is killed leaves, is none.
    """
    found = []
    pipe = subprocess.PIPE
    with subprocess.Popen([program(name)], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as run:
        assert run.stdin and run.stdout and run.stderr
        feeder = Thread(target=_feed, args=(run.stdin, text, answer is None), daemon=True)
        feeder.start()
        try:
            for read in run.stdout:
                if not read.endswith("\n"):
                    break
                line = json.loads(read)
                if answer is not None and "told" in line:
                    _feed(run.stdin, answer(line), False)
                    continue
                found.append(line)
                if told is not None:
                    told(line)
            error = run.stderr.read()
        except BaseException:
            run.kill()
            raise
        feeder.join()
    if run.returncode == -SIGKILL:
        raise RunError(f"{name} was killed; if memory ran out, run fewer --jobs at a time, or fewer --flows")
    if run.returncode:
        raise RunError(f"{name} failed: {error.strip() or f'exit status {run.returncode}'}")
    return found


def _feed(pipe: Any, text: str, last: bool) -> None:  # noqa: ANN401 -- a pipe
    try:
        pipe.write(text)
        pipe.flush()
        if last:
            pipe.close()
    except BrokenPipeError:
        pass  # the program's own message says why it stopped reading


def simulate(case: Case, progress: Progress | None = None) -> dict[str, Any]:
    """A case's result: the case, a hash of the code, thresholds, seconds on the wall, and `simulation.results.summary`.

    Raises as `lines_of`.
    """
    flows = case.scheduled(cdfs.load(case.workload))
    refused = case.refused(flows)
    sent = case.sent(flows, refused)
    text, cuts = case.program_input(sent)
    began = time.monotonic()

    def told(line: dict[str, Any]) -> None:
        if progress is not None and "done" in line:
            progress(line["done"] / len(flows))

    lines = lines_of("fabric_run", text, told)
    close = lines[-1]
    return {
        "case": case.described(),
        "key": case.key,
        "code": code_digest(),
        "beta_bytes": list(cuts.beta),
        "alpha_bytes": list(cuts.alpha),
        "wall_s": round(time.monotonic() - began, 1),
        "simulated_ms": close["now_ns"] / 1e6,
        "events": close["events"],
        "drops": close["drops"],
        "marks": close["marks"],
        "refused": sum(bool(one.refused_ns and not one.admitted_ns) for one in sent[case.counted]),
        "admitted_later": sum(bool(one.admitted_ns) for one in sent[case.counted]),
        **summary(ended(flows, lines, case.fabric)[case.counted]),
    }
