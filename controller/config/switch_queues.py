"""The section `switch_queues` of the configuration. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from controller.config.fields import Section, Size, or_none
from controller.switch_queues.model import KeeperSettings, NamedPort, SwitchQueues, named_ports
from protocol.units import FRAME_BYTES


class SwitchQueuesSection(Section):
    """Ports of switches on this machine, with the queues and the marking that Baton makes and keeps there."""

    ports: Annotated[tuple[NamedPort, ...], BeforeValidator(named_ports)] = Field(
        description="write interface: rate, such as s1-eth*: 1Gbit"
    )
    buffer_packets: int = Field(100, ge=1, le=1_000_000, description="write a number of packets, such as 100")
    share: Annotated[float | None, BeforeValidator(or_none)] = Field(
        8.0, ge=2**-7, le=2**7, description="write how many times the free buffer a queue may hold, such as 8, or none"
    )
    threshold_bytes: Annotated[Size | None, BeforeValidator(or_none)] = Field(
        30_000, alias="marking_threshold", ge=FRAME_BYTES, description="write a size of a frame or more, such as 30KB, or none"
    )
    marking: Literal["port", "queue"] = Field("port", description="write port or queue")

    def queues(self) -> SwitchQueues:
        """The queues that every port gets."""
        return SwitchQueues(
            buffer_packets=self.buffer_packets,
            share=self.share,
            marking_threshold_bytes=self.threshold_bytes,
            per_queue=self.marking == "queue",
        )

    def settings(self) -> KeeperSettings:
        """The settings of the process that keeps the queues."""
        return KeeperSettings(ports=self.ports, queues=self.queues())
