"""Who may be connected, whose turn it is, and who may have an event stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webui.access.origin import origin_of
from webui.access.places import Places
from webui.server.connections import Connections
from webui.server.turns import Turns


def few() -> Connections[int]:
    return Connections(each=3, user=2, total=6)


class TestConnections:
    """An origin's longest waiting connection makes room for its next one."""

    def test_the_longest_waiting_one_of_the_same_origin_makes_room(self) -> None:
        table = few()
        assert [table.enter(number, "a") for number in range(3)] == [(True, None)] * 3
        table.begin(0)
        assert table.enter(3, "a") == (True, 1)
        table.end(0)
        assert table.enter(4, "a") == (True, 2)
        assert table.enter(5, "a") == (True, 3)
        assert table.enter(6, "a") == (True, 0)

    def test_if_none_waits_the_one_that_is_answered_longest_makes_room(self) -> None:
        table = few()
        for number in range(3):
            table.enter(number, "a")
            table.begin(number)
        assert table.enter(3, "a") == (True, 0)
        assert table.enter(4, "a") == (True, 3)  # it waits
        table.begin(4)
        assert table.enter(5, "a") == (True, 1)

    def test_a_server_full_of_users_refuses(self) -> None:
        table = few()
        for number in range(6):
            table.enter(number, "a")
            table.recognise(number, f"user{number // 2}")
        assert table.enter(6, "b") == (False, None)

    def test_when_the_server_is_full_the_origin_with_the_most_makes_room(self) -> None:
        table = few()
        for number, origin in enumerate("aaabbc"):
            table.enter(number, origin)
        assert table.enter(6, "d") == (True, 0)

    def test_a_users_connections_do_not_count_for_the_origin_and_are_never_given_up(self) -> None:
        table = few()
        for number in range(2):
            table.enter(number, "a")
            table.begin(number)
            assert table.recognise(number, "ann")
            table.end(number)
        for number in range(2, 5):
            assert table.enter(number, "a") == (True, None)
        assert table.enter(5, "a") == (True, 2)
        table.begin(5)
        assert not table.recognise(5, "ann")  # she has two already
        table.leave(0)
        assert table.recognise(5, "ann")

    def test_who_left_is_forgotten(self) -> None:
        table = few()
        for number in range(100):
            table.enter(number, str(number))
            table.recognise(number, "ann")
            table.leave(number)
            table.leave(number)
        assert len(table) == 0 and not table._of_origin and not table._of_user
        assert not table._waiting and not table._answered

    @given(st.lists(st.tuples(st.sampled_from("ebdrl"), st.integers(0, 12), st.sampled_from("abc")), max_size=120))
    def test_no_limit_is_ever_exceeded(self, steps: list[tuple[str, int, str]]) -> None:
        table, alive, users = few(), dict[int, str](), dict[int, str]()
        for step, key, name in steps:
            if step == "e" and key not in alive:
                verdict = table.enter(key, name)
                if verdict.given_up is not None:
                    assert verdict.given_up not in users
                    del alive[verdict.given_up]
                if verdict.admitted:
                    alive[key] = name
            elif step == "b":
                table.begin(key)
            elif step == "d":
                table.end(key)
            elif step == "r" and key not in users:
                if table.recognise(key, name):
                    users[key] = name
            elif step == "l":
                table.leave(key)
                alive.pop(key, None)
                users.pop(key, None)
            assert len(table) == len(alive) <= 6
            for origin in "abc":
                assert sum(where == origin and key not in users for key, where in alive.items()) <= 3
                assert sum(user == origin for user in users.values()) <= 2

    def test_a_bound_of_0_is_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match="user"):
            Connections(each=1, user=0, total=1)


class TestTurns:
    """Many requests of one origin do not delay those of another."""

    def test_origins_take_turns(self) -> None:
        turns: Turns[str] = Turns(running=1, each=1)
        assert turns.ask("a", "a1") == ["a1"]
        for request in ("a2", "a3", "b1", "b2"):
            assert turns.ask(request[0], request) == []
        served, at = [], "a"
        for _ in range(4):
            served += turns.done(at)
            at = served[-1][0]
        assert served == ["a2", "b1", "a3", "b2"]

    def test_one_origin_takes_only_its_part(self) -> None:
        turns: Turns[int] = Turns(running=4, each=2)
        assert [turns.ask("a", number) for number in range(4)] == [[0], [1], [], []]
        assert turns.ask("b", 9) == [9]
        assert turns.done("a") == [2]

    def test_who_gave_up_gets_no_turn(self) -> None:
        turns: Turns[int] = Turns(running=1, each=1)
        turns.ask("a", 1)
        turns.ask("b", 2)
        assert turns.give_up("b", 2) and not turns.give_up("b", 2) and not turns.give_up("a", 1)
        assert turns.done("a") == []
        assert turns.ask("c", 3) == [3]


class TestPlaces:
    """Visitors take no place of a user."""

    def test_visitors_are_bounded_together_and_by_origin_and_users_have_their_own(self) -> None:
        places = Places(users=3, each_user=2, visitors=3, each_origin=2)
        taken = [places.take(None, origin) for origin in ("a", "a", "a", "b", "c")]
        assert [place is not None for place in taken] == [True, True, False, True, False]
        users = [places.take(user, "a") is not None for user in ("ann", "ann", "ann", "bob", "eve")]
        assert users == [True, True, False, True, False]
        assert taken[0] is not None
        places.leave(taken[0])
        assert places.take(None, "c") is not None and len(places) == 6

    def test_a_user_named_as_an_origin_is_not_confused_with_it(self) -> None:
        places = Places(each_user=1, each_origin=1)
        assert places.take("10.0.0.1", "x") and places.take(None, "10.0.0.1") and not places.take("10.0.0.1", "x")


@pytest.mark.parametrize(("address", "origin"), [
    ("10.0.0.1", "10.0.0.1"),
    ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
    ("fe80::1%eth0", "fe80::/64"),
    ("::ffff:10.0.0.1", "10.0.0.1"),
    ("nonsense", ""),
    (None, ""),
])  # fmt: skip
def test_the_origin_of_an_address(address: str | None, origin: str) -> None:
    assert origin_of(address) == origin
