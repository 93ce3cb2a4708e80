"""The one YAML file of `baton up`: its fields, what each may be, and a checker that names the line of every
error.

`check` finds everything that is wrong with a file by itself; whether an interface or a key file exists is
seen when the controller starts. `load` gives a Config, from which the light `settings` of each process are
made. An edge: reads files.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from controller.config.fields import MS, US, Duration, Fraction, Priorities, Rate, Section, Size
from controller.config.openflow import OpenFlow, Tls
from controller.config.pfc import Pfc
from controller.config.settings import CoordinatorSettings, OpenFlowSettings, TreeSource, Weight
from controller.config.sources import joined, listed
from controller.config.web import Web, section
from controller.config.weekly import Weekly
from controller.store import url
from controller.switch_queues.model import KeeperSettings, NamedPort, SwitchQueues, named_ports
from topology import files, marked_yaml
from topology.marked_yaml import Document
from topology.problems import Problem

HEARTBEATS_BEFORE_FAIL_OPEN = 3


class ConfigError(Exception):
    """A file that can't be used: one line with the first problem. `problems` has all."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        more = f" (and {len(problems) - 1} more: baton check {path})" if len(problems) > 1 else ""
        super().__init__(f"{path}: {problems[0]}{more}")
        self.problems = problems


def _none(text: object) -> object:
    return None if text == "none" else text


def _weights(value: object) -> tuple[Weight, ...]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping")
    weights = []
    for flow, text in value.items():
        source, _, destination = (part.strip() for part in flow.partition("->"))
        try:
            weight = float(text)
        except (TypeError, ValueError):
            weight = 0.0
        if not source or not 0 < weight <= 100:
            raise ValueError(f"{flow}: {text!r} is not a weight")
        weights.append(Weight(source, destination, weight))
    return tuple(weights)


class Coordinator(Section):
    """Who grants, where it is attached, and how it decides."""

    interface: str = Field(min_length=1, description="name the network interface towards the fabric, such as eth1")
    attachment: str = Field(
        pattern=r"^[^:]+:[^:]+$",
        description='say where the interface is plugged in, as "switch:port", such as "s1:5"',
    )
    netns: Annotated[str | None, BeforeValidator(_none)] = Field(
        None, description="name the network namespace of the interface, or leave it out"
    )
    key_file: Path = Field(description="name the file made by `baton key generate FILE`")
    policy: Literal["timeslice", "rate_limit", "hybrid", "weekly", "free"] = Field(
        "timeslice", description="write timeslice, rate_limit, hybrid, weekly or free"
    )
    slice_ns: Duration = Field(
        2 * MS,
        alias="slice",
        ge=200 * US,
        le=1_000 * MS,
        description="write a duration from 200us to 1s, such as 2ms",
    )
    lead_ns: Duration = Field(
        1_500 * US, alias="lead", ge=0, le=100 * MS, description="write a duration up to 100ms, such as 1.5ms"
    )
    grace_ns: Duration = Field(
        1 * MS, alias="grace", ge=0, le=100 * MS, description="write a duration up to 100ms, such as 1ms"
    )
    headroom: float = Field(0.985, ge=0.5, le=1, description="write a fraction from 0.5 to 1, such as 0.98")
    minimum_active_ns: Duration = Field(
        1 * MS,
        alias="minimum_active",
        ge=0,
        description="write a duration no longer than the slice, such as 1ms",
    )
    yield_hysteresis_ns: Duration = Field(
        300 * US, alias="yield_hysteresis", ge=0, le=1_000 * MS, description="write a duration, such as 0.3ms"
    )
    heartbeat_ns: Duration = Field(
        12 * MS,
        alias="heartbeat",
        ge=1 * MS,
        le=1_000 * MS,
        description="write a duration from 1ms to 1s, such as 5ms",
    )
    fail_open_ns: Duration = Field(
        50 * MS,
        alias="fail_open",
        ge=5 * MS,
        le=10_000 * MS,
        description="write three heartbeats or more, such as 50ms",
    )
    silence_ns: Duration = Field(
        250 * MS,
        alias="silence",
        ge=10 * MS,
        description="write twice the agents' report period or more, such as 250ms",
    )
    lease_ns: Duration = Field(
        200 * MS, alias="lease", ge=50 * MS, le=60_000 * MS, description="write a duration from 50ms to 1min, such as 200ms"
    )
    realtime_priority: Annotated[int | None, BeforeValidator(_none)] = Field(
        40, ge=1, le=99, description="write a SCHED_FIFO priority from 1 to 99, or none"
    )
    weights: Annotated[tuple[Weight, ...], BeforeValidator(_weights)] = Field(
        (),
        description="write `host: weight` or `host -> host: weight`, with weights up to 100",
    )
    mode: Literal["on_demand", "always"] = Field("on_demand", description="write on_demand or always")
    contend_fraction: Fraction = Field(0.9, description="write a fraction of a link's capacity, such as 0.9")
    release_fraction: Fraction = Field(0.7, description="write a fraction below contend_fraction, such as 0.7")
    quiet_ns: Duration = Field(2_000 * MS, alias="quiet", ge=10 * MS, description="write a duration, such as 2s")


