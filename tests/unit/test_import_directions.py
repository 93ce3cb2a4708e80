"""Imports point down, and no two modules import each other; read from the sources, so that nothing need be imported.

`ORDER` says it all: a line may import from the lines below it, and from no other; a name stands for a module, or for a folder
with all that is in it. What is in one folder may import from its own folder, as long as there is no circle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[2]

ORDER: Mapping[str, str] = {
    ".": """
        mininet
        cli
        bench
        simulation
        emulation webui
        agents controller
        ebpf protocol topology
    """,
    "agents": """
        run
        agent guests host_control
        addresses membership priorities reflex
        loop queues
        bpf config kernel permission
    """,
    "controller": """
        coordinator
        app coflows priorities scheduling supervision
        frames
        slots told
        election members openflow policies spanning_tree
        config
        switch_queues
        store
        processes
    """,
    "webui": """
        serve
        app server
        http
        access
        settings state
    """,
    "bench": """
        figures
        swarm
        fabrics host_control karuna siege xco
        computing coordination dashboard openflow
        fuzz record style
    """,
    "simulation": """
        figure sweep xco validation
        comparison coordination run
        cases results toolchain
        admission schemes
        flows
        fabric
    """,
    "emulation": """
        stack
        traffic
        fabric
        measuring
        box cdfs files netns processes resource virtual
    """,
}
LESS: Mapping[str, frozenset[str]] = {
    "webui": frozenset(
        {"controller.processes.logs", "controller.processes.waiting", "controller.store", "protocol", "topology"}
    )
}
"""Of what is below, a package may import only this."""
MODULES_MAX = 15
"""In one folder; beside it there may be an `__init__.py`, programs in C, and data."""

PURE = (
    "protocol",
    "topology",
    "emulation/measuring/confidence.py",
    "controller/coflows/attained_service.py",
    "controller/coflows/bottleneck_order.py",
    "controller/coflows/coflow.py",
    "controller/coflows/deadlines.py",
    "controller/coflows/order.py",
    "controller/coflows/queues.py",
    "controller/coflows/sent_bytes.py",
    "controller/coflows/service_limits.py",
    "controller/policies",
    "controller/priorities/completion_model.py",
    "controller/priorities/flow_reports.py",
    "controller/priorities/flow_sizes.py",
    "controller/slots/directive_delays.py",
    "controller/slots/permitted.py",
    "controller/slots/slot_length.py",
    "controller/priorities/threshold_solver.py",
    "controller/scheduling/misbehaviour.py",
    "controller/supervision/changes.py",
    "controller/switch_queues/model.py",
    "controller/switch_queues/hardware.py",
    "controller/priorities/thresholds.py",
    "controller/scheduling/telemetry.py",
    "controller/priorities/tuning.py",
    "simulation/admission.py",
    "simulation/cases.py",
    "simulation/comparison.py",
    "simulation/fabric.py",
    "simulation/flows.py",
    "simulation/results.py",
    "simulation/schemes.py",
    "webui/access/browsers.py",
    "webui/access/guard.py",
    "webui/access/limiter.py",
    "webui/access/origin.py",
    "webui/access/refusals.py",
    "webui/server/connections.py",
    "webui/server/turns.py",
    "webui/state/layout.py",
    "webui/state/liveness.py",
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
EDGES = frozenset(f"protocol/{name}.py" for name in ("link", "mark_socket", "realtime", "virtual_time"))
MAY_OPEN_FILES = EDGES | {"topology/text_file.py", "protocol/key.py"}  # a fabric; the key


def rows(package: str) -> list[list[str]]:
    """The lines of a package's order, top first."""
    return [line.split() for line in ORDER[package].strip().splitlines()]


PACKAGES = tuple(name for row in rows(".") for name in row)


