"""On few processors an agent leaves a switch in user space its time."""

from __future__ import annotations

from agents.config import REALTIME, usual_realtime


def test_an_agent_has_real_time_priority_where_there_are_processors_for_others() -> None:
    assert [usual_realtime(processors) for processors in (1, 2, 3, 4, 64)] == [None, None, None, REALTIME, REALTIME]
