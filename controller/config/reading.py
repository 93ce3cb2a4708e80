"""Reads a configuration file, and says what is wrong with it and where. An edge: reads files."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from controller.config.fields import Section
from controller.config.openflow import OpenFlowSection, TlsSection
from controller.config.schema import SECTIONS, Config
from controller.config.sources import joined
from protocol.bodies.text import printable
from topology import files, marked_yaml
from topology.marked_yaml import Document
from topology.problems import Problem
from topology.text_file import Unreadable, text_of
from topology.units import format_duration, format_rate, format_size, parse_duration, parse_rate, parse_size

HEARTBEATS_BEFORE_FAIL_OPEN = 3
SOCKET_NAME_MAX = 107
"""Bytes in the name of a Unix socket: sun_path in linux/un.h, with a null byte at its end."""
BOUNDS = {
    "greater_than": ("gt", "is not above"), "greater_than_equal": ("ge", "is under"), "less_than": ("lt", "is not below"),
    "less_than_equal": ("le", "is over"),
}  # fmt: skip
"""By type of pydantic's error: where it has the bound, and what to say of it."""
WORDS = {
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "is not a mapping"),
    **dict.fromkeys(("tuple_type", "list_type"), "is not a list"), "string_type": "is not a text",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "is not a whole number"),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), "is not a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "is neither true nor false"), "literal_error": "is none of these",
}  # fmt: skip
"""By type of pydantic's error: what to say of the value, in the operator's words."""
WRITTEN = {parse_duration: format_duration, parse_rate: format_rate, parse_size: format_size}


class ConfigError(Exception):
    """A file that can't be used: one line with the first problem. `problems` has all."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        more = f" (and {len(problems) - 1} more: baton check {path})" if len(problems) > 1 else ""
        super().__init__(f"{path}: {problems[0]}{more}")
        self.problems = problems


def check(path: Path) -> list[Problem]:
    """All problems of a configuration file, by line; empty when it can be used."""
    return _read(path)[1]


def check_file(path: Path) -> tuple[str, list[Problem]]:
    """Whether a file is a "configuration" or a "fabric" by the names of its fields, and its problems."""
    text, problems = _text(path)
    value = marked_yaml.read(text).value
    if isinstance(value, dict) and value.keys() & set(files.SECTIONS) and not value.keys() & Config.model_fields.keys():
        return "fabric", files.check(text, partial=True)
    return "configuration", problems or check(path)


def load(path: Path) -> Config:
    """The configuration in a file; relative file names in it count from its directory. Raises ConfigError."""
    config, problems = _read(path)
    if config is None or problems:
        raise ConfigError(path, problems)
    return config


def _text(path: Path, shown: str = "docs/operating.md") -> tuple[str, list[Problem]]:
    try:
        return text_of(path), []
    except Unreadable as error:
        return "", [Problem("", f"can't be read: {error}; write one as {shown} shows, or name another")]


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
        problems += _run_dir_problems(config, document)
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
    if details["type"] in BOUNDS:
        name, words = BOUNDS[details["type"]]
        return document.problem(path, f"{words} {_as_written(details['ctx'][name], field)}; {remedy}")
    if details["type"] == "string_too_short":
        return document.problem(path, f"is empty; {remedy}")
    message = WORDS.get(details["type"]) or re.sub("^(Input|String|Value) ", "", details["msg"])
    shown = f"{details['input']!r} " if isinstance(details["input"], str) else ""
    return document.problem(path, f"{shown}{message}; {remedy}")


def _as_written(value: float, field: FieldInfo | None) -> str:
    """A number as operators write it in this field: a duration, a rate and a size have units."""
    made = {getattr(one, "func", None) for one in (field.metadata if field is not None else ())}
    for parse, write in WRITTEN.items():
        if parse in made:
            return write(int(value))
    return f"{value:g}"


def _place(loc: tuple[str | int, ...]) -> tuple[type[Section], marked_yaml.Path, FieldInfo | None]:
    """The section, the path in the file (pydantic adds names of its own) and the field of a validator's location."""
    section: type[Section] = Config
    inside: marked_yaml.Path = ()
    if loc and loc[0] in SECTIONS and len(loc) > 1:
        section, inside, loc = SECTIONS[str(loc[0])], loc[:1], loc[1:]
        if section is OpenFlowSection and loc[0] == "tls" and len(loc) > 1:
            section, inside, loc = TlsSection, (*inside, "tls"), loc[1:]
    if not loc:
        return section, inside, None
    field = {info.alias or name: info for name, info in section.model_fields.items()}.get(str(loc[0]))
    item = loc[1:2] if loc[0] == "sources" else ()
    return section, (*inside, loc[0], *item), field