class Agents(Section):
    """What every host's agent is told when it registers."""

    mice_bytes: Size = Field(100_000, description="write a size, such as 100KB")
    mice_rate_bps: Rate = Field(1_000_000, alias="mice_rate", description="write a rate, such as 1mbit")
    report_ns: Duration = Field(
        50 * MS,
        alias="report",
        ge=5 * MS,
        le=10_000 * MS,
        description="write a duration from 5ms to 10s, such as 50ms",
    )


class SwitchPorts(Section):
    """Ports of switches on this machine, whose queues and marking Baton makes and keeps."""

    ports: Annotated[tuple[NamedPort, ...], BeforeValidator(named_ports)] = Field(
        description="write interface: rate, such as s1-eth*: 1Gbit"
    )
    buffer_packets: int = Field(100, ge=1, le=1_000_000, description="write a number of packets, such as 100")
    share: Annotated[float | None, BeforeValidator(_none)] = Field(
        8.0, ge=2**-7, le=2**7, description="write how many times the free buffer a queue may hold, such as 8, or none"
    )
    threshold_bytes: Annotated[Size | None, BeforeValidator(_none)] = Field(
        30_000, alias="marking_threshold", ge=1514, description="write a size of a frame or more, such as 30KB, or none"
    )
    marking: Literal["port", "queue"] = Field("port", description="write port or queue")

    def queues(self) -> SwitchQueues:
        """What all ports have."""
        return SwitchQueues(
            buffer_packets=self.buffer_packets,
            share=self.share,
            marking_threshold_bytes=self.threshold_bytes,
            per_queue=self.marking == "queue",
        )

    def settings(self) -> KeeperSettings:
        """What the process that keeps them is told."""
        return KeeperSettings(ports=self.ports, queues=self.queues())


class Config(Section):
    """The whole file."""

    run_dir: Path = Field(Path("/run/baton"), description="name a directory, such as /run/baton")
    store: Annotated[str | None, BeforeValidator(url.check), BeforeValidator(_none)] = Field(
        None, description=url.EXPECTED
    )
    openflow: OpenFlow = Field(OpenFlow.model_validate({}), description="write a mapping")
    coordinator: Coordinator | None = Field(None, description="write a mapping; without it nobody is coordinated")
    agents: Agents = Field(Agents.model_validate({}), description="write a mapping")
    priorities: Priorities = Field(Priorities.model_validate({}), description="write a mapping")
    pfc: Pfc = Field(Pfc.model_validate({}), description="write a mapping")
    weekly: Weekly = Field(Weekly.model_validate({}), description="write a mapping")
    switch_queues: SwitchPorts | None = Field(None, description="write a mapping; without it no port is touched")
    web: Annotated[Web | None, BeforeValidator(section)] = Field(Web.model_validate({}), description="write a mapping, or none")
    fabric: str | dict[str, Any] | None = Field(
        None, description="name a fabric file, or write the fabric itself; leave it out to learn it"
    )
    sources: tuple[Annotated[TreeSource, BeforeValidator(listed)], ...] = Field(
        (TreeSource("openflow", ""),),
        description="list openflow, ovsdb:ADDRESS (such as unix:/run/openvswitch/db.sock) or bridge:NAME",
    )

    def coordinator_settings(self, store: str) -> CoordinatorSettings | None:
        """What the coordinator is told; None when there is no such section."""
        if self.coordinator is None:
            return None
        fields = {name: getattr(self.coordinator, name) for name in Coordinator.model_fields if name != "netns"}
        if self.store is None and "lease_ns" not in self.coordinator.model_fields_set:
            fields["lease_ns"] = 1000 * MS  # in a private store nobody waits for its end, and machines do stand still
        agents = {name: getattr(self.agents, name) for name in Agents.model_fields}
        priorities = {name: getattr(self.priorities, name) for name in Priorities.model_fields}
        pfc = {name: getattr(self.pfc, name) for name in Pfc.model_fields}
        return CoordinatorSettings(store=store, **fields, **agents, **priorities, **pfc, weekly=self.weekly.settings())

    def openflow_settings(self, fabric_file: Path | None) -> OpenFlowSettings:
        """What the OpenFlow application is told."""
        address, port = self.openflow.listen
        return OpenFlowSettings(
            framework=self.openflow.framework,
            address=address,
            port=port,
            poll_ns=self.openflow.poll_ns,
            fabric_file=fabric_file,
            sources=self.sources,
            tls=None if self.openflow.tls is None else self.openflow.tls.files(Path()),
        )


