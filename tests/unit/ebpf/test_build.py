"""What is compiled at the set-up and for other kernels."""

from __future__ import annotations

from ebpf.build import FOLDERS, ROOT


def test_every_folder_with_programs_or_libraries_in_c_is_built() -> None:
    packages = ("agents", "bench", "controller", "emulation")
    found = {path.parent.relative_to(ROOT).as_posix() for package in packages for path in (ROOT / package).rglob("*.c")}
    assert found == set(FOLDERS)
