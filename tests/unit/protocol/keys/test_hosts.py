"""Keys of hosts: each other than all others, in each direction, at each address, and none leads to another."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from protocol.key import Key, KeyFileError
from protocol.keys import host_file
from protocol.keys.hosts import Derivation, HostSecret, Master
from tests.unit.protocol.protocol_strategies import PROPERTY

MASTER = Master(Key(b"m" * 32))
macs = st.binary(min_size=6, max_size=6)
names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=20)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=40))
@PROPERTY
def test_the_derivation_is_that_of_rfc_5869(secret: bytes, part: bytes) -> None:
    info = b"\x00\x05label" + len(part).to_bytes(2) + part
    theirs = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)
    assert Derivation(secret)(b"label", part) == theirs


@given(st.lists(st.binary(max_size=5), max_size=4), st.lists(st.binary(max_size=5), max_size=4))
@PROPERTY
def test_no_two_lists_of_parts_give_one_key(first: list[bytes], second: list[bytes]) -> None:
    derive = Derivation(b"s" * 32)
    assert (derive(*first) == derive(*second)) is (first == second)


@given(names, names, macs, macs)
@PROPERTY
def test_every_key_is_another_one(name: str, other: str, mac: bytes, elsewhere: bytes) -> None:
    one, two = MASTER.enroll(name), MASTER.enroll(other)
    found = [secret.at(where).from_leader.secret for secret in (one, two) for where in {mac, elsewhere}]
    data = b"x" * 60
    tags = [secret.at(where).to_leader.tag(data)[16:] for secret in (one, two) for where in {mac, elsewhere}]
    tags += [Key(key).tag(data + secret.enrolment) for key in found for secret in (one, two)]
    assert len(set(found)) == len(found) and len(set(tags)) == len(tags)
    assert not {one.secret, two.secret, MASTER.secret} & set(found)


@given(names, names)
@PROPERTY
def test_an_enrolment_belongs_to_one_name_and_one_master(name: str, other: str) -> None:
    made = MASTER.enroll(name)
    assert MASTER.certifies(made.enrolment, name)
    assert MASTER.certifies(made.enrolment, other) is (name == other)
    assert not Master(Key(b"n" * 32)).certifies(made.enrolment, name)
    again = MASTER.enroll(name, made.enrolment)
    assert again == made, "the first half leads to the same key"
    assert Master(Key(b"n" * 32)).enroll(name, made.enrolment).secret != made.secret


def test_two_controllers_with_one_master_sign_alike_and_others_do_not() -> None:
    signature = Master(Key(b"m" * 32)).signer.tag(b"said to all")
    assert MASTER.group.proves(b"said to all", signature)
    assert not MASTER.group.proves(b"said to alL", signature)
    assert not MASTER.group.proves(b"said to all", Master(Key(b"n" * 32)).signer.tag(b"said to all"))
    assert not MASTER.group.proves(b"said to all", b"")


class TestFile:
    """The file that is copied to a host."""

    def test_it_is_read_as_it_was_written_and_is_for_its_owner_only(self, tmp_path: Path) -> None:
        made = MASTER.enroll("h1 in rack 2")
        host_file.save(made, tmp_path / "h1")
        assert host_file.load(tmp_path / "h1") == made
        assert (tmp_path / "h1").stat().st_mode & 0o777 == 0o600
        assert MASTER.secret.hex() not in (tmp_path / "h1").read_text()
        with pytest.raises(KeyFileError, match="exists"):
            host_file.save(made, tmp_path / "h1")

    def test_a_key_of_the_whole_fabric_is_refused_with_what_to_do(self, tmp_path: Path) -> None:
        Key.generate(tmp_path / "key")
        with pytest.raises(KeyFileError, match="baton host enroll") as error:
            host_file.load(tmp_path / "key")
        assert (tmp_path / "key").read_text().strip() not in str(error.value)

    def test_a_file_open_to_others_is_refused(self, tmp_path: Path) -> None:
        host_file.save(MASTER.enroll("h1"), tmp_path / "h1")
        (tmp_path / "h1").chmod(0o640)
        with pytest.raises(KeyFileError, match="chmod 600"):
            host_file.load(tmp_path / "h1")

    @given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
    @PROPERTY
    def test_whatever_is_in_it_is_one_line(self, content: bytes) -> None:
        import tempfile

        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            with pytest.raises(KeyFileError) as error:
                host_file.load(file.name)
            assert "\n" not in str(error.value)

    @pytest.mark.parametrize("field", ["name", "enrolment", "key", "leader", "master", "baton"])
    @pytest.mark.parametrize("value", [None, "", "zz", 7, "00", ["00"]])
    def test_a_field_that_makes_no_sense_is_refused(self, tmp_path: Path, field: str, value: object) -> None:
        import json

        host_file.save(MASTER.enroll("h1"), tmp_path / "h1")
        fields = json.loads((tmp_path / "h1").read_text())
        (tmp_path / "h1").write_text(json.dumps(fields | {field: value}))
        if field == "name" and isinstance(value, str) and value:
            assert isinstance(host_file.load(tmp_path / "h1"), HostSecret)
            return
        with pytest.raises(KeyFileError):
            host_file.load(tmp_path / "h1")
