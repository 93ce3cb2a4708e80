"""The section `weekly` of the configuration: the length of days, the number of days in a week, each flow's days. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from controller.config.fields import Duration, Section
from controller.config.weekly_settings import DAY_NS_MAX, DAY_NS_MIN, DAYS_MAX, WeeklyFlow, WeeklySettings
from protocol.units import MICROSECOND_NS as US
from protocol.units import MILLISECOND_NS as MS


def _flows(value: object) -> tuple[WeeklyFlow, ...]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a mapping")
    return tuple(_flow(str(name), days) for name, days in value.items())


def _flow(name: str, days: object) -> WeeklyFlow:
    source, _, flow = (part.strip() for part in name.partition("->"))
    texts = [str(day) for day in (days if isinstance(days, list) else [days])]
    if not source or not flow or not texts or not all(text.isdecimal() for text in texts):
        raise ValueError(f"{name}: {days!r} is not a flow and its days")
    kind, _, dscp = flow.partition(":")
    return WeeklyFlow(source, int(dscp) if kind == "dscp" and dscp.isdecimal() else flow, tuple(map(int, texts)))


class WeeklySection(Section):
    """Settings of the policy `weekly`."""

    day_ns: Duration = Field(
        2 * MS, alias="day", ge=DAY_NS_MIN, le=DAY_NS_MAX, description="write a duration from 200us to 40ms, such as 2ms"
    )
    night_ns: Duration = Field(0, alias="night", ge=0, description="write a duration shorter than the day, such as 100us")
    days: int = Field(8, ge=1, le=DAYS_MAX, description=f"write how many days a week has, 1 to {DAYS_MAX}")
    lease_ns: Duration = Field(
        2_000 * MS,
        alias="lease",
        ge=200 * US,
        le=60_000 * MS,
        description="write a duration no shorter than the week, and at most 1min, such as 2s",
    )
    transport: Literal["schedule", "pfc"] = Field("schedule", description="write schedule or pfc")
    key: Literal["destination", "tos"] = Field("destination", alias="by", description="write destination or tos")
    flows: Annotated[tuple[WeeklyFlow, ...], BeforeValidator(_flows)] = Field(
        (), description="write `host -> host: [days]`, by ToS `host -> dscp:10: [days]`; leave it out for turns"
    )

    def settings(self) -> WeeklySettings:
        """The settings of the policy."""
        return WeeklySettings(**{name: getattr(self, name) for name in type(self).model_fields})
