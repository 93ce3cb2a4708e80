"""The YAML file of `baton up`: its fields and their values. Pure.

`controller.config.reading` makes a Config of a file. Config makes the settings of each process
(`controller.config.settings`). Whether an interface or a key file exists shows when the controller starts.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from controller.config.coordinator import CoordinatorSection
from controller.config.fields import Duration, File, Rate, Section, Size, or_none
from controller.config.openflow import OpenFlowSection
from controller.config.pfc import PfcSection
from controller.config.settings import CoordinatorSettings, OpenFlowSettings, TreeSource
from controller.config.sources import listed
from controller.config.switch_queues import SwitchQueuesSection
from controller.config.web import WebSection
from controller.config.weekly import WeeklySection
from controller.store import url
from protocol.units import MILLISECOND_NS as MS

PROCESSES = {
    "store": "store", "openflow": "OpenFlow application", "coordinator": "coordinator", "web": "web server",
}  # fmt: skip
"""The fields of `users` that each name a user, and what runs by it."""
Login = Annotated[str | None, Field(pattern=r"^[^:@/\s]+:[^@/\s]+$")]


def _fabric(value: object) -> object:
    if value is not None and not isinstance(value, str | dict):
        raise ValueError("is neither a text nor a mapping")
    return value


class AgentsSection(Section):
    """Settings that every host's agent gets when it registers."""

    mice_bytes: Size = Field(100_000, description="write a size, such as 100KB")
    mice_rate_bps: Rate = Field(1_000_000, alias="mice_rate", description="write a rate, such as 1mbit")
    report_ns: Duration = Field(
        50 * MS,
        alias="report",
        ge=5 * MS,
        le=10_000 * MS,
        description="write a duration from 5ms to 10s, such as 50ms",
    )


class PrioritiesSection(Section):
    """Priorities of flows: whether thresholds are computed, for how many bands, how often."""

    priorities: bool = Field(False, alias="enabled", description="write true or false")
    bands: int = Field(7, ge=1, le=7, description="write 1 to 7, the queues of a switch port below the first")
    size_period_ns: Duration = Field(
        10_000 * MS,
        alias="period",
        ge=100 * MS,
        le=3_600_000 * MS,
        description="write a duration from 100ms to 1h, such as 10s",
    )
    termination: int = Field(3, ge=1, le=3, description="write 1, 2 or 3 (never)")


class UsersSection(Section):
    """The machine's users and group by which the processes run; names, as `baton install-units` has them made."""

    group: str = Field("baton", min_length=1, description="name a group that is for Baton alone, such as baton")
    store: str = Field("baton-store", min_length=1, description="name a user that is for the store alone")
    openflow: str = Field("baton-openflow", min_length=1, description="name a user that is for this process alone")
    coordinator: str = Field("baton-coordinator", min_length=1, description="name a user that is for the coordinator alone")
    web: str = Field("baton-web", min_length=1, description="name a user that is for the web server alone")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        for one, other in combinations(PROCESSES, 2):
            if (user := getattr(self, one)) == getattr(self, other):
                text = f"the {PROCESSES[one]} and the {PROCESSES[other]} are both the user {user}; name one for each"
                raise ValueError(text)
        return self


class LoginsSection(Section):
    """The logins of the processes at a store that several controllers share, each USER:PASSWORD."""

    coordinator: Login = Field(None, description="write USER:PASSWORD, or leave it out for the login in the store's URL")
    openflow: Login = Field(None, description="write USER:PASSWORD, or leave it out for the login in the store's URL")
    web: Login = Field(None, description="write USER:PASSWORD, or leave it out for the login in the store's URL")


