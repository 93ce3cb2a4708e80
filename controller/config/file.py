"""The configuration file of one process: reads it, and sees when it has changed. An edge: files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from controller.config.fields import Section
from controller.config.reading import load
from controller.config.schema import Config


class ConfigFile:
    """A file, or none (all defaults); `framework` overrides the file's."""

    def __init__(self, path: Path | None, framework: str | None = None) -> None:
        self.path = path
        self._framework = framework
        self._seen = self._stamp()

    def load(self) -> Config:
        """Reads the configuration. Raises ConfigError."""
        self._seen = self._stamp()
        config = load(self.path) if self.path is not None else Config.model_validate({})
        if self._framework is not None:
            openflow = config.openflow.model_copy(update={"framework": self._framework})
            config = config.model_copy(update={"openflow": openflow})
        return config

    def changed(self) -> bool:
        """Whether the file has changed since `load`."""
        return self._stamp() != self._seen

    def _stamp(self) -> tuple[int, ...]:
        try:
            stat = self.path.stat() if self.path else None
        except OSError:
            return (0,)
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino) if stat else ()


def uses_openflow(config: Config) -> bool:
    """Whether the fabric has switches that Baton controls by OpenFlow."""
    return not config.sources or any(source.kind == "openflow" for source in config.sources)


def reads_tree(config: Config) -> bool:
    """Whether the fabric has switches whose spanning tree Baton only reads."""
    return any(source.kind != "openflow" for source in config.sources)


def differences(before: Config, after: Config) -> Iterator[str]:
    """The names of the fields that differ, as the file has them."""
    for name, info in type(after).model_fields.items():
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        if type(old) is not type(new) or not isinstance(new, Section):
            yield info.alias or name
            continue
        for inner, inner_info in type(new).model_fields.items():
            if getattr(old, inner) != getattr(new, inner):
                yield f"{name}.{inner_info.alias or inner}"
