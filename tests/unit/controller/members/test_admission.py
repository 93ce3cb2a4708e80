"""Who may be a member: a host with a key that counts, by the name and from the address that are its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fuzz.receivers import EPOCH, LEADER_MAC, DiscardingBridge, FakeControlSocket, FixedLeadership
from controller.config.settings import CoordinatorSettings
from controller.coordinator.coordinator import Coordinator
from controller.members import enrolments
from controller.members.admission import MOVE_NS
from controller.members.enrolments import EnrolmentFile, Enrolments
from protocol.auth import Guard
from protocol.key import Key, KeyFileError
from protocol.keyring import KeyRing
from protocol.keys.hosts import HostSecret, Master
from protocol.messages import (
    UNREGISTERED,
    Cause,
    Error,
    ErrorCode,
    Frame,
    GateKind,
    Leave,
    Message,
    Ping,
    Pong,
    Register,
    Welcome,
    encode,
)
from tests.unit.protocol.protocol_strategies import PROPERTY

MASTER = Master(Key(b"m" * 32))
SHARED = Key(b"s" * 32)
SECOND_NS = 1_000_000_000


def mac(number: int) -> bytes:
    return bytes((2, 0, 0, 0, 0, number))


class Bridge(DiscardingBridge):
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, value: Mapping[str, Any]) -> bool:
        self.lines.append(dict(value))
        return True


class Fabric:
    """A leader with a master key, and hosts."""

    def __init__(self, key_file: Path = Path("/nowhere/key"), shared: Key | None = None) -> None:
        settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=key_file, store="")
        self.link, self.bridge, self.ring = FakeControlSocket(LEADER_MAC), Bridge(), KeyRing(MASTER)
        self.leader = Coordinator(
            settings, self.ring, cast(Any, self.link), cast(Any, self.bridge), FixedLeadership(), cast(Any, None), shared
        )
        self.now_ns, self.clock = 0, count(10**18)

    def hear(self, secret: HostSecret, at: int, message: Message, sender: int = UNREGISTERED, **words: object) -> list[Frame]:
        """What the leader then says to the host with this key at that address, as the host understands it."""
        self.now_ns += 1_000_000
        self.link.sent = []
        raw = encode(
            message,
            **{"key": secret.at(mac(at)).to_leader, "destination": LEADER_MAC, "source": mac(at), "sender": sender,
               "epoch": EPOCH, "sequence": next(self.clock)} | words,
        )  # fmt: skip
        self.leader.reception.receive(raw, self.now_ns)
        guard = Guard(secret.at(mac(at)), epoch=EPOCH, address=mac(at))
        return [frame for sent in self.link.sent if sent[:6] == mac(at) and (frame := guard.accept(sent)) is not None]

    def join(self, secret: HostSecret, at: int, name: str | None = None, **words: object) -> int | str:
        """The node id, or why not."""
        register = Register(name or secret.name, 1, 10**8, (), GateKind.TBF, "1")
        for frame in self.hear(secret, at, register, **words):
            if isinstance(frame.message, Welcome):
                return frame.message.node
            assert isinstance(frame.message, Error)
            return frame.message.text
        return "no answer"

    def answers(self, secret: HostSecret, at: int, node: int) -> bool:
        return any(isinstance(frame.message, Pong) for frame in self.hear(secret, at, Ping(1), node))

    def names(self) -> dict[bytes, str]:
        return {member.mac: member.name for member in self.leader.members.present()}

    def refused(self, cause: Cause) -> int:
        return self.leader.guard.refused[cause]


def told(enrolments: Enrolments) -> dict[str, Any]:
    return {"hosts": enrolments.document()}


def known(*hosts: tuple[HostSecret, tuple[str, ...]]) -> Enrolments:
    found = Enrolments()
    for number, (secret, macs) in enumerate(hosts):
        found.add(secret.enrolment, secret.name, macs, 100 + number)
    return found


ONE, TWO = MASTER.enroll("h1"), MASTER.enroll("h2")


class TestNames:
    """A host has the name that it was enrolled by."""

    def test_a_host_is_a_member_by_its_own_name_and_is_answered_under_its_own_key(self) -> None:
        fabric = Fabric()
        node = fabric.join(ONE, 1)
        assert isinstance(node, int) and fabric.answers(ONE, 1, node)
        assert fabric.names() == {mac(1): "h1"}

    def test_by_another_name_it_is_none(self) -> None:
        fabric = Fabric()
        assert "another name" in str(fabric.join(ONE, 1, "h2"))
        assert fabric.names() == {}
        assert isinstance(fabric.join(ONE, 1), int)
        assert "another name" in str(fabric.join(ONE, 1, "h2")) and fabric.names() == {mac(1): "h1"}

    def test_with_a_key_of_another_master_it_is_not_even_answered(self) -> None:
        fabric = Fabric()
        assert fabric.join(Master(Key(b"n" * 32)).enroll("h1"), 1) == "no answer" and not fabric.link.sent
        assert fabric.refused(Cause.TAG) == 1

    def test_who_is_no_member_is_told_to_register_under_its_own_key(self) -> None:
        (frame,) = Fabric().hear(ONE, 1, Ping(1), 16)
        assert isinstance(frame.message, Error) and frame.message.code is ErrorCode.UNKNOWN_SENDER


class TestOthers:
    """A host speaks for itself alone."""

    def test_it_cannot_speak_as_another_member(self) -> None:
        fabric = Fabric()
        first, second = fabric.join(ONE, 1), fabric.join(TWO, 2)
        assert isinstance(first, int) and isinstance(second, int)
        for at, node in ((1, second), (2, second), (2, first)):
            fabric.hear(ONE, at, Leave("forged"), node)
            assert fabric.names() == {mac(1): "h1", mac(2): "h2"}
        assert fabric.refused(Cause.UNKNOWN_SENDER) == 3 and fabric.answers(TWO, 2, second)

    def test_it_cannot_take_a_members_address_nor_one_that_is_reserved(self) -> None:
        fabric = Fabric()
        assert isinstance(fabric.join(TWO, 2), int)
        assert "another host is a member" in str(fabric.join(ONE, 2))
        fabric.leader.take([told(known((MASTER.enroll("h3"), (mac(3).hex(":"),))))], 0)
        assert "reserved" in str(fabric.join(ONE, 3))
        assert fabric.names() == {mac(2): "h2"}

    def test_a_host_gets_its_reserved_address_back_from_whoever_has_it(self) -> None:
        fabric, bound = Fabric(), MASTER.enroll("h3")
        assert isinstance(fabric.join(ONE, 3), int)
        fabric.leader.take([told(known((bound, (mac(3).hex(":"),))))], 0)
        node = fabric.join(bound, 3)
        assert isinstance(node, int) and fabric.names() == {mac(3): "h3"} and fabric.answers(bound, 3, node)
        assert "addresses" in str(fabric.join(bound, 4))

    def test_one_key_is_one_member_and_moves_at_most_once_a_second(self) -> None:
        fabric = Fabric()
        assert isinstance(fabric.join(ONE, 1), int)
        assert "moment ago" in str(fabric.join(ONE, 2)) and fabric.names() == {mac(1): "h1"}
        fabric.now_ns += MOVE_NS
        assert isinstance(fabric.join(ONE, 2), int) and fabric.names() == {mac(2): "h1"}
        assert fabric.leader.admission._keys.sending_to(mac(1)) is None, "nothing is said to where it was"
        for at in range(3, 100):
            fabric.hear(ONE, at - 1, Leave(""), 17)
            fabric.join(ONE, at)
        assert len(fabric.leader.members._reserved) < 3, "it uses up no node ids"

    def test_a_key_for_several_addresses_is_a_member_at_each(self) -> None:
        fabric, both = Fabric(), MASTER.enroll("h3")
        fabric.leader.take([told(known((both, (mac(3).hex(":"), mac(4).hex(":")))))], 0)
        nodes = [fabric.join(both, 3), fabric.join(both, 4)]
        assert all(isinstance(node, int) for node in nodes) and len(fabric.names()) == 2
        assert fabric.answers(both, 3, int(nodes[0])) and fabric.answers(both, 4, int(nodes[1]))


    def test_a_host_may_have_the_address_that_an_older_key_of_its_own_reserves(self) -> None:
        fabric = Fabric()
        fabric.leader.take([told(known((MASTER.enroll("h1"), (mac(3).hex(":"),))))], 0)
        assert isinstance(fabric.join(ONE, 3), int) and fabric.names() == {mac(3): "h1"}

    def test_registering_anew_at_the_same_address_does_not_put_off_a_move(self) -> None:
        fabric = Fabric()
        for _ in range(2):
            assert isinstance(fabric.join(ONE, 1), int)
            fabric.now_ns += MOVE_NS - 2_000_000
        assert isinstance(fabric.join(ONE, 2), int) and fabric.names() == {mac(2): "h1"}

    def test_a_move_is_refused_until_a_second_is_over_and_then_allowed(self) -> None:
        fabric = Fabric()
        fabric.join(ONE, 1)
        fabric.now_ns += MOVE_NS - 2_000_000
        assert "moment ago" in str(fabric.join(ONE, 2)) and isinstance(fabric.join(ONE, 2), int)

    def test_a_host_that_moves_takes_nothing_from_who_has_its_old_address_now(self) -> None:
        fabric = Fabric()
        node = fabric.join(ONE, 1)
        assert isinstance(node, int)
        fabric.hear(ONE, 1, Leave("moved"), node)
        other = fabric.join(TWO, 1)
        fabric.now_ns += MOVE_NS
        assert isinstance(fabric.join(ONE, 2), int)
        assert fabric.names() == {mac(1): "h2", mac(2): "h1"} and fabric.answers(TWO, 1, int(other))


class TestRevoked:
    """A key that is revoked ends what it was good for."""

    def test_its_host_is_no_member_and_is_told_nothing(self) -> None:
        fabric, enrolments = Fabric(), known((ONE, ()), (TWO, ()))
        fabric.leader.take([told(enrolments)], 0)
        node, other = fabric.join(ONE, 1), fabric.join(TWO, 2)
        version = fabric.leader.members.version
        assert enrolments.revoke("h1", 200) == 1
        fabric.leader.take([told(enrolments)], fabric.now_ns)
        assert fabric.names() == {mac(2): "h2"} and fabric.leader.members.version > version, "the directory is told"
        assert fabric.leader.admission._keys._admitted.keys() == {mac(2)}
        assert any("revoked" in str(line.get("event")) for line in fabric.bridge.lines)
        for message, sender in ((Ping(1), int(node)), (Register("h1", 1, 10**8, (), GateKind.TBF, "1"), 0)):
            fabric.hear(ONE, 1, message, sender)
            assert not fabric.link.sent
        assert fabric.refused(Cause.REVOKED) == 2 and fabric.answers(TWO, 2, int(other))

    def test_a_newer_key_of_the_host_counts_while_the_older_is_revoked(self) -> None:
        fabric, newer = Fabric(), MASTER.enroll("h1")
        node = fabric.join(ONE, 1)
        assert fabric.join(newer, 1) == node, "it is the same member"
        assert fabric.answers(newer, 1, int(node))
        fabric.hear(ONE, 1, Ping(1), int(node))
        assert fabric.refused(Cause.TAG) == fabric.refused(Cause.UNKNOWN_SENDER) == 0, "what was under way counts"
        enrolments = known((ONE, ()), (newer, ()))
        enrolments.revoke("h1", 200, but_newest=True)
        fabric.leader.take([told(enrolments)], 0)
        assert fabric.answers(newer, 1, int(node)) and fabric.join(ONE, 1) == "no answer"

    def test_the_file_beside_the_key_is_followed_and_the_store_is_told_what_it_lacks(self, tmp_path: Path) -> None:
        key_file = tmp_path / "key"
        fabric = Fabric(key_file)
        fabric.leader.admission.look(0)
        assert isinstance(fabric.join(ONE, 1), int)
        with EnrolmentFile(key_file).changing() as enrolments:
            enrolments.add(ONE.enrolment, "h1", (), 100)
            enrolments.revoke("h1", 200)
        fabric.leader.admission.look(1)
        assert fabric.names() == {}
        (written,) = [line["hosts"] for line in fabric.bridge.lines if "hosts" in line]
        assert written[ONE.enrolment[:8].hex()]["revoked"] == 200
        fabric.leader.take([{"hosts": {}}], 2)
        assert "hosts" in fabric.bridge.lines[-1], "a store that has lost it is told again"
        (tmp_path / "key.hosts").write_text("{")
        for now_ns in (3, 4):
            fabric.leader.admission.look(now_ns)
        assert any("damaged" in line for line in fabric.leader.admission.warnings())
        assert fabric.join(ONE, 1) == "no answer", "and what is known stays known"
        (tmp_path / "key.hosts").write_text("{}")
        fabric.leader.admission.look(5)
        assert not fabric.leader.admission.warnings(), "it was mended"

    def test_a_store_that_knows_all_is_told_nothing(self) -> None:
        fabric, enrolments = Fabric(), known((ONE, ()))
        for _ in range(2):
            fabric.leader.take([told(enrolments)], 0)
        assert not [line for line in fabric.bridge.lines if "hosts" in line]


class TestSharedKey:
    """Hosts of version 2 are taken only while the key that they share is named, and operators are warned."""

    def test_without_it_they_are_not(self) -> None:
        fabric = Fabric()
        assert fabric.leader._document(0)["wire"]["lowest"] == 3
        assert fabric.join(ONE, 1, key=SHARED, version=2) == "no answer" and fabric.names() == {}

    def test_with_it_they_are_beside_the_others_and_a_warning_says_so(self) -> None:
        fabric = Fabric(shared=SHARED)
        fabric.join(ONE, 1, key=SHARED, version=2)
        assert isinstance(fabric.join(TWO, 2), int)
        assert fabric.names() == {mac(1): "h1", mac(2): "h2"}
        assert any("shared_key_file" in line for line in fabric.leader._document(0)["warnings"])
        fabric.hear(TWO, 2, Leave("forged"), 17, key=SHARED, version=2)
        assert fabric.names() == {mac(1): "h1", mac(2): "h2"}, "it speaks for no host with a key of its own"


class TestEnrolments:
    """What is known of keys only grows."""

    documents = st.lists(
        st.dictionaries(
            st.sampled_from([bytes((n,) * 8).hex() for n in range(4)]),
            st.fixed_dictionaries(
                {"name": st.sampled_from(["a", "b"]), "enrolled": st.integers(0, 9), "macs": st.just([]),
                 "revoked": st.sampled_from([0, 0, 5])}
            ),
        ),
        max_size=5,
    )  # fmt: skip

    @given(documents)
    @PROPERTY
    def test_whatever_comes_when_what_is_revoked_stays_so(self, documents: list[dict[str, Any]]) -> None:
        found = Enrolments()
        revoked: set[str] = set()
        for document in documents:
            found.merge(document)
            revoked |= {salt for salt, fields in document.items() if fields["revoked"]}
            assert {salt for salt, fields in found.document().items() if fields["revoked"]} == revoked
        assert not found.merge(found.document())

    @given(st.recursive(st.none() | st.integers() | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)))
    @PROPERTY
    def test_what_makes_no_sense_is_left_out(self, junk: object) -> None:
        found = Enrolments()
        found.merge({"00" * 8: junk, "zz": {"name": "a", "enrolled": 0, "macs": [], "revoked": 0}})
        assert found.document() == {}

    @pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "-1"])
    @pytest.mark.parametrize("field", ["enrolled", "revoked"])
    def test_a_time_that_is_none_leaves_one_key_out_and_no_other_and_is_told_once(
        self, tmp_path: Path, field: str, number: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = EnrolmentFile(tmp_path / "key")
        with file.changing() as enrolments:
            enrolments.add(ONE.enrolment, "h1", (), 1)
            enrolments.revoke("h1", 2)
        (right,) = file.read().values()
        wrong = json.dumps(right | {field: 0}).replace(f'"{field}": 0', f'"{field}": {number}')
        file.path.write_text(f'{{"{"00" * 8}": {wrong}, {file.path.read_text()[1:]}')
        found = Enrolments()
        assert found.merge(file.read()) and found.revoked(ONE.enrolment)
        assert list(found.document()) == [ONE.enrolment[:8].hex()]
        assert not found.merge(file.read())
        (told,) = caplog.messages
        assert told.startswith(f"enrolment {'00' * 8} makes no sense")

    def test_a_key_that_is_revoked_at_a_time_beyond_64_bits_is_revoked(self) -> None:
        found = Enrolments()
        found.merge({ONE.enrolment[:8].hex(): {"name": "h1", "enrolled": 1, "macs": [], "revoked": 10**30}})
        assert found.revoked(ONE.enrolment) and orjson.dumps(found.document())

    def test_the_file_is_for_its_owner_only(self, tmp_path: Path) -> None:
        file = EnrolmentFile(tmp_path / "key")
        with file.changing() as enrolments:
            enrolments.add(ONE.enrolment, "h1", (), 1)
        assert file.path.stat().st_mode & 0o777 == 0o600 and len(file.read()) == 1
        file.path.chmod(0o644)
        with pytest.raises(KeyFileError, match="chmod 600"):
            file.read()


class TestTheNewestKey:
    """Which of a host's keys is its newest one, and what is noted."""

    @pytest.mark.parametrize("later_s", [-600, 0, 600])
    def test_it_is_the_one_that_was_given_last_whatever_the_controllers_clocks_say(self, later_s: int) -> None:
        for one, other in ((b"a" * 8, b"b" * 8), (b"b" * 8, b"a" * 8)):
            found = Enrolments()
            found.add(one, "h1", (), 10_000)
            found.add(other, "h1", (), 10_000 + later_s)
            assert found.revoke("h1", 20_000, but_newest=True) == 1
            assert found.revoked(one) and not found.revoked(other)

    def test_a_key_that_could_not_be_noted_is_not_given_and_what_is_revoked_counts_all_the_same(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(enrolments, "MOST", 1)
        found = Enrolments()
        found.add(b"a" * 8, "h1", (), 1)
        with pytest.raises(KeyFileError, match="no more can be noted"):
            found.add(b"b" * 8, "h2", (), 2)
        found.merge({(b"c" * 8).hex(): {"name": "h3", "enrolled": 1, "macs": [], "revoked": 2}})
        assert found.revoked(b"c" * 8)
