"""What a changed configuration asks of processes that run. Pure."""

from __future__ import annotations

from controller.config.schema import Config
from controller.config.settings import CoordinatorSettings

FIXED = ("run_dir", "store", "logins", "users")
"""Fields that a running supervisor does not take over."""


def fixed_fields(before: Config, now: Config) -> list[str]:
    """The changed fields that a running supervisor does not take over."""
    return [name for name in FIXED if getattr(now, name) != getattr(before, name)]


def coordinator_moved(before: Config, now: Config) -> bool:
    """Whether the coordinator's switch port or interface has changed."""
    then, here = before.coordinator, now.coordinator
    return (here and (here.attachment, here.interface)) != (then and (then.attachment, then.interface))


def coordinator_restarts(
    before: Config, now: Config, old: CoordinatorSettings | None, new: CoordinatorSettings | None
) -> bool:
    """Whether the coordinator has to be stopped, started, or started again.

    Args:
        old, new: the settings that the coordinator reads, of both configurations; None: of a configuration without one.
    """
    if old is None or new is None:
        return old is not new
    moved = [
        getattr(before.coordinator, name) != getattr(now.coordinator, name) for name in ("netns", "key_file", "shared_key_file")
    ]
    return bool(old.needs_restart(new)) or any(moved)
