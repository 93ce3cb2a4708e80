"""The requests and answers of the REST interface as pydantic models: they validate requests, and are the schemas in
/openapi.json. Pure.

The models of the topology have the fields of Ryu's rest_topology, in its order.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, model_validator
from pydantic.json_schema import SkipJsonSchema

from controller.store.layout import LEAST_WEIGHT, MOST_WEIGHT
from protocol.units import MILLISECOND_NS


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""Accepts a JSON number without a fraction as an integer, also when it is written as 1.0."""
Dpid = Annotated[str, Field(pattern="^[0-9a-f]{16}$", description="a datapath id, 16 hexadecimal digits")]
Name = Annotated[str, Field(max_length=64)]
LEAST_SLICE_NS, MOST_SLICE_NS = MILLISECOND_NS // 5, 1_000 * MILLISECOND_NS
# The descriptions of the fields of a body are also the remedies of an error there.
POLICY = "write the name of a policy, such as auto; GET /v1.0/policy lists them"
SLICE = f"write a whole number of nanoseconds from {LEAST_SLICE_NS} to {MOST_SLICE_NS}, such as 2000000 for 2 ms"
OVERRIDE = "write coordinate or free"
WEIGHTS = 'write a list such as [{"source": "h1", "destination": "h2", "weight": 2}], of at most 1000 entries'
NAMED = "write a host's name, as /v1.0/tree has it"
WEIGHED = f"write a number from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}, such as 2"


class ResponseModel(BaseModel):
    """The base of all answers; further fields are no error, since later versions may add some."""

    model_config = ConfigDict(extra="allow")


class Problem(ResponseModel):
    """An error: what is wrong, and what to do."""

    error: str
    remedy: str


# -- Ryu's topology -----------------------------------------------------------------------------------------------------


class Port(ResponseModel):
    """A port of a switch."""

    dpid: Dpid
    port_no: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
    hw_addr: str
    name: str


class Switch(ResponseModel):
    """A switch with its ports."""

    dpid: Dpid
    ports: list[Port]


class Link(ResponseModel):
    """One direction of a link between switches."""

    src: Port
    dst: Port


class Host(ResponseModel):
    """A host, by MAC address, and the switch port that it is attached to."""

    mac: str
    ipv4: list[str]
    ipv6: list[str]
    port: Port


class Switches(RootModel[list[Switch]]):
    """All switches, or the one with a dpid."""


class Links(RootModel[list[Link]]):
    """Both directions of all links between switches, or the links that leave one switch."""


class Hosts(RootModel[list[Host]]):
    """All hosts, or those at one switch."""


# -- Baton's own --------------------------------------------------------------------------------------------------------


class TreeLink(ResponseModel):
    """A link between two nodes, by their names in the fabric."""

    a: str
    b: str
    rate_bps: int


class Tree(ResponseModel):
    """The active spanning tree: the links that forward, and those that are blocked or down."""

    version: int
    switches: list[str]
    hosts: list[str]
    forwarding: list[TreeLink]
    blocked: list[TreeLink]


class Slot(ResponseModel):
    """A slot and its outcome; times in microseconds of the coordinator's clock."""

    slot: int
    node: int
    destination: int
    start_us: int
    end_us: int
    bytes: int
    kind: Literal["slot", "yield", "late", "lost"]


class Schedule(ResponseModel):
    """The slots of the last seconds; `now_us` is the coordinator's clock when it last published."""

    now_us: int
    slots: list[Slot]


class Member(ResponseModel):
    """A host with an agent. `name` is the host's in the fabric, as switches and links have it; `enrolled` the one by which it
    got its key, as `baton status` has it."""

    node: int
    name: str
    enrolled: str
    version: str
    wire: int | None
    gate: str
    offset_us: float | None
    uncertainty_us: float | None
    last_heard_ms: int
    refused: dict[str, int]
    drift: list[str]
    suspect: list[str]
    warnings: list[str]
    guest_marks: dict[str, int] | None