def check(path: Path) -> list[Problem]:
    """Everything that is wrong with a configuration file, by line; empty when it can be used."""
    return _read(path)[1]


def check_file(path: Path) -> tuple[str, list[Problem]]:
    """Whether a file is a "configuration" or a "fabric" by the names of its fields, and what is wrong with
    it."""
    text, problems = _text(path)
    value = marked_yaml.read(text).value
    if isinstance(value, dict) and value.keys() & set(files.SECTIONS) and not value.keys() & Config.model_fields.keys():
        return "fabric", files.check(text)
    return "configuration", problems or check(path)


def load(path: Path) -> Config:
    """The configuration in a file, relative file names in it taken from its directory. Raises ConfigError."""
    config, problems = _read(path)
    if config is None or problems:
        raise ConfigError(path, problems)
    return config


def _text(path: Path) -> tuple[str, list[Problem]]:
    try:
        return path.read_text(encoding="utf-8"), []
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return "", [Problem("", f"can't be read: {reason}; write one as docs/operating.md shows, or name another")]


def _read(path: Path) -> tuple[Config | None, list[Problem]]:
    text, problems = _text(path)
    if problems:
        return None, problems
    document = marked_yaml.read(text)
    problems = list(document.problems)
    if document.value is None and problems:
        return None, problems
    config = None
    try:
        config = Config.model_validate({} if document.value is None else document.value)
    except ValidationError as error:
        problems += [_problem(details, document) for details in error.errors(include_url=False)]
    else:
        problems += _relations(config, document)
        config = _anchored(config, path.parent)
        problems += _fabric_problems(config, document)
        config = _with_switch_sources(config, path.parent)
    return config, sorted(problems, key=lambda problem: problem.line or 0)


