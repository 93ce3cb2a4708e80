"""The agents' eBPF programs, compiled by `ebpf.build` when they are asked for."""

from __future__ import annotations

from pathlib import Path

from ebpf import build
from ebpf.build import BuildError as BuildError  # its readers look for it here

SOURCES = Path(__file__).parent


def object_path(name: str, sources: Path = SOURCES) -> Path:
    """The compiled program `name`, built first if need be; with the agents' headers at hand. Raises BuildError."""
    return build.object_path(name, sources, SOURCES)


if __name__ == "__main__":
    for path in sorted(SOURCES.glob("*.bpf.c")):
        print(object_path(path.name.removesuffix(".bpf.c")))