def _relations(config: Config, document: Document) -> Iterator[Problem]:
    """Problems between fields that are right by themselves."""
    if config.store is None and config.replicas:
        yield document.problem(("replicas",), "the private store has none; write 0, or set store")
    where = config.coordinator
    if where is None:
        return

    def wrong(name: str, text: str) -> Problem:
        return document.problem(("coordinator", name), text)

    if where.fail_open_ns < (least_ns := HEARTBEATS_BEFORE_FAIL_OPEN * where.heartbeat_ns):
        least = format_duration(least_ns)
        yield wrong("fail_open", f"is under three heartbeats: one lost frame opens the gates; write {least} or more")
    if where.silence_ns < (least_ns := 2 * config.agents.report_ns):
        yield wrong("silence", f"is under two reports of an agent; write {format_duration(least_ns)} or more")
    if where.minimum_active_ns > where.slice_ns:
        yield wrong("minimum_active", "is longer than the slice; write no more than coordinator.slice")
    if where.release_fraction >= where.contend_fraction:
        yield wrong("release_fraction", f"is not below contend_fraction; write less than {where.contend_fraction:g}")
    yield from (document.problem(("weekly", field), text) for field, text in config.weekly.settings().faults())


def _run_dir_problems(config: Config, document: Document) -> list[Problem]:
    """Problems of the whole name of the run directory."""
    most = SOCKET_NAME_MAX - len("/store/redis.sock" if config.store is None else "/control.sock")
    if (long := len(os.fsencode(config.run_dir))) <= most:
        return []
    told = f"{config.run_dir} has {long} bytes, too many for the sockets in it; name a directory of at most {most} bytes"
    return [document.problem(("run_dir",), printable(told))]


def _fabric_problems(config: Config, document: Document) -> list[Problem]:
    """Problems of the fabric that the file names or holds."""
    if config.fabric is None:
        return []
    named = isinstance(config.fabric, str)
    text, problems = _text(Path(str(config.fabric)), "docs/fabric-file.md") if named else (json.dumps(config.fabric), [])
    if not problems and files.is_partial(text) and any(source.kind != "openflow" for source in config.sources):
        told = "lists no switches, and Baton learns the rest from OpenFlow switches only; list all switches, hosts and links"
        return [document.problem(("fabric",), told)]
    found = problems or files.check(text, partial=True)
    if named:
        return [document.problem(("fabric",), printable(f"{config.fabric}: {problem}")) for problem in found]
    return [document.problem(("fabric", *_parts(problem.field)), problem.text) for problem in found]


def _with_switch_sources(config: Config, directory: Path) -> Config:
    """The configuration with the sources that the fabric has at its switches; only with these, if the file lists none."""
    text = json.dumps(config.fabric)
    if isinstance(config.fabric, str):
        text, directory = _text(Path(config.fabric))[0], Path(config.fabric).parent
    if config.fabric is None or not (switches := files.switch_sources(text)):
        return config
    known = config.sources if "sources" in config.model_fields_set else ()
    return config.model_copy(update={"sources": joined(known, switches, directory)})


def _parts(field: str) -> Iterator[str | int]:
    """The path of a dotted field."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", field):
        yield name or int(index)


def _anchored(config: Config, directory: Path) -> Config:
    """The configuration with absolute names of files; relative ones count from the configuration's directory."""
    changes: dict[str, Any] = {"run_dir": (directory / config.run_dir).absolute()}
    if config.coordinator is not None:
        section = config.coordinator
        files = {"key_file": section.key_file, "shared_key_file": section.shared_key_file}
        anchored = {name: (directory / file).absolute() for name, file in files.items() if file is not None}
        changes["coordinator"] = section.model_copy(update=anchored)
    if config.openflow.tls is not None:
        tls = dict(zip(("cert", "key", "ca"), map(Path, config.openflow.tls.files(directory)), strict=True))
        changes["openflow"] = config.openflow.model_copy(update={"tls": config.openflow.tls.model_copy(update=tls)})
    if config.web is not None:
        changes["web"] = config.web.anchored(directory)
    if isinstance(config.fabric, str):
        changes["fabric"] = str((directory / config.fabric).absolute())
    return config.model_copy(update=changes)
