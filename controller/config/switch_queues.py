"""The section `switch_queues` of the configuration. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from controller.config.fields import Section, Size, interface, or_none
from controller.switch_queues.model import (
    FIRST_QUEUES,
    FIRST_RESERVED,
    LEAST_SHARE,
    MOST_SHARE,
    QUEUES,
    KeeperSettings,
    NamedPort,
    Number,
    SwitchQueues,
    each_queue,
    named_ports,
    shares,
)
from protocol.units import FRAME_BYTES


def _listed(value: object) -> object:
    """One value for all queues, or a list from the first queue down, of which the last counts for all below it."""
    return value if isinstance(value, list | tuple) else (value,)


def _named(ports: tuple[NamedPort, ...]) -> tuple[NamedPort, ...]:
    """Ports whose names an interface can have, unless they are patterns. Raises ValueError."""
    for pattern, _ in ports:
        if not set("*?[") & set(pattern):
            interface(pattern)
    return ports


def _of_each_queue(values: Sequence[Number]) -> tuple[Number, ...]:
    if not 1 <= len(values) <= QUEUES:
        raise ValueError(f"has {len(values)} values, not one to {QUEUES}")
    return each_queue(values)


Share = Annotated[float, Field(ge=LEAST_SHARE, le=MOST_SHARE)]
Shares = Annotated[tuple[Share, ...], BeforeValidator(_listed), AfterValidator(_of_each_queue)]
Packets = Annotated[int, Field(ge=0)]
Reserved = Annotated[tuple[Packets, ...], BeforeValidator(_listed), AfterValidator(_of_each_queue)]


class SwitchQueuesSection(Section):
    """Ports of switches on this machine, with the queues and the marking that Baton makes and keeps there."""

    ports: Annotated[tuple[NamedPort, ...], BeforeValidator(named_ports), AfterValidator(_named)] = Field(
        description="write interface: rate, such as s1-eth*: 1Gbit"
    )
    buffer_packets: int = Field(100, ge=1, le=1_000_000, description="write a number of packets, such as 100")
    share: Annotated[Shares | None, BeforeValidator(or_none)] = Field(
        shares(FIRST_QUEUES),
        description="write how many times the free buffer each queue may hold, the first first, such as [8, 8, 0.5], or none",
    )
    reserved: Reserved = Field(
        each_queue((FIRST_RESERVED, 0)),
        description="write how many packets of the buffer are each queue's alone, the first first, such as [8, 0]",
    )
    threshold_bytes: Annotated[Size | None, BeforeValidator(or_none)] = Field(
        30_000, alias="marking_threshold", ge=FRAME_BYTES, description="write a size of a frame or more, such as 30KB, or none"
    )
    marking: Literal["port", "queue"] = Field("port", description="write port or queue")

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        self.queues()
        return self

    def queues(self) -> SwitchQueues:
        """The queues that every port gets."""
        return SwitchQueues(
            buffer_packets=self.buffer_packets,
            share=self.share,
            reserved=self.reserved,
            marking_threshold_bytes=self.threshold_bytes,
            per_queue=self.marking == "queue",
        )

    def settings(self) -> KeeperSettings:
        """The settings of the process that keeps the queues."""
        return KeeperSettings(ports=self.ports, queues=self.queues())
