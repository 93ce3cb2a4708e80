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

    source: Annotated[str, Field(min_length=1, max_length=64)]
    destination: Name = ""
    weight: Annotated[float, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT, allow_inf_nan=False)]


class PolicyChange(BaseModel):
    """The settings to change; settings that are left out stay as they are."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"minProperties": 1})

    policy: Annotated[str, Field(min_length=1, max_length=32)] | SkipJsonSchema[None] = None
    slice_ns: Annotated[int, Field(ge=MILLISECOND_NS // 5, le=1_000 * MILLISECOND_NS), WHOLE] | SkipJsonSchema[None] = None
    override: Literal["coordinate", "free"] | SkipJsonSchema[None] = None
    weights: Annotated[list[Weight], Field(max_length=1_000)] | SkipJsonSchema[None] = None

    @model_validator(mode="after")
    def _something(self) -> PolicyChange:
        given = [getattr(self, name) for name in self.model_fields_set]
        if not given or None in given:
            raise ValueError("nothing to change; give policy, slice_ns, override or weights, and leave out what stays")
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

    action: Literal["policy", "slice", "override", "weight"]
    policy: str | None = None
    slice_ns: Annotated[int, WHOLE] | None = None
    override: str | None = None
    source: Name | None = None
    destination: Name | None = None
    weight: float | None = None
