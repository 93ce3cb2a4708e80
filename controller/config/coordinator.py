"""The section `coordinator` of the configuration. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from controller.config.fields import Duration, File, Fraction, Interface, Section, or_none
from controller.config.settings import Weight
from controller.store.layout import LEAST_WEIGHT, MOST_WEIGHT
from protocol.units import MICROSECOND_NS as US
from protocol.units import MILLISECOND_NS as MS


def _weights(value: object) -> tuple[Weight, ...]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping")
    weights: dict[tuple[str, str], Weight] = {}
    for flow, text in value.items():
        source, _, destination = (part.strip() for part in flow.partition("->"))
        try:
            weight = float(text)
        except (TypeError, ValueError):
            weight = 0.0
        if not source or not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
            raise ValueError(f"{flow}: {text!r} is not a weight")
        if source == destination:
            raise ValueError(f"{flow}: a host sends nothing to itself")
        if (source, destination) in weights:
            raise ValueError(f"{flow}: is there twice")
        weights[source, destination] = Weight(source, destination, weight)
    return tuple(weights.values())


class CoordinatorSection(Section):
    """The coordinator: where it is attached, how it decides, when hosts stop waiting for it."""

    interface: Interface = Field(min_length=1, description="name the network interface towards the fabric, such as eth1")
    attachment: str = Field(
        pattern=r"^[^:\s]([^:]*[^:\s])?:[^:\s]([^:]*[^:\s])?$",
        description='say where the interface is plugged in, as "switch:port", such as "s1:5"',
    )
    netns: Annotated[str | None, BeforeValidator(or_none)] = Field(
        None, description="name the network namespace of the interface, or leave it out"
    )
    key_file: File = Field(description="name the master key's file, made by `baton key generate FILE`")
    shared_key_file: Annotated[File | None, BeforeValidator(or_none)] = Field(
        None, description="name the key file that hosts of version 2 share, or leave it out: only for the time of an upgrade"
    )
    policy: Literal["auto", "timeslice", "rate_limit", "hybrid", "steps", "weekly", "free"] = Field(
        "auto", description="write auto, timeslice, rate_limit, hybrid, steps, weekly or free"
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
    control_priority_tag: Annotated[int | None, BeforeValidator(or_none)] = Field(
        None, ge=0, le=7, description="write an 802.1p priority from 0 to 7, such as 7, or none"
    )
    heartbeat_ns: Duration = Field(
        12 * MS,
        alias="heartbeat",
        ge=1 * MS,
        le=2_500 * MS,
        description="write a duration from 1ms to 2.5s, such as 5ms",
    )
    fail_open_ns: Duration = Field(
        50 * MS,
        alias="fail_open",
        ge=5 * MS,
        le=10_000 * MS,
        description="write three heartbeats or more, and at most 10s, such as 50ms",
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
    realtime_priority: Annotated[int | None, BeforeValidator(or_none)] = Field(
        40, ge=1, le=99, description="write a SCHED_FIFO priority from 1 to 99, or none"
    )
    weights: Annotated[tuple[Weight, ...], BeforeValidator(_weights)] = Field(
        (),
        description="write `host: weight` or `host -> host: weight`, each once, "
        f"with weights from {LEAST_WEIGHT} to {MOST_WEIGHT}",
    )
    mode: Literal["on_demand", "always"] = Field("on_demand", description="write on_demand or always")
    contend_fraction: Fraction = Field(0.9, description="write a fraction of a link's capacity, such as 0.9")
    release_fraction: Fraction = Field(0.7, description="write a fraction below contend_fraction, such as 0.7")
    quiet_ns: Duration = Field(2_000 * MS, alias="quiet", ge=10 * MS, description="write a duration, such as 2s")
