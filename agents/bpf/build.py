"""The agents' eBPF programs, which `ebpf.build` compiles at first use."""

from __future__ import annotations

from pathlib import Path

from ebpf import build

SOURCES = Path(__file__).parent


def object_path(name: str, sources: Path = SOURCES) -> Path:
    """The object file of program `name`, compiled first if necessary, with the agents' headers. Raises BuildError."""
    return build.object_path(name, sources, SOURCES)