class Config(Section):
    """The whole file."""

    run_dir: File = Field(Path("/run/baton"), description="name a directory, such as /run/baton")
    store: Annotated[str | None, BeforeValidator(url.check), BeforeValidator(or_none)] = Field(
        None, description=url.EXPECTED
    )
    logins: LoginsSection = Field(LoginsSection.model_validate({}), description="write a mapping")
    replicas: int = Field(0, ge=0, le=16, description="write how many replicas of the store must have an epoch, such as 1")
    users: Annotated[UsersSection | None, BeforeValidator(or_none)] = Field(
        UsersSection.model_validate({}), description="write a mapping, or none"
    )
    openflow: OpenFlowSection = Field(OpenFlowSection.model_validate({}), description="write a mapping")
    coordinator: CoordinatorSection | None = Field(None, description="write a mapping; without it no host is coordinated")
    agents: AgentsSection = Field(AgentsSection.model_validate({}), description="write a mapping")
    priorities: PrioritiesSection = Field(PrioritiesSection.model_validate({}), description="write a mapping")
    pfc: PfcSection = Field(PfcSection.model_validate({}), description="write a mapping")
    weekly: WeeklySection = Field(WeeklySection.model_validate({}), description="write a mapping")
    switch_queues: SwitchQueuesSection | None = Field(None, description="write a mapping; without it no port is touched")
    web: Annotated[WebSection | None, BeforeValidator(or_none)] = Field(
        WebSection.model_validate({}), description="write a mapping, or none"
    )
    fabric: Annotated[str | dict[str, Any] | None, BeforeValidator(_fabric)] = Field(
        None, description="name a fabric file, or write the fabric itself; leave it out to learn it"
    )
    sources: tuple[Annotated[TreeSource, BeforeValidator(listed)], ...] = Field(
        (TreeSource("openflow", ""),),
        description="list openflow, ovsdb:ADDRESS (such as unix:/run/openvswitch/db.sock) or bridge:NAME",
    )

    def store_urls(self) -> dict[str, str]:
        """The shared store's URL with each login of the file, by the process that has it."""
        given = {name: getattr(self.logins, name) for name in LoginsSection.model_fields}
        assert self.store is not None, "the caller looked"
        return {name: url.with_login(self.store, *login.split(":", 1)) for name, login in given.items() if login is not None}

    def coordinator_settings(self, store: str) -> CoordinatorSettings | None:
        """The settings of the coordinator; None when the file has no section for it."""
        if self.coordinator is None:
            return None
        fields = {name: getattr(self.coordinator, name) for name in CoordinatorSection.model_fields if name != "netns"}
        fields["replicas"] = self.replicas
        if self.store is None and "lease_ns" not in self.coordinator.model_fields_set:
            fields["lease_ns"] = 1000 * MS  # no other controller shares a private store, and machines do stand still
        agents = {name: getattr(self.agents, name) for name in AgentsSection.model_fields}
        priorities = {name: getattr(self.priorities, name) for name in PrioritiesSection.model_fields}
        if self.switch_queues is not None:
            priorities["marking_bytes"] = self.switch_queues.threshold_bytes or 0
        pfc = {name: getattr(self.pfc, name) for name in PfcSection.model_fields}
        return CoordinatorSettings(store=store, **fields, **agents, **priorities, **pfc, weekly=self.weekly.settings())

    def openflow_settings(self, fabric_file: Path | None) -> OpenFlowSettings:
        """The settings of the OpenFlow application."""
        address, port = self.openflow.listen
        return OpenFlowSettings(
            framework=self.openflow.framework,
            address=address,
            port=port,
            poll_ns=self.openflow.poll_ns,
            lldp_ns=self.openflow.lldp_ns,
            fabric_file=fabric_file,
            sources=self.sources,
            tls=None if self.openflow.tls is None else self.openflow.tls.files(Path()),
            control_first=self.openflow.control_first,
            hosts_per_port=self.openflow.hosts_per_port,
        )


SECTIONS: dict[str, type[Section]] = {
    "openflow": OpenFlowSection,
    "coordinator": CoordinatorSection,
    "agents": AgentsSection,
    "priorities": PrioritiesSection,
    "pfc": PfcSection,
    "weekly": WeeklySection,
    "switch_queues": SwitchQueuesSection,
    "web": WebSection,
    "users": UsersSection,
    "logins": LoginsSection,
}
"""The fields of `Config` that are sections."""
