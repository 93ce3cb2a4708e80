"""In which time an experiment runs: the machine's own, in which each host may have a share of a processor, or virtual time, in
which what a processor costs is an option.

Everything slow to import is imported inside the functions, so that `--help` stays quick.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import update_wrapper
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click

from cli.experiments import enter_box, require_root

REAL_TIME_MOST_BPS, MOST_BPS, LEAST_BPS = 100_000_000, 100_000_000_000, 1_000_000
"""The rates of an emulated link: in real time this emulation's switches carry no more; in virtual time any."""
LEAST_SLICE_NS, MOST_SLICE_NS = 1_000_000, 1_000_000_000
"""The range that the configuration allows with its default `minimum_active`; checked before the fabric is built."""
MAX_SHOWN = 64  # characters of a wrong value in an error
LONGEST_ENDING = ".raw.jsonl.new"
"""What is added to a file's name, at most, while its record and the rows beside it are written."""


class ExperimentTime(NamedTuple):
    """In which time an experiment runs; in virtual time the samples (ns) of what processors take, in real time the share of a
    processor for each host's traffic programs, if they have one.
    """

    virtual: bool
    agent_delay_ns: tuple[int, ...]
    controller_delay_ns: tuple[int, ...]
    cpu_share: float | None = None


class Delay(click.ParamType):  # type: ignore[type-arg]  # not subscriptable before click 8.2
    """A delay on the command line: a duration, or a file with samples. Its value is samples in ns."""

    name = "duration|file"

    def __init__(self, who: str) -> None:
        self._who = who

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:  # noqa: ANN401 -- click's
        """The samples: one of a duration, up to `SAMPLES` of a file."""
        from topology.units import parse_duration

        if isinstance(value, tuple):
            return value
        try:
            is_file = Path(value).is_file()
        except OSError:  # too long for a file's name
            is_file = False
        if is_file:
            try:
                found = json.loads(Path(value).read_text())["samples_us"][self._who]
                if not isinstance(found, list) or not found:
                    raise ValueError("no list of samples")
                return tuple(max(0, round(float(sample) * 1e3)) for sample in found)
            except (ValueError, KeyError, TypeError, OverflowError, OSError):
                remedy = "write one by `baton bench latency --json FILE`"
                self.fail(f"{value} holds no samples of the {self._who}; {remedy}", param, ctx)
        try:
            return (parse_duration(value),)
        except ValueError:
            self.fail(f"{value[:MAX_SHOWN]!r} is neither a duration, such as 30us, nor a file", param, ctx)


def enter(time: ExperimentTime, *files: Path | None, seed: int = 1) -> None:
    """Returns in the sandbox of an emulation, in virtual time if that was asked for: runs this same command again there.

    Args:
        files: what the command will write: their directories are made, and in virtual time writable.
        seed: of all random numbers, in virtual time.

    Raises:
        click.BadParameter: a file cannot be written.
    """
    from protocol import virtual_time

    if not virtual_time.inside():
        make_room(*files)
    if time.virtual and not virtual_time.inside():
        enter_virtual_time(time, files, seed)
    require_root()
    if time.cpu_share is not None:
        from emulation.fabric import cpu_shares

        if problem := cpu_shares.remedy():
            raise click.ClickException(f"--cpu-shares: {problem}")
        os.environ[cpu_shares.WANTED] = str(time.cpu_share)
    enter_box()


def enter_virtual_time(time: ExperimentTime, files: Iterable[Path | None], seed: int) -> NoReturn:
    """Runs this same command again in virtual time, and ends with its status."""
    from emulation.virtual import machine
    from emulation.virtual.kernel import KernelError
    from protocol import virtual_time

    directories = [file.absolute().parent for file in files if file is not None]
    delays = {virtual_time.AGENT_DELAY: time.agent_delay_ns, virtual_time.CONTROLLER_DELAY: time.controller_delay_ns}
    environment = {name: ",".join(map(str, samples)) for name, samples in delays.items() if samples}
    argv = [sys.executable, "-m", "cli.main", *sys.argv[1:]]
    try:
        status = machine.run(argv, writable=directories, environment=environment, seed=seed)
    except KernelError as error:
        raise NoVirtualTime(str(error)) from None
    sys.exit(status)


