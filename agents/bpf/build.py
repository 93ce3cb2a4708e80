"""The agents' eBPF programs, compiled by `ebpf.build` when they are asked for."""

from __future__ import annotations

from pathlib import Path

from ebpf import build

SOURCES = Path(__file__).parent


def object_path(name: str, sources: Path = SOURCES) -> Path:
    """The compiled program `name`, built first if need be; with the agents' headers at hand. Raises BuildError."""
    return build.object_path(name, sources, SOURCES)
