"""Who may import whom, and what the pure packages may not touch; read from the sources, so that nothing need be imported.

Imports point down: cli, mininet, bench -> emulation, webui -> controller, agents -> protocol, topology, ebpf.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BELOW: dict[str, frozenset[str]] = {
    "protocol": frozenset(),
    "topology": frozenset(),
    "ebpf": frozenset(),
    "controller": frozenset({"protocol", "topology", "ebpf"}),
    "agents": frozenset({"protocol", "topology", "ebpf"}),
    "webui": frozenset({"controller.store", "protocol", "topology"}),
    "emulation": frozenset({"controller", "agents", "protocol", "topology", "ebpf"}),
    "bench": frozenset({"emulation", "webui", "controller", "agents", "protocol", "topology", "ebpf"}),
    "mininet": frozenset({"emulation", "controller", "agents", "protocol", "topology", "ebpf"}),
    # `baton bench` and `baton up` start what bench and webui hold
    "cli": frozenset({"bench", "emulation", "webui", "controller", "agents", "protocol", "topology", "ebpf"}),
}

PURE = (
    "protocol",
    "topology",
    "controller/policies",
    "controller/priorities/bands.py",
    "controller/priorities/coflows.py",
    "controller/priorities/flow_reports.py",
    "controller/priorities/flow_sizes.py",
    "controller/scheduling/permitted.py",
    "controller/priorities/sieving.py",
    "controller/scheduling/suspicion.py",
    "controller/switch_queues/model.py",
    "controller/switch_queues/hardware.py",
    "controller/priorities/thresholds.py",
    "controller/scheduling/telemetry.py",
    "controller/priorities/tuning.py",
    "webui/state/layout.py",
    "webui/state/model.py",
    "webui/http/openapi.py",
    "webui/http/ryu_topology.py",
    "webui/http/schema.py",
)
IMPURE = frozenset(
    {
        "asyncio",
        "datetime",
        "eventlet",
        "fcntl",
        "http",
        "logging",
        "multiprocessing",
        "os_ken",
        "pyroute2",
        "random",
        "redis",
        "ryu",
        "sched",
        "select",
        "selectors",
        "signal",
        "socket",
        "socketserver",
        "subprocess",
        "threading",
        "time",
        "urllib",
    }
)
EDGES = frozenset({"protocol/link.py", "protocol/mark_socket.py", "protocol/realtime.py"})  # sockets and the scheduler
MAY_OPEN_FILES = EDGES | {"topology/files.py", "protocol/key.py"}  # a fabric; the key


def sources() -> list[Path]:
    return sorted(path for package in BELOW for path in (ROOT / package).rglob("*.py"))


def imports(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The line and the full dotted name of everything that a module imports, at its top or inside a function."""
    package = path.split("/")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parent = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{parent}.{alias.name}") for alias in node.names)


def covers(allowed: str, name: str) -> bool:
    return name == allowed or name.startswith(f"{allowed}.")


def upward(path: str, text: str, scripts: frozenset[str] = frozenset()) -> list[str]:
    """Imports of a module that are not of its own package nor of what is below. `scripts`: modules in mininet/."""
    home = path.split("/")[0]
    found = []
    for line, name in imports(path, text):
        package = name.split(".")[0]
        if package == "mininet":  # Mininet's own package, but for our scripts
            wrong = any(covers(f"mininet.{script}", name) for script in scripts)
        else:
            below = package == home or any(covers(allowed, name) for allowed in BELOW[home])
            wrong = (package in BELOW or package == "tests") and not below
        if wrong:
            found.append(f"{path}:{line} imports {name}")
    return found


