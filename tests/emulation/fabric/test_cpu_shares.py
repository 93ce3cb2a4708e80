"""A host whose programs compute too much slows down itself: the kernel throttles it, and its record says how often."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from emulation.fabric.cpu_shares import controller
from emulation.fabric.fabric import EmulatedFabric
from topology import shapes

pytestmark = [
    pytest.mark.usefixtures("in_a_box"),
    pytest.mark.skipif(controller() is None, reason="no cgroup has a cpu controller: boot a kernel with CONFIG_CFS_BANDWIDTH"),
]

SPIN = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"


def test_a_program_that_computes_all_the_time_gets_its_hosts_share_and_is_throttled() -> None:
    found = controller()
    assert found is not None
    with EmulatedFabric(shapes.star(hosts=2), cpu_shares={"h1": 0.2}) as emulated:
        spinner = emulated.popen_limited("h1", [sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True)
        used_s = float(spinner.communicate(timeout=30)[0])
        assert 0 < used_s < 0.35
        assert emulated.shares is not None and emulated.shares.throttling()["h1"].throttled > 10
        assert "baton-" not in Path("/proc/self/cgroup").read_text()  # only the host's programs are limited
        assert list(found.root.glob("baton-*"))
    assert not list(found.root.glob("baton-*"))
