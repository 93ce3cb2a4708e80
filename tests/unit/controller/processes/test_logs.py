"""What goes on is told seldom."""

from __future__ import annotations

from controller.processes.logs import TELL_AGAIN_NS, Seldom


def test_the_same_is_told_once_a_minute_and_another_at_once() -> None:
    seldom = Seldom()
    assert [seldom.is_news("a", at) for at in (0, 1, TELL_AGAIN_NS - 1, TELL_AGAIN_NS)] == [True, False, False, True]
    assert seldom.is_news("b", TELL_AGAIN_NS + 1) and seldom.is_news("a", TELL_AGAIN_NS + 2)
