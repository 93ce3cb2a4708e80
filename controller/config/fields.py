"""What the sections of the configuration are made of, and the section `priorities`. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from protocol.units import MILLISECOND_NS as MS
from topology.units import parse_duration, parse_rate, parse_size

Duration = Annotated[int, BeforeValidator(parse_duration)]
Rate = Annotated[int, BeforeValidator(parse_rate)]
Size = Annotated[int, BeforeValidator(parse_size)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """Fields are known by their alias, the name in the YAML file; their description is the remedy shown
    with an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Priorities(Section):
    """Priorities of flows: whether thresholds are computed, for how many bands, how often."""

    priorities: bool = Field(False, alias="enabled", description="write true or false")
    bands: int = Field(7, ge=1, le=7, description="write 1 to 7, the queues of a switch port below the first")
    size_period_ns: Duration = Field(
        10_000 * MS, alias="period", ge=100 * MS, le=3_600_000 * MS, description="write 100ms or more, such as 10s"
    )
    termination: int = Field(3, ge=1, le=3, description="write 1, 2 or 3 (never)")


def or_none(text: object) -> object:
    """What a field takes that may be "none": None for that word, any other value as it is."""
    return None if text == "none" else text
