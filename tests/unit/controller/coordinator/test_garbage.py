"""The collector does not look through what thousands of members are known by, again and again."""

from __future__ import annotations

from controller.coordinator.garbage import Garbage
from controller.members.registry import Members


def test_what_is_known_is_set_aside_when_nobody_joins_any_more_and_again_when_it_has_grown() -> None:
    members, frozen = Members(), list[int]()
    garbage = Garbage(members, lambda: frozen.append(len(members)))
    ((_, look),) = garbage.periodic

    def join(count: int) -> None:
        for _ in range(count):
            garbage.joined(members.register(b"\x02" + len(members).to_bytes(5), "h", 1, (), "tbf", "1", 0).node)

    look(0)
    for _ in range(3):
        join(100)
        look(0)
    assert not frozen, "they join"
    look(0)
    look(0)
    assert frozen == [300]
    join(10)
    look(0)
    look(0)
    assert frozen == [300], "hardly more"
    join(200)
    look(0)
    look(0)
    assert frozen == [300, 510]
