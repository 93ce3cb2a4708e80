"""What the OpenFlow application is told by its environment: see `controller.app`. An edge: files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from controller.config.settings import OpenFlowSettings
from controller.openflow.forwarding import ControlAttachment


def settings_from(environment: Mapping[str, str]) -> OpenFlowSettings:
    """The settings in the file that BATON_CONFIG names, or the defaults."""
    path = environment.get("BATON_CONFIG")
    return OpenFlowSettings.from_json(Path(path).read_text(encoding="utf-8")) if path else OpenFlowSettings()


def attachment_from(environment: Mapping[str, str]) -> ControlAttachment | None:
    """Where the coordinator is, if BATON_CONTROL_PORT says."""
    place = environment.get("BATON_CONTROL_PORT")
    return ControlAttachment.parse(place, environment.get("BATON_CONTROL_MAC")) if place else None
