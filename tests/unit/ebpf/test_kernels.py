"""Programs for any kernel: they compile without a kernel's types, and find the fields that they read in those of several.

kernels/ has what the types of several kernels say about these fields, recorded from Debian's packages and a cloud's kernel:

    bpftool gen min_core_btf /sys/kernel/btf/vmlinux tests/unit/ebpf/kernels/RELEASE.btf PROGRAM.bpf.o...
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebpf.build import HEADERS

ROOT = Path(__file__).parents[3]
KERNELS = sorted((Path(__file__).parent / "kernels").glob("*.btf"))
PROGRAMS = sorted(
    path for folder in ("agents", "bench", "controller", "emulation") for path in (ROOT / folder).rglob("*.bpf.c")
)
SHARED = ROOT / "agents" / "bpf"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    if missing := [tool for tool in ("clang", "bpftool") if shutil.which(tool) is None]:
        pytest.skip(f"needs {' and '.join(missing)}")
    directory = tmp_path_factory.mktemp("objects")
    found = []
    for source in PROGRAMS:
        target = directory / f"{source.name}.o"
        folders = [word for folder in (*HEADERS, source.parent, SHARED) for word in ("-I", str(folder))]
        command = ["clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", *folders, "-c", str(source), "-o"]
        done = subprocess.run([*command, str(target)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{source.name}: {done.stderr}"
        found.append(target)
    yield found


def test_there_are_programs_and_five_kernels() -> None:
    assert len(PROGRAMS) > 10 and len(KERNELS) >= 5


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.name)
def test_no_program_takes_the_types_of_the_kernel_that_it_is_compiled_on(source: Path) -> None:
    """A name there, such as NEW_FLOW, might be one of ours; and no two kernels have the same names."""
    assert "vmlinux.h" not in source.read_text(encoding="utf-8")


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda path: path.stem)
def test_every_field_is_found_in_a_kernels_types(kernel: Path, compiled: list[Path], tmp_path: Path) -> None:
    for program in compiled:
        command = ["bpftool", "--debug", "gen", "min_core_btf", str(kernel), str(tmp_path / "out.btf"), str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lost = [line for line in (done.stdout + done.stderr).splitlines() if "no matching targets" in line]
        assert done.returncode == 0 and not lost, f"{program.name}: {lost or done.stderr}"
