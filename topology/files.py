"""Reads, writes and checks fabric files, YAML or JSON. Pure, but for `load`, which opens a file.

An example, with everything that a file can hold::

    switches:
      - s1                              # short for {name: s1}
      - name: s2
        dpid: 0x2                       # OpenFlow datapath id: decimal, or hexadecimal after 0x
        priority: 4096                  # bridge priority of the spanning tree, 0 to 65535; 32768 if not given
        source: snmp                    # what reports which of its ports forward: openflow, ovsdb, bridge or snmp
        address: 10.0.0.12:161          # the source's address: see topology/sources.py
        credentials: snmp.yaml          # the name of the file with the credentials
    hosts:
      - h1
      - name: h2
        addresses: [10.0.0.2, 10.0.1.2]  # of its VMs, or its own
        mac: 02:00:00:00:00:02
    links:
      - {a: h1, b: s1, rate: 100Mbit}
      - {a: h2, b: s2, rate: 1G}
      - a: s1
        b: s2
        rate: 10G                       # the capacity from a to b: see topology/units.py
        reverse_rate: 1G                # from b to a; the same if not given
        a_port: s1-eth3                 # the ports' names at both ends, if switches report them
        b_port: s2-eth2

What a fabric can't have is listed in topology/fabric.py; the fabric in a file must also be connected. `check`
returns every problem in the order of the lines, with the path of its field, its line, what is wrong and the remedy.

A file without the section `switches` is *partial*: it gives the links whose rates differ from what Baton learns, and hosts
that have names. Its links name switches and hosts as Baton learns them::

    links:
      - {a: c1, b: a1, rate: 200Mbit}
      - {a: t3, b: "t3:h6-p", rate: 100Mbit}    # a host that has no name in this file: its switch and port
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from topology import marked_yaml
from topology.fabric import DEFAULT_PRIORITY, Fabric, FabricBuilder
from topology.interface_names import LONGEST
from topology.marked_yaml import Document, Value
from topology.problems import FabricError, Problem
from topology.sources import SwitchSource
from topology.sources import problems as source_problems
from topology.text_file import Unreadable, text_of
from topology.units import format_rate, parse_rate

DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
PLACEHOLDER_RATE = "1"  # for a link whose rate is wrong, so that its ends are checked all the same
FIELD_NAMES = {"rate_bps": "rate", "reverse_rate_bps": "reverse_rate"}


def load(path: Path | str, *, partial: bool = False) -> Fabric:
    """The fabric in a file.

    Args:
        partial: whether the file may be partial; every name that the file does not declare is then a switch of the result.

    Raises:
        FabricError: the file can't be read, or has problems; the error holds all of them.
    """
    try:
        text = text_of(Path(path))
    except Unreadable as error:
        raise FabricError(Problem(str(path), f"can't be read: {error}; name a YAML or JSON file")) from None
    return loads(text, partial=partial)


def loads(text: str, *, partial: bool = False) -> Fabric:
    """The fabric in a text, as `load`; raises FabricError with all its problems."""
    fabric, problems, _ = _read(text, partial)
    if problems:
        raise FabricError(*problems)
    return fabric


def switch_sources(text: str) -> tuple[SwitchSource, ...]:
    """The sources of the spanning tree that a text names at its switches; entries with mistakes are left out."""
    return _read(text, partial=True)[2]


def check(text: str, *, partial: bool = False) -> list[Problem]:
    """All problems of a text; empty if it is a valid fabric, or a partial one if it may be one. Never raises."""
    return _read(text, partial)[1]


def is_partial(text: str) -> bool:
    """Whether a text gives links or hosts, but no switches."""
    value = marked_yaml.read(text).value
    return isinstance(value, dict) and _lacks_switches(value)


def dumps(fabric: Fabric) -> str:
    """A fabric as YAML that `loads` reads back."""
    content = fabric.to_dict()
    for link in content["links"]:
        rate_bps, reverse_bps = link.pop("rate_bps"), link.pop("reverse_rate_bps")
        link["rate"] = format_rate(rate_bps)
        link["reverse_rate"] = None if reverse_bps == rate_bps else format_rate(reverse_bps)
    sections = {
        section: [{name: value for name, value in one.items() if value not in (None, [])} for one in entries]
        for section, entries in content.items()
    }
    text: str = yaml.dump(sections, Dumper=DUMPER, default_flow_style=None, sort_keys=False, allow_unicode=True, width=200)
    return text


# --- fields ---------------------------------------------------------------------------------------------


def _number(text: object) -> object:
    """Converts a hexadecimal number; leaves other values for pydantic to convert or refuse."""
    return int(text, 16) if isinstance(text, str) and re.fullmatch("0x[0-9A-Fa-f]{1,16}", text) else text


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class _Entry(BaseModel):
    """The base of all entries. A field's description says what to write: it is the remedy if the field is missing or wrong."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Switch(_Entry):
    name: str = Field(description="the name of the switch")
    dpid: Annotated[int, BeforeValidator(_number)] | None = Field(None, description="a number such as 0x1")
    priority: int = Field(DEFAULT_PRIORITY, description="a number of 0 to 65535")
    source: str = Field("", description="openflow, ovsdb, bridge or snmp")
    address: str = Field("", description="where the source is asked, such as 10.0.0.11")
    credentials: str = Field("", description="the name of a file")