def below(package: str, name: str) -> set[str]:
    """What a name of a package's order may import, itself included; a name that is not there stands above all."""
    order = rows(package)
    level = next((number for number, row in enumerate(order) if name in row), -1)
    return {name, *(lower for row in order[level + 1 :] for lower in row)}


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


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
    """Imports of a module that do not point down. `scripts`: the modules in our mininet/."""
    home, *rest = path.removesuffix(".py").split("/")
    allowed = LESS.get(home, frozenset(below(".", home))) | {home}
    inner = below(home, rest[0]) if home in ORDER and rest[0] != "__init__" else None
    found = []
    for line, name in imports(path, text):
        package, _, inside = name.partition(".")
        if package == "mininet":  # Mininet's own package, but for our scripts
            wrong = any(covers(f"mininet.{script}", name) for script in scripts)
        elif package == home and inner is not None:
            wrong = inside.partition(".")[0] not in inner
        else:
            wrong = (package in PACKAGES or package == "tests") and not any(covers(part, name) for part in allowed)
        if wrong:
            found.append(f"{path}:{line} imports {name}")
    return found


def module_of(name: str, modules: Mapping[str, str]) -> str | None:
    """The module that an imported name is, or is in."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def circles(texts: Mapping[str, str]) -> list[str]:
    """Modules that import each other, of any length, those under TYPE_CHECKING included. `texts`: {path: source}."""
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in texts}
    graph = nx.DiGraph()
    for module, path in modules.items():
        for _, name in imports(path, texts[path]):
            target = module_of(name, modules)
            if target is not None and target != module and not module.startswith(f"{target}."):
                graph.add_edge(module, target)
    return [
        " -> ".join(modules[module] for module in [*circle, circle[0]])
        for component in nx.strongly_connected_components(graph)
        if len(component) > 1
        for circle in [[edge[0] for edge in nx.find_cycle(graph.subgraph(component))]]
    ]


def crowded(paths: Iterable[Path]) -> list[str]:
    """Folders with more modules than `MODULES_MAX`."""
    counts: dict[str, int] = {}
    for path in paths:
        if path.name != "__init__.py":
            folder = path.parent.relative_to(ROOT).as_posix()
            counts[folder] = counts.get(folder, 0) + 1
    return [f"{folder}: {count} modules" for folder, count in sorted(counts.items()) if count > MODULES_MAX]


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
        for name in EDGES | MAY_OPEN_FILES:
            if (ROOT / name).exists():
                assert "edge" in (ast.get_docstring(ast.parse((ROOT / name).read_text())) or "").lower(), name

    def test_no_modules_import_each_other(self) -> None:
        found = circles({path.relative_to(ROOT).as_posix(): path.read_text() for path in sources()})
        assert not found, "\n".join(found)

    def test_every_package_and_every_folder_of_the_order_is_known_here(self) -> None:
        packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
        assert packages <= {*PACKAGES, "tests"}
        for package in ORDER.keys() - {"."}:
            there = {path.stem for path in (ROOT / package).glob("*.py")}
            there |= {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
            assert there - {"__init__"} == {name for row in rows(package) for name in row}, package

    def test_no_folder_is_crowded(self) -> None:
        assert not crowded([*sources(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "webui").rglob("*.js")])

    def test_every_folder_says_what_it_holds(self) -> None:
        folders = {path.parent for path in [*sources(), *(ROOT / "tests").rglob("*.py")]} - {ROOT / "mininet"}
        for folder in sorted(folders):
            made = folder / "__init__.py"
            assert made.exists() and ast.get_docstring(ast.parse(made.read_text())), folder.relative_to(ROOT)

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
            ("controller/store/x.py", "from controller.config.settings import Settings"),
            ("agents/queues/x.py", "from agents.membership import keys"),
            ("agents/membership/x.py", "if TYPE_CHECKING:\n    from agents.agent import Agent"),
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

    def test_a_circle_of_any_length_is_found_with_its_files(self) -> None:
        texts = {
            "agents/a.py": "from agents import b",
            "agents/b.py": "if TYPE_CHECKING:\n    from agents.c import C",
            "agents/c.py": "def f():\n    import agents.a",
            "agents/d.py": "from agents.a import A",
        }
        (found,) = circles(texts)
        assert all(name in found for name in ("agents/a.py", "agents/b.py", "agents/c.py")) and "d.py" not in found

    def test_a_crowded_folder_is_found(self) -> None:
        paths = [ROOT / "agents" / f"m{number}.py" for number in range(MODULES_MAX + 1)]
        assert crowded(paths) == [f"agents: {MODULES_MAX + 1} modules"] and not crowded(paths[1:])

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