def _problem(details: ErrorDetails, document: Document) -> Problem:
    """A validator's error in the operator's words."""
    section, path, field = _place(details["loc"])
    known = [info.alias or name for name, info in section.model_fields.items()]
    if details["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(path[-1])[:40], known, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"remove it, or choose from {', '.join(known)}"
        return document.problem(path, f"is unknown; {remedy}")
    remedy = (field.description if field is not None else None) or "write fields, each as name: value"
    if details["type"] == "missing":
        return document.problem(path, f"is missing; {remedy}")
    if details["input"] is None:
        return document.problem(path, f"is empty; {remedy}")
    if details["type"] == "value_error":
        reason = str(details["ctx"]["error"])
        return document.problem(path, reason if ";" in reason else f"{reason}; {remedy}")
    if details["type"] == "string_pattern_mismatch":
        return document.problem(path, f"{details['input']!r} is not of this form; {remedy}")
    message = re.sub("^(Input|String|Value) ", "", details["msg"])
    shown = f"{details['input']!r} " if isinstance(details["input"], str) else ""
    return document.problem(path, f"{shown}{message}; {remedy}")


def _place(loc: tuple[str | int, ...]) -> tuple[type[Section], marked_yaml.Path, FieldInfo | None]:
    """Of a validator's location: the section, the path in the file (pydantic adds names of its own), and
    the field."""
    section: type[Section] = Config
    inside: marked_yaml.Path = ()
    if loc and loc[0] in SECTIONS and len(loc) > 1:
        section, inside, loc = SECTIONS[str(loc[0])], loc[:1], loc[1:]
        if section is OpenFlow and loc[0] == "tls" and len(loc) > 1:
            section, inside, loc = Tls, (*inside, "tls"), loc[1:]
    if not loc:
        return section, inside, None
    field = {info.alias or name: info for name, info in section.model_fields.items()}.get(str(loc[0]))
    item = loc[1:2] if loc[0] == "sources" else ()
    return section, (*inside, loc[0], *item), field


SECTIONS: dict[str, type[Section]] = {
    "openflow": OpenFlow,
    "coordinator": Coordinator,
    "agents": Agents,
    "priorities": Priorities,
    "pfc": Pfc,
    "weekly": Weekly,
    "switch_queues": SwitchPorts,
    "web": Web,
}


def _relations(config: Config, document: Document) -> Iterator[Problem]:
    """What must hold between fields."""
    where = config.coordinator
    if where is None:
        return

    def wrong(name: str, text: str) -> Problem:
        return document.problem(("coordinator", name), text)

    least = HEARTBEATS_BEFORE_FAIL_OPEN * where.heartbeat_ns // MS
    if where.fail_open_ns < least * MS:
        yield wrong("fail_open", f"is under three heartbeats: one lost frame opens the gates; write {least}ms or more")
    least = 2 * config.agents.report_ns // MS
    if where.silence_ns < least * MS:
        yield wrong("silence", f"is under two reports of an agent; write {least}ms or more")
    if where.minimum_active_ns > where.slice_ns:
        yield wrong("minimum_active", "is longer than the slice; write no more than coordinator.slice")
    if where.release_fraction >= where.contend_fraction:
        yield wrong("release_fraction", f"is not below contend_fraction; write less than {where.contend_fraction:g}")
    yield from (document.problem(("weekly", field), text) for field, text in config.weekly.settings().faults())


def _fabric_problems(config: Config, document: Document) -> list[Problem]:
    """What is wrong with a fabric that the file names or holds."""
    if isinstance(config.fabric, str):
        text, problems = _text(Path(config.fabric))
        found = problems or files.check(text)
        return [document.problem(("fabric",), f"{config.fabric}: {problem}") for problem in found]
    if config.fabric is None:
        return []
    return [
        document.problem(("fabric", *_parts(problem.field)), problem.text) for problem in files.check(json.dumps(config.fabric))
    ]


def _with_switch_sources(config: Config, directory: Path) -> Config:
    """With the sources that the fabric has at its switches; these alone, if the file lists none."""
    text = json.dumps(config.fabric)
    if isinstance(config.fabric, str):
        text, directory = _text(Path(config.fabric))[0], Path(config.fabric).parent
    if config.fabric is None or not (switches := files.switch_sources(text)):
        return config
    known = config.sources if "sources" in config.model_fields_set else ()
    return config.model_copy(update={"sources": joined(known, switches, directory)})


def _parts(field: str) -> Iterator[str | int]:
    """The path that a dotted field stands for."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", field):
        yield name or int(index)


def _anchored(config: Config, directory: Path) -> Config:
    """With relative names of files taken from the configuration's directory."""
    changes: dict[str, Any] = {"run_dir": (directory / config.run_dir).absolute()}
    if config.coordinator is not None:
        key_file = (directory / config.coordinator.key_file).absolute()
        changes["coordinator"] = config.coordinator.model_copy(update={"key_file": key_file})
    if config.openflow.tls is not None:
        tls = dict(zip(("cert", "key", "ca"), map(Path, config.openflow.tls.files(directory)), strict=True))
        changes["openflow"] = config.openflow.model_copy(update={"tls": config.openflow.tls.model_copy(update=tls)})
    if config.web is not None:
        changes["web"] = config.web.anchored(directory)
    if isinstance(config.fabric, str):
        changes["fabric"] = str((directory / config.fabric).absolute())
    return config.model_copy(update=changes)