class Members(RootModel[list[Member]]):
    """A page of the hosts whose agents the coordinator heard from lately; the headers say how many there are."""


class Flow(ResponseModel):
    """The traffic from one host to another: all V2V flows between them."""

    source: str
    destination: str
    rate_bps: int
    backlog_bytes: int
    regulated: bool
    waiting_ms: float
    weight: float


class Flows(RootModel[list[Flow]]):
    """A page of flows; without parameters the 2,000 busiest. The headers say how many there are, and where the next page is."""


class Thresholds(ResponseModel):
    """The sieving thresholds in force; [upper bound of the size in bytes, flows]."""

    version: int
    beta_bytes: list[int]
    alpha_bytes: list[int]
    sizes: list[Annotated[list[int], Field(min_length=2, max_length=2)]]


class Coflow(ResponseModel):
    """An open coflow: its queue at the switches, what its place goes by, and whether its deadline is kept, and why."""

    id: int
    queue: Annotated[int, Field(ge=0, le=7)]
    by: str
    sent_bytes: int
    deadline: str | None
    why: str


class Coflows(RootModel[list[Coflow]]):
    """The first hundred open coflows in their order."""


class Weight(BaseModel):
    """A factor for the length of the slices from `source` to `destination` (empty: to all hosts)."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: Annotated[str, Field(min_length=1, max_length=64)] = Field(description=NAMED)
    destination: Name = Field(default="", description=f"{NAMED}, or leave it out for all hosts")
    weight: Annotated[float, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT, allow_inf_nan=False)] = Field(description=WEIGHED)


class PolicyChange(BaseModel):
    """The settings to change; settings that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"minProperties": 1})

    policy: Annotated[str, Field(min_length=1, max_length=32)] | SkipJsonSchema[None] = Field(default=None, description=POLICY)
    slice_ns: Annotated[int, Field(ge=LEAST_SLICE_NS, le=MOST_SLICE_NS), WHOLE] | SkipJsonSchema[None] = Field(
        default=None, description=SLICE
    )
    override: Literal["coordinate", "free"] | SkipJsonSchema[None] = Field(default=None, description=OVERRIDE)
    weights: Annotated[list[Weight], Field(max_length=1_000)] | SkipJsonSchema[None] = Field(default=None, description=WEIGHTS)

    @model_validator(mode="after")
    def _something(self) -> PolicyChange:
        for name in type(self).model_fields:
            if name in self.model_fields_set and getattr(self, name) is None:
                raise ValueError(f"{name}: is null; leave out what stays")
        if not self.model_fields_set:
            raise ValueError("body: nothing to change; give policy, slice_ns, override or weights, and leave out what stays")
        return self


class Policy(ResponseModel):
    """The policy in force. `settings` holds every setting that a running coordinator takes over."""

    policy: str
    policies: list[str]
    slice_ns: int
    override: Literal["coordinate", "free"]
    weights: list[Weight]
    settings: dict[str, Any]


class Done(ResponseModel):
    """The result of a change; `taken` is true when the coordinator has taken it over."""

    taken: bool
    text: str
    policy: Policy


class ControlRequest(BaseModel):
    """One action of the dashboard: {"action": "policy", "policy": ...}, {"action": "slice", "slice_ns": ...},
    {"action": "override", "override": ...}, {"action": "weight", "source", "destination", "weight"}; weight 1 removes one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: Literal["policy", "slice", "override", "weight"] = Field(description="write policy, slice, override or weight")
    policy: str | None = Field(default=None, description=POLICY)
    slice_ns: Annotated[int, WHOLE] | None = Field(default=None, description=SLICE)
    override: str | None = Field(default=None, description=OVERRIDE)
    source: Name | None = Field(default=None, description=NAMED)
    destination: Name | None = Field(default=None, description=f"{NAMED}, or leave it out for all hosts")
    weight: float | None = Field(default=None, description=WEIGHED)
