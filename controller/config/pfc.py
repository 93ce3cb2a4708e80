"""The section `pfc` of the configuration: which link partners' pauses agents obey, when pauses are a storm, and the class of
each host's traffic. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from controller.config.fields import Section
from protocol.bodies.pfc import NODES_MAX, PARTNERS_MAX
from protocol.pfc import CLASSES
from protocol.units import MILLISECOND_NS as MS
from topology.units import parse_duration

TIME_NS = 200 * MS
LEAST_NS, MOST_NS = 1 * MS, 60_000 * MS
MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")


def _times(value: object) -> tuple[int, ...]:
    """Times by class: one time for all, or {class: time} with the default for the others."""
    named: dict[object, Any] = value if isinstance(value, dict) else dict.fromkeys(range(CLASSES), value)
    times = dict.fromkeys(range(CLASSES), TIME_NS)
    for name, text in named.items():
        times[_class(name)] = time_ns = parse_duration(text)
        if not LEAST_NS <= time_ns <= MOST_NS:
            raise ValueError(f"{text} is not a time from 1ms to 60s")
    return tuple(times.values())


def _class(text: object) -> int:
    if not str(text).isdecimal() or int(str(text)) >= CLASSES:
        raise ValueError(f"class {text}: classes are from 0 to {CLASSES - 1}")
    return int(str(text))


def _macs(value: object) -> tuple[str, ...]:
    macs = [str(item).lower() for item in value] if isinstance(value, list | tuple) else [str(value)]
    for mac in macs:
        if not MAC.fullmatch(mac):
            raise ValueError(f"{mac!r} is not a MAC address")
    return tuple(macs)


def _hosts(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping")
    return tuple((str(host), _class(priority)) for host, priority in value.items())


class PfcSection(Section):
    """Pauses by IEEE 802.1Qbb and IEEE 802.3x at the hosts, where their agents run with `--pfc`."""

    pfc_accept_from: Annotated[tuple[str, ...], BeforeValidator(_macs)] = Field(
        (),
        alias="accept_from",
        max_length=PARTNERS_MAX,
        description="list the MAC addresses of switch ports, such as [02:00:00:00:00:0a]; leave it out for any link partner",
    )
    pfc_detection_ns: Annotated[tuple[int, ...], BeforeValidator(_times)] = Field(
        (TIME_NS,) * CLASSES,
        alias="detection",
        description="write a time, such as 200ms, or times by class, such as {3: 100ms}",
    )
    pfc_restoration_ns: Annotated[tuple[int, ...], BeforeValidator(_times)] = Field(
        (TIME_NS,) * CLASSES,
        alias="restoration",
        description="write a time, such as 200ms, or times by class, such as {3: 1s}",
    )
    pfc_action: Literal["drop", "forward", "alert"] = Field("drop", alias="action", description="write drop, forward or alert")
    pfc_classes: Annotated[tuple[tuple[str, int], ...], BeforeValidator(_hosts)] = Field(
        (),
        alias="classes",
        max_length=NODES_MAX,
        description="write `host: class` for the destinations whose class is not 0, such as {h6: 3}",
    )
