"""The packages that `make test-stock-kernel` gives its guest are all that its tests import."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.stock_kernel.boot import TESTS

ROOT = Path(__file__).parents[2]
IMPORT = """
import importlib, sys
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from packaging.requirements import Requirement

given, waiting = set(), sys.argv[1].split()
while waiting:
    name = waiting.pop().lower()
    if name not in given:
        given.add(name)
        try:
            needed = [Requirement(line) for line in requires(name) or ()]
        except PackageNotFoundError:  # for another Python or system
            continue
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
found = packages_distributions()
mine = {"agents", "ebpf", "emulation", "protocol", "tests", "topology"}

class OnlyGiven(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        if top in found and top not in mine and not given & {one.lower() for one in found[top]}:
            raise ModuleNotFoundError(f"{name} is not given to the guest")

sys.meta_path.insert(0, OnlyGiven())
for module in sys.argv[2:]:
    importlib.import_module(module)
"""


def test_the_guest_has_every_package_that_its_tests_import() -> None:
    listed = re.search(r"STOCK\)/site.*grep -E '\^\((\S+)\)>'", (ROOT / "Makefile").read_text())
    assert listed is not None, "the Makefile names the guest's packages"
    modules = [name.removesuffix(".py").replace("/", ".") for name in TESTS]
    command = [sys.executable, "-c", IMPORT, listed[1].replace("|", " "), *modules]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert found.returncode == 0, found.stderr
