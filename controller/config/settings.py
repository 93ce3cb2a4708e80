"""The settings that the controller's processes read when they start: frozen values, as JSON. Pure.

`controller.config.schema` (pydantic, slow to import) validates the operator's YAML and writes these. The coordinator and the
OpenFlow application only read them, with the standard library alone, so that a killed coordinator runs again at once. All times
are integer nanoseconds, rates bit/s.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from controller.config.weekly_settings import WeeklySettings
from controller.store.layout import LEAST_WEIGHT, MOST_WEIGHT
from protocol.units import MICROSECOND_NS, MILLISECOND_NS

NO_WEEKS = WeeklySettings()


class Weight(NamedTuple):
    """Slices of the flow from one host to another (empty: to any) are `weight` times as long. Names are the fabric's."""

    source: str
    destination: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """How one coordinator works. docs/operating.md describes every field under its name in the YAML file."""

    interface: str
    attachment: str
    """The switch port of the coordinator's interface: "switch:port"."""
    key_file: Path
    store: str
    """The URL of the store."""
    shared_key_file: Path | None = None
    """The key that all hosts of version 2 of the wire share; None: none are taken."""
    replicas: int = 0
    """How many replicas of the store must have an epoch before its leader speaks."""
    name: str = ""
    """The name of this controller among those that share the store."""
    standby: bool = False
    """Whether it leaves the first lease to another controller."""
    lease_ns: int = 200 * MILLISECOND_NS
    """How long a leader leads without renewing its lease in the store."""
    policy: str = "auto"
    slice_ns: int = 2 * MILLISECOND_NS
    lead_ns: int = 1_500 * MICROSECOND_NS
    grace_ns: int = 1 * MILLISECOND_NS
    """How long after the end of its slot a flow may still use unspent credit, but at most a tenth of the slice."""
    headroom: float = 0.985
    minimum_active_ns: int = 1 * MILLISECOND_NS
    yield_hysteresis_ns: int = 300 * MICROSECOND_NS
    control_priority_tag: int | None = None
    """The 802.1p priority in a tag of every control frame; None: no tag."""
    heartbeat_ns: int = 12 * MILLISECOND_NS
    fail_open_ns: int = 50 * MILLISECOND_NS
    silence_ns: int = 250 * MILLISECOND_NS
    report_ns: int = 50 * MILLISECOND_NS
    realtime_priority: int | None = 40
    weights: tuple[Weight, ...] = ()
    mode: str = "on_demand"
    contend_fraction: float = 0.9
    release_fraction: float = 0.7
    quiet_ns: int = 2_000 * MILLISECOND_NS
    mice_bytes: int = 100_000
    mice_rate_bps: int = 1_000_000
    weekly: WeeklySettings = NO_WEEKS
    """For the policy of that name."""
    priorities: bool = False
    """Whether the coordinator computes thresholds from the agents' size reports, and distributes them."""
    bands: int = 7
    size_period_ns: int = 10_000 * MILLISECOND_NS
    termination: int = 3
    """The scheme for flows that will miss their deadline; 3 lets them go on."""
    marking_bytes: int = 0
    """The queue from which switch ports mark packets, for MCP; 0: Karuna's, by the link's rate."""
    pfc_accept_from: tuple[str, ...] = ()
    """MAC addresses of link partners whose pauses agents obey; empty: of any."""
    pfc_detection_ns: tuple[int, ...] = (200 * MILLISECOND_NS,) * 8
    """By class: how long a pause lasts before it counts as a storm."""
    pfc_restoration_ns: tuple[int, ...] = (200 * MILLISECOND_NS,) * 8
    pfc_action: str = "drop"
    pfc_classes: tuple[tuple[str, int], ...] = ()
    """Hosts whose traffic is of another class than 0, with that class."""

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), default=str, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: not JSON, or a field that is unknown or missing; says which.
        """
        fields = _fields_of(cls, text)
        fields["key_file"] = Path(fields["key_file"])
        fields["shared_key_file"] = Path(shared) if (shared := fields.get("shared_key_file")) is not None else None
        fields["weights"] = _weights(fields.get("weights", ()))
        fields["weekly"] = WeeklySettings.from_dict(fields.get("weekly", {}))
        for name in fields.keys() & {"pfc_accept_from", "pfc_detection_ns", "pfc_restoration_ns"}:
            fields[name] = tuple(fields[name])
        fields["pfc_classes"] = tuple((host, priority) for host, priority in fields.get("pfc_classes", ()))
        return cls(**fields)

    def changeable(self) -> dict[str, Any]:
        """The part that a running coordinator can change, as the store's policy document carries it."""
        return {name: getattr(self, name) for name in CHANGEABLE}

    def needs_restart(self, other: CoordinatorSettings) -> list[str]:
        """The names of the fields that differ and that a running coordinator can't take over."""
        names = (field.name for field in dataclasses.fields(self) if field.name not in CHANGEABLE)
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    def changed(self, changes: dict[str, Any]) -> Self:
        """These settings with the fields of a policy document.

        Raises:
            ValueError: a field that can't be changed while the coordinator runs, or a value of another type or out of range.
        """
        known: dict[str, Any] = {}
        for name, value in changes.items():
            if name not in CHANGEABLE:
                raise ValueError(f"policy: field {name} can't be changed in a running coordinator")
            if name == "weights":
                known[name] = _weights(value)
                continue
            wanted = type(getattr(self, name))
            if wanted is float and type(value) is int:
                value = float(value)
            if type(value) is not wanted:
                raise ValueError(f"policy: {name} must be {wanted.__name__}, not {value!r}")
            known[name] = value
        made, before = dataclasses.replace(self, **known), set(self._faults())
        for fault in made._faults():
            if fault not in before:
                raise ValueError(f"policy: {fault}")
        return made

    def _faults(self) -> Iterator[str]:
        """What is wrong with the fields that can be changed, by the rules of the configuration; but whether there is such a
        policy is not looked at."""
        for name, (least, most) in RANGES.items():
            if not least <= getattr(self, name) <= most:
                yield f"{name} {getattr(self, name)!r} is not from {least} to {most}"
        if self.minimum_active_ns > self.slice_ns:
            yield f"minimum_active_ns {self.minimum_active_ns} is longer than the slice"
        if not 0 < self.release_fraction < self.contend_fraction:
            yield f"release_fraction {self.release_fraction!r} is not above 0 and below contend_fraction"
        if self.mode not in MODES:
            yield f"mode {self.mode!r} is not one of {', '.join(MODES)}"
        for weight in self.weights:
            if not LEAST_WEIGHT <= weight.weight <= MOST_WEIGHT:
                yield f"weights: {weight.weight!r} of {weight.source} is not from {LEAST_WEIGHT} to {MOST_WEIGHT}"