class _Host(_Entry):
    name: str = Field(description="the name of the host")
    addresses: Annotated[list[str], BeforeValidator(_listed)] = Field([], description="[10.0.0.1, 10.0.0.2]")
    mac: str | None = Field(None, description="a MAC address such as 02:00:00:00:00:01")


class _Link(_Entry):
    a: str = Field(description="the name of the node at one end")
    b: str = Field(description="the name of the node at the other end")
    rate: Annotated[int, BeforeValidator(parse_rate)] = Field(description="the capacity, such as 1G")
    reverse_rate: Annotated[int, BeforeValidator(parse_rate)] | None = Field(None, description="such as 1G")
    a_port: str | None = Field(None, description="the name of the port at a")
    b_port: str | None = Field(None, description="the name of the port at b")


SECTIONS = ("switches", "hosts", "links")
AnyEntry = TypeVar("AnyEntry", bound=_Entry)


# --- the checker ----------------------------------------------------------------------------------------


def _lacks_switches(sections: Mapping[str, Value]) -> bool:
    return "switches" not in sections and bool(sections.keys() & set(SECTIONS))


def _read(text: str, partial: bool) -> tuple[Fabric, list[Problem], tuple[SwitchSource, ...]]:
    document = marked_yaml.read(text)
    checker = _Checker(document)
    checker.partial = partial and isinstance(document.value, dict) and _lacks_switches(document.value)
    if isinstance(document.value, dict):
        checker.check(document.value)
    elif not document.problems:
        checker.refuse((), "holds no fields; write switches, hosts and links")
    fabric = checker.builder.build()
    if not checker.problems:
        (checker.check_any if checker.partial else checker.check_connected)(fabric)
    return fabric, sorted(checker.problems, key=lambda problem: problem.line or 0), tuple(checker.sources)