def make_room(*files: Path | None) -> None:
    """Makes the directories of the files that a command will write, and tries to write there, before it measures anything.

    Raises:
        click.BadParameter: a file cannot be written.
    """
    for file in files:
        if file is None:
            continue
        directory, problem = file.absolute().parent, ""
        try:
            if directory.is_dir() and not os.access(directory, os.W_OK):
                problem = "permission denied"
            if file.is_dir():  # an empty name, which click takes for a file's
                problem = "it is a directory"
            elif not file.exists() or file.is_file():
                file.with_name(f"{file.name}{LONGEST_ENDING}").exists()  # raises OSError where the name becomes too long
            directory.mkdir(parents=True, exist_ok=True)
            if file.is_file() or not file.exists():  # a pipe or a device needs no room in its directory
                with tempfile.TemporaryFile(dir=directory) as trial:
                    trial.write(bytes(4096))
        except OSError as error:
            problem = problem or error.strerror or "it cannot be made"
        if problem:
            raise click.BadParameter(f"{file} cannot be written: {problem}; name another file", param_hint="--json, --plot")


class NoVirtualTime(click.ClickException):
    """Virtual time cannot be had as it was asked for; the text says what to do."""

    exit_code = 2


def virtual_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that decide in which time an experiment runs; the command gets them as one argument, `time`."""

    def called(
        *args: object,
        virtual: bool,
        agent_delay: tuple[int, ...],
        controller_delay: tuple[int, ...],
        cpu_share: float | None,
        **options: object,
    ) -> None:
        if (agent_delay or controller_delay) and not virtual:
            raise click.UsageError("a delay needs --virtual: in real time the processor takes its own")
        if cpu_share is not None:
            _check_share(cpu_share, virtual)
        command(*args, time=ExperimentTime(virtual, agent_delay, controller_delay, cpu_share), **options)

    called = update_wrapper(called, command)
    for option in (
        click.option(
            "--cpu-shares",
            "cpu_share",
            type=float,
            help="In real time: the part of a processor that each host's traffic programs may use, such as 0.25.",
        ),
        click.option("--controller-delay", type=Delay("controller"), default=(), help="The same, of the coordinator."),
        click.option(
            "--agent-delay",
            type=Delay("agent"),
            default=(),
            help="In virtual time: what a turn of an agent takes, such as 30us, or a file that `baton bench latency` wrote.",
        ),
        click.option(
            "--virtual", is_flag=True, help="Run in virtual time: exact, the same each time, at any rate. `make virtual` first."
        ),
    ):
        called = option(called)
    return called


def _check_share(share: float, virtual: bool) -> None:
    """Raises click.UsageError: no host can have it. How many hosts there are, and so whether all can, the fabric knows."""
    processors = len(os.sched_getaffinity(0))
    if virtual:
        raise click.UsageError("--cpu-shares needs real time: in virtual time computing takes none; leave one of them out")
    if not 0 < share <= processors:
        problem = f"{share:g} is no share of this machine's {processors} processors; write a part of one, such as 0.25"
        raise click.BadParameter(problem, param_hint="--cpu-shares")


def parse_link_rate(text: str, time: ExperimentTime) -> int:
    """The rate of the emulated links in bit/s. Raises click.BadParameter: no rate, or not one that the experiment can have."""
    from topology.units import parse_rate

    try:
        rate_bps = parse_rate(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--rate") from None
    if not LEAST_BPS <= rate_bps <= MOST_BPS:
        problem = "is no rate for an emulated link; write one from 1mbit to 100gbit"
        raise click.BadParameter(f"{text} {problem}", param_hint="--rate")
    if rate_bps > REAL_TIME_MOST_BPS and not time.virtual:
        problem = "needs --virtual: in real time the emulation carries 100mbit a link"
        raise click.BadParameter(f"{text} {problem}", param_hint="--rate")
    return rate_bps


def parse_slice(text: str) -> int:
    """The length of a timeslice in ns. Raises click.BadParameter: no duration, or not one that a coordinator takes."""
    from topology.units import parse_duration

    try:
        slice_ns = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--slice") from None
    if not LEAST_SLICE_NS <= slice_ns <= MOST_SLICE_NS:
        says = f"{text} is no timeslice; write a duration from 1ms to 1s, such as 2ms"
        raise click.BadParameter(says, param_hint="--slice")
    return slice_ns
