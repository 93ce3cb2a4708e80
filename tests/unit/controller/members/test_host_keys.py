"""The keys of a host that registers are those that it was heard under, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controller.members.enrolments import Enrolments
from controller.members.host_keys import HostKeys
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.keys.hosts import Master, Speaker

MAC = bytes.fromhex("020000000001")
OLD, NEW = Master(Key(bytes(32))), Master(Key(bytes(range(32))))


def heard(keys: HostKeys, enrolment: bytes) -> Sequence[Speaker]:
    found = keys.find(bytes(6) + MAC, enrolment)
    assert not isinstance(found, int)
    return found


@pytest.mark.parametrize(("given", "both"), [(OLD, False), (OLD, True), (NEW, True)])
def test_what_was_derived_to_hear_a_host_is_kept_when_it_is_admitted(given: Master, both: bool) -> None:
    keys = HostKeys(KeyRing(OLD, NEW if both else None), Enrolments())
    host = given.enroll("h1", b"12345678")
    speaker = next(one for one in heard(keys, host.enrolment) if one.credentials.fingerprint == given.fingerprint)
    keys.admit(speaker, "h1", MAC)
    (known,) = heard(keys, host.enrolment)
    assert known.credentials is speaker.credentials and known.name == "h1"
    assert known.credentials.to_leader.secret == host.at(MAC).to_leader.secret
    sending = keys.sending_to(MAC)
    assert sending is not None and sending.secret == OLD.enroll("h1", b"12345678").at(MAC).from_leader.secret


def test_a_host_that_is_heard_under_the_key_of_another_name_is_not_spoken_to_under_it() -> None:
    keys = HostKeys(KeyRing(OLD), Enrolments())
    other = OLD.enroll("h2", b"12345678")
    (speaker,) = heard(keys, other.enrolment)
    keys.admit(speaker, "h1", MAC)
    sending = keys.sending_to(MAC)
    assert sending is not None and sending.secret == OLD.enroll("h1", b"12345678").at(MAC).from_leader.secret


def test_a_host_that_registers_at_ever_new_addresses_is_known_at_the_last_ones_only() -> None:
    keys = HostKeys(KeyRing(OLD), Enrolments())
    host = OLD.enroll("h1", b"12345678")
    for number in range(50):
        mac = bytes.fromhex("0200000000") + bytes([number])
        found = keys.find(bytes(6) + mac, host.enrolment)
        assert not isinstance(found, int)
        keys.admit(found[0], "h1", mac)
    known = [number for number in range(50) if keys.sending_to(bytes.fromhex("0200000000") + bytes([number]))]
    assert known == [46, 47, 48, 49]


def test_a_host_is_known_at_each_of_its_own_addresses() -> None:
    enrolments = Enrolments()
    host = OLD.enroll("h1", b"12345678")
    macs = [bytes.fromhex("0200000000") + bytes([number]) for number in range(6)]
    enrolments.add(host.enrolment, "h1", tuple(mac.hex(":") for mac in macs), 1)
    keys = HostKeys(KeyRing(OLD), enrolments)
    for mac in macs:
        found = keys.find(bytes(6) + mac, host.enrolment)
        assert not isinstance(found, int)
        keys.admit(found[0], "h1", mac)
    assert all(keys.sending_to(mac) is not None for mac in macs)
