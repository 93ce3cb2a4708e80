"""What differs between two configurations, and what a configuration asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from controller.config.schema import Config


def uses_openflow(config: Config) -> bool:
    """Whether the tree is read by OpenFlow, from switches that Baton controls."""
    return not config.sources or any(source.kind == "openflow" for source in config.sources)


def reads_tree(config: Config) -> bool:
    """Whether the tree is read from switches of others, too."""
    return any(source.kind != "openflow" for source in config.sources)


def differences(before: Config, after: Config) -> Iterator[str]:
    """The names of the fields that differ, as in the file."""
    for name, info in type(after).model_fields.items():
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        if type(old) is not type(new) or not hasattr(new, "model_fields"):
            yield info.alias or name
            continue
        for inner, inner_info in type(new).model_fields.items():
            if getattr(old, inner) != getattr(new, inner):
                yield f"{name}.{inner_info.alias or inner}"
