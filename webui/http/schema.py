"""What goes over REST, as pydantic models: they check what comes in, and are the schemas in /openapi.json. Pure.

The topology's are those of Ryu's rest_topology, to the order of the fields.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, model_validator
from pydantic.json_schema import SkipJsonSchema

MS = 1_000_000


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""A number without a fraction is an integer in JSON, however it is written."""
Dpid = Annotated[str, Field(pattern="^[0-9a-f]{16}$", description="a datapath id, 16 hexadecimal digits")]
Name = Annotated[str, Field(max_length=64)]


class Answer(BaseModel):
    """Fields that come with what is documented are no error: later versions may add some."""

    model_config = ConfigDict(extra="allow")


class Problem(Answer):
    """What is wrong, and what to do."""

    error: str
    remedy: str


# -- Ryu's topology -----------------------------------------------------------------------------------------------------


class Port(Answer):
    """A port of a switch."""

    dpid: Dpid
    port_no: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
    hw_addr: str
    name: str


class Switch(Answer):
    """A switch with its ports."""

    dpid: Dpid
    ports: list[Port]


class Link(Answer):
    """One direction of a link between switches."""

    src: Port
    dst: Port


class Host(Answer):
    """A host, by MAC address, and where it is plugged in."""

    mac: str
    ipv4: list[str]
    ipv6: list[str]
    port: Port


class Switches(RootModel[list[Switch]]):
    """All switches, or those of one dpid."""


class Links(RootModel[list[Link]]):
    """Both directions of all links between switches, or those that leave one."""


class Hosts(RootModel[list[Host]]):
    """All hosts, or those at one switch."""


# -- Baton's own --------------------------------------------------------------------------------------------------------


class TreeLink(Answer):
    """A link; names are the fabric's."""

    a: str
    b: str
    rate_bps: int


class Tree(Answer):
    """The active spanning tree: what forwards, and what is blocked or down."""

    version: int
    switches: list[str]
    hosts: list[str]
    forwarding: list[TreeLink]
    blocked: list[TreeLink]


class Slot(Answer):
    """What became of a slot; times in microseconds of the coordinator's clock."""

    slot: int
    node: int
    destination: int
    start_us: int
    end_us: int
    bytes: int
    kind: Literal["slot", "yield", "late", "lost"]


class Schedule(Answer):
    """The slots of the last seconds; `now_us` is the coordinator's clock when it last told."""

    now_us: int
    slots: list[Slot]


class Member(Answer):
    """A host with an agent."""

    node: int
    name: str
    version: str
    gate: str
    offset_us: float | None
    uncertainty_us: float | None
    last_heard_ms: int
    refused: dict[str, int]
    drift: list[str]
    suspect: list[str]


class Members(RootModel[list[Member]]):
    """The hosts with an agent that were heard lately."""


class Flow(Answer):
    """What one host sends to another: V2V flows between them together."""

    source: str
    destination: str
    rate_bps: int
    backlog_bytes: int
    regulated: bool
    waiting_ms: float
    weight: float


class Flows(RootModel[list[Flow]]):
    """At most the 2,000 busiest."""


class Thresholds(Answer):
    """The sieving thresholds in force; [upper bound of the size in bytes, flows]."""

    version: int
    beta_bytes: list[int]
    alpha_bytes: list[int]
    sizes: list[Annotated[list[int], Field(min_length=2, max_length=2)]]


class Weight(BaseModel):
    """Slices from `source` to `destination` (empty: to anybody) are so many times as long."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: Annotated[str, Field(min_length=1, max_length=64)]
    destination: Name = ""
    weight: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


class PolicyChange(BaseModel):
    """What is to be another from now on; what is left out stays."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"minProperties": 1})

    policy: Annotated[str, Field(min_length=1, max_length=32)] | SkipJsonSchema[None] = None
    slice_ns: Annotated[int, Field(ge=MS // 10, le=1_000 * MS), WHOLE] | SkipJsonSchema[None] = None
    override: Literal["coordinate", "free"] | SkipJsonSchema[None] = None
    weights: Annotated[list[Weight], Field(max_length=1_000)] | SkipJsonSchema[None] = None

    @model_validator(mode="after")
    def _something(self) -> PolicyChange:
        given = [getattr(self, name) for name in self.model_fields_set]
        if not given or None in given:
            raise ValueError("nothing to change; give policy, slice_ns, override or weights, and leave out what stays")
        return self


class Policy(Answer):
    """The policy in force. `settings` are all that a running coordinator takes over."""

    policy: str
    policies: list[str]
    slice_ns: int
    override: Literal["coordinate", "free"]
    weights: list[Weight]
    settings: dict[str, Any]


class Done(Answer):
    """What a change did: `taken` says whether the coordinator has taken it over."""

    taken: bool
    text: str
    policy: Policy


class Control(BaseModel):
    """One action of the dashboard: {"action": "policy", "policy": ...}, {"action": "slice", "slice_ns": ...},
    {"action": "override", "override": ...}, {"action": "weight", "source", "destination", "weight"}: 1 takes it away."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: Literal["policy", "slice", "override", "weight"]
    policy: str | None = None
    slice_ns: Annotated[int, WHOLE] | None = None
    override: str | None = None
    source: Name | None = None
    destination: Name | None = None
    weight: float | None = None
