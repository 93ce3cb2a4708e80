"""A very short run of `baton demo`: what it passes to its callbacks, and when."""

from __future__ import annotations

from typing import Any

from emulation.fabric.fabric import EmulatedFabric
from emulation.stack.demo import DemoOptions, run_demo


def test_the_results_are_there_while_the_fabric_is_still_up_for_a_prompt() -> None:
    seen: list[tuple[dict[str, Any], int]] = []

    def finished(record: dict[str, Any], emulated: EmulatedFabric) -> None:
        ping = emulated.popen("h1", ["ping", "-c", "1", "-W", "5", "10.0.0.6"])
        seen.append((record, ping.wait(20)))

    options = DemoOptions(ks=(0,), policies=("uncoordinated",), duration_s=0.5, warmup_s=0.3)
    record = run_demo(options, lambda what, seconds: None, finished)
    assert seen == [(record, 0)]
    assert [(run["policy"], run["k"]) for run in record["runs"]] == [("uncoordinated", 0)]
