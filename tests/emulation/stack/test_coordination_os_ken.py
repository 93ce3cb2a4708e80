"""The same coordination under os-ken: `baton up --framework os-ken` on real switches, with an agent on every host."""

from __future__ import annotations

from emulation.stack.star import BOTTLENECK, mixed_flows, star
from emulation.traffic import experiment


def test_five_floods_are_coordinated_under_os_ken() -> None:
    with star(coordinator={"slice": "10ms"}, framework="os-ken") as (emulated, baton):
        baton.set_policy("timeslice")
        outcome = experiment.run(
            emulated, mixed_flows(5), duration_s=3, warmup_s=2, bottlenecks=[BOTTLENECK], host_queues=False
        )
        status = baton.status()
    assert status["members"] == 6
    assert status["slots"] > 0
    assert outcome.goodput_mbps > 60  # uncoordinated: next to nothing
    assert outcome.jain > 0.9