class _Checker:
    """Adds entry after entry to a builder; what the builder refuses is a problem of that entry."""

    def __init__(self, document: Document) -> None:
        self.builder = FabricBuilder()
        self.problems = list(document.problems)
        self.sources: list[SwitchSource] = []
        self.partial = False
        self._document = document
        self._place: dict[str, tuple[str, int]] = {}  # a node's name -> section and position
        self._long_names: set[str] = set()  # of switches whose ports may have them

    def refuse(self, path: marked_yaml.Path, text: str) -> None:
        self.problems.append(self._document.problem(path, text))

    def check(self, sections: Mapping[str, Value]) -> None:
        """Checks switches and hosts before links, in whatever order the file has them."""
        for name in sections.keys() - set(SECTIONS):
            self.refuse((name,), f"is unknown; write {', '.join(SECTIONS)}")
        for at, raw in enumerate(self._entries(sections, "switches")):
            if switch := self._entry(_Switch, {}, ("switches", at), raw):
                self._place.setdefault(switch.name, ("switches", at))
                if switch.source == "snmp":
                    self._long_names.add(switch.name)
                fields = {"dpid": switch.dpid, "priority": switch.priority}
                if self._refused(("switches", at), self.builder.add_switch, switch.name, **fields):
                    self._keep(self.builder.add_switch, switch.name)
                self._take_source(("switches", at), switch)
        for at, raw in enumerate(self._entries(sections, "hosts")):
            if host := self._entry(_Host, {}, ("hosts", at), raw):
                self._place.setdefault(host.name, ("hosts", at))
                self._check_unicast(("hosts", at), host.addresses)
                add = self.builder.add_host
                if refused := self._refused(("hosts", at), add, host.name, host.addresses, host.mac):
                    places = enumerate(host.addresses)
                    self._keep(add, host.name, [one for i, one in places if f"addresses[{i}]" not in refused])
        for at, raw in enumerate(self._entries(sections, "links")):
            if link := self._entry(_Link, {"rate": PLACEHOLDER_RATE}, ("links", at), raw):
                self._check_ports(at, link)
                ends = link.a, link.b, link.rate, link.a_port, link.b_port, link.reverse_rate
                if not self.partial or (self._declare(at, "a", link.a) and self._declare(at, "b", link.b)):
                    self._refused(("links", at), self.builder.add_link, *ends)

    def _declare(self, at: int, field: str, name: str) -> bool:
        """Adds a node that a partial file's link names and no section has; returns whether the link can be added."""
        if name not in self._place:
            try:
                self.builder.add_switch(name)
            except FabricError as error:
                self.refuse(("links", at, field), error.problems[0].text)
                return False
            self._place[name] = ("links", at)
        return True

    def check_any(self, fabric: Fabric) -> None:
        """A partial file need not be connected, but it must say something."""
        if not fabric.switches and not fabric.hosts:
            self.refuse((), "has no switches and no hosts; add some")

    def check_connected(self, fabric: Fabric) -> None:
        self.check_any(fabric)
        main, *others = fabric.parts() or [set()]
        for part in others:
            place, name = min((self._place[name], name) for name in part)
            text = f"{name!r} is not connected to {min(main)!r}; add a link that joins its part to the rest"
            self.refuse(place, text)

    def _take_source(self, path: marked_yaml.Path, switch: _Switch) -> None:
        source = SwitchSource(switch.name, switch.source, switch.address, switch.credentials)
        wrong = list(source_problems(source))
        for field, text in wrong:
            self.refuse((*path, field), text)
        if source.kind and not wrong:
            self.sources.append(source)

    def _entries(self, sections: Mapping[str, Value], section: str) -> list[Value]:
        entries = sections.get(section)
        if entries is None:
            return []
        if not isinstance(entries, list):
            self.refuse((section,), "is not a list; write one entry a line, each after a dash")
            return []
        return entries

    def _entry(
        self, model: type[AnyEntry], placeholders: dict[str, str], path: marked_yaml.Path, raw: Value
    ) -> AnyEntry | None:
        """The validated entry; if fields are wrong, an entry of the other fields, or None if these do not suffice."""
        if isinstance(raw, str) and "name" in model.model_fields:
            raw = {"name": raw}
        if not isinstance(raw, dict):
            fields = ", ".join(f"{name}: ..." for name in model.model_fields)
            self.refuse(path, f"is not an entry; write {{{fields}}}")
            return None
        try:
            return model.model_validate(raw)
        except ValidationError as error:
            wrong = error.errors(include_url=False)
        for one in wrong:
            self.refuse((*path, *_own_path(one["loc"])), _explain(model, one))
        bad = {one["loc"][0] for one in wrong}
        good = {name: value for name, value in raw.items() if name not in bad}
        try:
            return model.model_validate(placeholders | good)
        except ValidationError:
            return None

    def _refused(self, path: marked_yaml.Path, add: Callable[..., FabricBuilder], *args: object, **fields: object) -> set[str]:
        """Adds an entry to the builder; returns the names of the fields that the builder refused."""
        try:
            add(*args, **fields)
        except FabricError as error:
            for problem in error.problems:
                name, _, rest = FIELD_NAMES.get(problem.field, problem.field).partition("[")
                index = (int(rest[:-1]),) if rest else ()
                self.refuse((*path, name, *index), problem.text)
            return {problem.field for problem in error.problems}
        return set()

    def _keep(self, add: Callable[..., FabricBuilder], *good: object) -> None:
        """Adds the valid part of a refused node, so that links to it are not reported as wrong, too."""
        try:
            add(*good)
        except FabricError:
            return  # its name is what was refused

    def _check_ports(self, at: int, link: _Link) -> None:
        """Only switches that answer SNMP have ports with longer names than interfaces have."""
        for field, node, port in (("a_port", link.a, link.a_port), ("b_port", link.b, link.b_port)):
            if port is not None and len(os.fsencode(port)) > LONGEST and node not in self._long_names:
                text = f"{port!r} is longer than an interface's name; write at most {LONGEST} bytes"
                self.refuse(("links", at, field), text)

    def _check_unicast(self, path: marked_yaml.Path, addresses: list[str]) -> None:
        for at, text in enumerate(addresses):
            try:
                address = ip_address(text)
            except ValueError:
                continue  # the builder says so
            if address.is_multicast or address.is_unspecified:
                self.refuse((*path, "addresses", at), f"{text} can't be a VM's; write one such as 10.0.0.1")


def _own_path(loc: tuple[int | str, ...]) -> marked_yaml.Path:
    """pydantic's location of an error without the names of validators, which follow the field's name."""
    return loc[:1] if len(loc) < 2 or isinstance(loc[1], str) else loc[:2]


def _explain(model: type[_Entry], error: Any) -> str:  # noqa: ANN401 -- pydantic's ErrorDetails
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name[:40], model.model_fields, n=1)
        return f"is unknown; write {near[0] if near else 'one of ' + ', '.join(model.model_fields)}"
    remedy = f"write {model.model_fields[name].description}"
    if error["type"] == "missing" or error["input"] is None:
        return f"is missing; {remedy}"
    if error["type"] == "value_error" and ";" in error["msg"]:
        return str(error["ctx"]["error"])
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}; {remedy}"