CHANGEABLE = (
    "policy",
    "slice_ns",
    "lead_ns",
    "grace_ns",
    "headroom",
    "minimum_active_ns",
    "weights",
    "mode",
    "contend_fraction",
    "release_fraction",
    "quiet_ns",
)
"""Fields that a running coordinator takes over; the others need its restart."""
RANGES: dict[str, tuple[float, float]] = {
    "slice_ns": (200 * MICROSECOND_NS, 1_000 * MILLISECOND_NS),
    "lead_ns": (0, 100 * MILLISECOND_NS),
    "grace_ns": (0, 100 * MILLISECOND_NS),
    "headroom": (0.5, 1),
    "minimum_active_ns": (0, 1_000 * MILLISECOND_NS),
    "contend_fraction": (0, 1),
    "release_fraction": (0, 1),
    "quiet_ns": (10 * MILLISECOND_NS, 2**63 - 1),
}
"""The least and the most of those that are numbers."""
MODES = ("on_demand", "always")


class TreeSource(NamedTuple):
    """Where the active spanning tree is read: kind "openflow", "ovsdb", "bridge" or "snmp", and the address to ask."""

    kind: str
    where: str
    switch: str = ""
    """The fabric's name of the one switch that answers there; empty: the answer names its switches."""
    credentials: str = ""
    """The name of the file with the SNMP credentials; only the process that asks reads it."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.where}" if self.where else self.kind


class TlsFiles(NamedTuple):
    """Names of PEM files: our certificate, its private key, and the authority of the switches' certificates."""

    cert: str
    key: str
    ca: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFlowSettings:
    """How the OpenFlow application works; the supervisor names the file with these settings in BATON_CONFIG."""

    framework: str = "ryu"
    address: str = "127.0.0.1"
    port: int = 6653
    poll_ns: int = 250 * MILLISECOND_NS
    lldp_ns: int = 500 * MILLISECOND_NS
    """How often each port sends LLDP: a link is silent after six times that, and three seconds."""
    fabric_file: Path | None = None
    """A fabric known beforehand; None to learn it."""
    sources: tuple[TreeSource, ...] = (TreeSource("openflow", ""),)
    tls: TlsFiles | None = None
    """None: switches connect without TLS."""
    hosts_per_port: int = 128
    """How many MAC addresses are learned at one port."""
    control_first: bool = True
    """Whether control frames go first at this machine's switches, and through a queue of theirs at any other."""

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), default=str, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote; raises ValueError as `CoordinatorSettings.from_json` does."""
        fields = _fields_of(cls, text)
        if fields.get("fabric_file") is not None:
            fields["fabric_file"] = Path(fields["fabric_file"])
        fields["sources"] = tuple(TreeSource(*source) for source in fields.get("sources", ()))
        if fields.get("tls") is not None:
            fields["tls"] = TlsFiles(*fields["tls"])
        return cls(**fields)


def _fields_of(cls: type[CoordinatorSettings] | type[OpenFlowSettings], text: str) -> dict[str, Any]:
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("settings: not a JSON object")
    declared = {field.name: field for field in dataclasses.fields(cls)}
    if unknown := fields.keys() - declared.keys():
        raise ValueError(f"settings: unknown field {min(unknown)}")
    required = {name for name, field in declared.items() if field.default is dataclasses.MISSING}
    if missing := required - fields.keys():
        raise ValueError(f"settings: field {min(missing)} is missing")
    return fields


def _weights(value: Any) -> tuple[Weight, ...]:  # noqa: ANN401 -- whatever JSON held
    try:
        return tuple(Weight(str(source), str(destination), float(weight)) for source, destination, weight in value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"weights must be a list of [source, destination, weight], not {value!r}") from None
