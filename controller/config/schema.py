"""The one YAML file of `baton up`: its fields, what each may be, and a checker that names the line of every
error.

`check` finds everything that is wrong with a file by itself; whether an interface or a key file exists is
seen when the controller starts. `load` gives a Config, from which the light `settings` of each process are
made. An edge: reads files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from controller.config.coordinator import Coordinator
from controller.config.fields import Duration, Priorities, Rate, Section, Size, or_none
from controller.config.openflow import OpenFlow
from controller.config.pfc import Pfc
from controller.config.settings import CoordinatorSettings, OpenFlowSettings, TreeSource
from controller.config.sources import listed
from controller.config.switch_ports import SwitchPorts
from controller.config.web import Web, section
from controller.config.weekly import Weekly
from controller.store import url
from protocol.units import MILLISECOND_NS as MS


class Agents(Section):
    """What every host's agent is told when it registers."""

    mice_bytes: Size = Field(100_000, description="write a size, such as 100KB")
    mice_rate_bps: Rate = Field(1_000_000, alias="mice_rate", description="write a rate, such as 1mbit")
    report_ns: Duration = Field(
        50 * MS,
        alias="report",
        ge=5 * MS,
        le=10_000 * MS,
        description="write a duration from 5ms to 10s, such as 50ms",
    )




class Config(Section):
    """The whole file."""

    run_dir: Path = Field(Path("/run/baton"), description="name a directory, such as /run/baton")
    store: Annotated[str | None, BeforeValidator(url.check), BeforeValidator(or_none)] = Field(
        None, description=url.EXPECTED
    )
    openflow: OpenFlow = Field(OpenFlow.model_validate({}), description="write a mapping")
    coordinator: Coordinator | None = Field(None, description="write a mapping; without it nobody is coordinated")
    agents: Agents = Field(Agents.model_validate({}), description="write a mapping")
    priorities: Priorities = Field(Priorities.model_validate({}), description="write a mapping")
    pfc: Pfc = Field(Pfc.model_validate({}), description="write a mapping")
    weekly: Weekly = Field(Weekly.model_validate({}), description="write a mapping")
    switch_queues: SwitchPorts | None = Field(None, description="write a mapping; without it no port is touched")
    web: Annotated[Web | None, BeforeValidator(section)] = Field(Web.model_validate({}), description="write a mapping, or none")
    fabric: str | dict[str, Any] | None = Field(
        None, description="name a fabric file, or write the fabric itself; leave it out to learn it"
    )
    sources: tuple[Annotated[TreeSource, BeforeValidator(listed)], ...] = Field(
        (TreeSource("openflow", ""),),
        description="list openflow, ovsdb:ADDRESS (such as unix:/run/openvswitch/db.sock) or bridge:NAME",
    )

    def coordinator_settings(self, store: str) -> CoordinatorSettings | None:
        """What the coordinator is told; None when there is no such section."""
        if self.coordinator is None:
            return None
        fields = {name: getattr(self.coordinator, name) for name in Coordinator.model_fields if name != "netns"}
        if self.store is None and "lease_ns" not in self.coordinator.model_fields_set:
            fields["lease_ns"] = 1000 * MS  # in a private store nobody waits for its end, and machines do stand still
        agents = {name: getattr(self.agents, name) for name in Agents.model_fields}
        priorities = {name: getattr(self.priorities, name) for name in Priorities.model_fields}
        pfc = {name: getattr(self.pfc, name) for name in Pfc.model_fields}
        return CoordinatorSettings(store=store, **fields, **agents, **priorities, **pfc, weekly=self.weekly.settings())

    def openflow_settings(self, fabric_file: Path | None) -> OpenFlowSettings:
        """What the OpenFlow application is told."""
        address, port = self.openflow.listen
        return OpenFlowSettings(
            framework=self.openflow.framework,
            address=address,
            port=port,
            poll_ns=self.openflow.poll_ns,
            fabric_file=fabric_file,
            sources=self.sources,
            tls=None if self.openflow.tls is None else self.openflow.tls.files(Path()),
        )


























