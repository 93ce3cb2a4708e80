"""Boots Debian's own kernel in QEMU and runs the kernel's tests there: `make test-stock-kernel`. An edge: processes, files.

The machine's own kernel may lack sch_plug, prio, red, fq, netem, DCTCP and the OVS datapath; Debian's has them all as modules.
The guest's root is the machine's, read-only (9p); the files that the tests use are on a disk image, since 9p is slow without
KVM.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
STOCK = PROJECT / ".venv/stock"
BUILT = PROJECT / "ebpf/build"
GUEST = Path(__file__).with_name("guest.sh")
PACKAGES = ("agents", "ebpf", "emulation", "protocol", "tests", "topology")
STDLIB = Path("/usr/lib/python3.11")
TOOLS = ("ip", "tc", "genl", "ethtool", "sysctl", "ping", "unshare")
SECONDS = 900
TESTS = (
    "tests/stock_kernel/test_stock_kernel.py",
    "tests/emulation/agents/queues/test_agent_queues.py",
    "tests/emulation/agents/queues/test_queues_of_others.py",
    "tests/emulation/agents/reflex/test_reflex_gates.py",
)


def tools(root: Path) -> None:
    """Copies the programs that the tests start, with their libraries, into `bin` and `lib`."""
    for name in ("bin", "lib"):
        (root / name).mkdir(parents=True)
    for tool in TOOLS:
        path = shutil.which(tool)
        if path is None:
            raise SystemExit(f"stock kernel: {tool} is not installed; run `make setup`")
        shutil.copy2(path, root / "bin")
        listed = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
        for line in listed.splitlines():
            if "=> /" in line:
                shutil.copy2(line.split()[2], root / "lib")


def disk(directory: Path) -> Path:
    """Makes an ext4 image of the files that the tests in the guest use."""
    root, image = directory / "root", directory / "disk.img"
    ignore = shutil.ignore_patterns("build", "test", "idlelib", "ensurepip", "lib2to3", "config-3.11-*")
    tools(root)
    shutil.copytree(STDLIB, root / "stdlib", symlinks=True, ignore=ignore)
    shutil.copytree(STOCK / "site", root / "site")
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, root / "baton" / package, ignore=ignore)
    shutil.copy2(PROJECT / "pyproject.toml", root / "baton")
    command = ["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(image), "256M"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(root)
    return image


def follow(guest: subprocess.Popen[bytes], log: Path) -> None:
    """Prints the log as it grows until the guest ends, or its time is over."""
    log.touch()
    end = time.monotonic() + SECONDS
    with log.open(errors="replace") as lines:
        while (running := guest.poll() is None) and time.monotonic() < end:
            print(lines.read(), end="", flush=True)
            time.sleep(0.5)
        print(lines.read(), end="", flush=True)
    if running:
        print(f"\nstock kernel: the guest did not end within {SECONDS} s")


def boot(kernel: Path, directory: Path, arguments: list[str]) -> int:
    """Runs pytest with these arguments in the guest; its exit status."""
    results = directory / "results"
    results.mkdir()
    BUILT.mkdir(exist_ok=True)
    console, log, status = directory / "console", results / "log", results / "status"
    command = [
        *(str(STOCK / "bin/vng"), "--verbose", "--run", str(kernel), "--disable-kvm", "--force-9p", "--cpus", "2"),
        *("--memory", "2G", "--disk", str(disk(directory)), "--rwdir", str(BUILT), "--rwdir", str(results)),
        *("--", "sh", str(GUEST), str(BUILT), str(results), *arguments),
    ]
    environment = {**os.environ, "PATH": f"{STOCK / 'bin'}:{os.environ['PATH']}"}
    with console.open("wb") as output:
        guest = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            follow(guest, log)
        finally:
            with suppress(ProcessLookupError):  # QEMU is vng's grandchild: its whole session ends
                os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()
    if status.exists():
        return int(status.read_text())
    print("stock kernel: the guest ended early; its console's last lines:")
    print("\n".join(console.read_text(errors="replace").splitlines()[-30:]))
    return 1


def main() -> int:
    """`boot.py [PYTEST OPTION...]`: runs the tests; their exit status."""
    kernels = sorted((STOCK / "kernel/boot").glob("vmlinuz-*"))
    if not kernels:
        raise SystemExit("stock kernel: none unpacked; run `make test-stock-kernel`")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that QEMU and the image go too
    with tempfile.TemporaryDirectory(prefix="baton-stock-") as directory:
        return boot(kernels[-1], Path(directory), [*TESTS, *sys.argv[1:]])


if __name__ == "__main__":
    raise SystemExit(main())