def impure(path: str, text: str) -> list[str]:
    """Imports by which a pure module could reach a socket, a clock, a log or another process; and files that it opens."""
    found = (
        []
        if path in EDGES
        else [f"{path}:{line} imports {name}" for line, name in imports(path, text) if name.split(".")[0] in IMPURE]
    )
    if path not in MAY_OPEN_FILES:
        names = {"open", "read_text", "write_text", "read_bytes", "write_bytes"}
        found += [
            f"{path}:{node.lineno} opens a file"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call) and (getattr(node.func, "id", None) or getattr(node.func, "attr", None)) in names
        ]
    return found


def is_pure(path: str) -> bool:
    return any(path == pure or path.startswith(f"{pure}/") for pure in PURE)


class TestTheSources:
    """Every module of every package."""

    def test_nothing_imports_upward_or_sideways(self) -> None:
        scripts = frozenset(path.stem for path in (ROOT / "mininet").glob("*.py"))
        found = []
        for path in sources():
            found += upward(path.relative_to(ROOT).as_posix(), path.read_text(), scripts)
        assert not found

    def test_the_pure_modules_touch_no_socket_clock_log_or_file(self) -> None:
        found = []
        for path in sources():
            name = path.relative_to(ROOT).as_posix()
            if is_pure(name):
                found += impure(name, path.read_text())
        assert not found

    def test_an_edge_among_the_pure_says_so_at_its_top(self) -> None:
        for name in EDGES:
            if (ROOT / name).exists():
                assert "edge" in (ast.get_docstring(ast.parse((ROOT / name).read_text())) or "").lower(), name

    def test_every_package_is_known_here(self) -> None:
        packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
        assert packages <= set(BELOW) | {"tests"}

    def test_our_mininet_folder_does_not_shadow_mininet(self) -> None:
        assert not list((ROOT / "mininet").rglob("__init__.py"))


class TestTheRules:
    """That the rules see what they are for."""

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("protocol/x.py", "import topology.fabric"),
            ("topology/x.py", "from protocol import messages"),
            ("controller/x.py", "from agents.agent import Agent"),
            ("agents/x.py", "def f():\n    from controller import store"),
            ("agents/x.py", "from ..controller import store"),
            ("webui/x.py", "from controller.coordinator.coordinator import Coordinator"),
            ("webui/x.py", "from controller import members"),
            ("webui/x.py", "import agents"),
            ("controller/x.py", "import webui"),
            ("emulation/x.py", "from cli.main import main"),
            ("bench/x.py", "import cli"),
            ("emulation/x.py", "from mininet.figure4 import run"),
            ("controller/policies/x.py", "from tests.unit import oracle"),
        ],
    )
    def test_an_import_upward_or_sideways_is_found(self, path: str, text: str) -> None:
        assert upward(path, text, frozenset({"figure4"}))

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("controller/x.py", "from protocol.messages import Grant\nfrom topology import fabric"),
            ("controller/x.py", "from . import members\nfrom ryu.topology import api"),
            ("webui/x.py", "from controller.store.store import Store\nimport controller.store.store"),
            ("webui/x.py", "from controller import store"),
            ("emulation/x.py", "from mininet.net import Mininet\nimport agents.agent"),
            ("cli/x.py", "import bench.coordination.latency, webui.app, emulation.stack.demo, time"),
        ],
    )
    def test_an_import_downward_is_allowed(self, path: str, text: str) -> None:
        assert not upward(path, text, frozenset({"figure4"}))

    @pytest.mark.parametrize(
        "text",
        [
            "import socket",
            "from time import monotonic_ns",
            "def f():\n    import logging.handlers",
            "import redis",
            "open('x')",
            "from pathlib import Path\nPath('x').read_text()",
        ],
    )
    def test_a_pure_module_that_reaches_out_is_found(self, text: str) -> None:
        assert impure("controller/policies/x.py", text)

    def test_the_pure_part_is_what_the_design_names(self) -> None:
        assert all(map(is_pure, ("protocol/a.py", "topology/a.py", "controller/policies/a.py")))
        assert not any(map(is_pure, ("controller/a.py", "agents/a.py", "topology_x/a.py")))
