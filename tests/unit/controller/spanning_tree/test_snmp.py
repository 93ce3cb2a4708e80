"""Port states from SNMP tables, credentials that no error shows, and addresses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.spanning_tree import snmp_tables
from controller.spanning_tree.port_states import Neighbour, PortState, TreeSourceError
from controller.spanning_tree.snmp_credentials import Community, CredentialsError, User, load, parse
from controller.spanning_tree.snmp_switch import SnmpSwitch
from controller.spanning_tree.snmp_tables import NAMES, STATES, Column, Oid, port_states
from topology.sources import split_address

USER = "{version: 3, user: u, auth_password: Hidden-one, priv_password: Hidden-two}"


def tables(**changes: Column) -> dict[Oid, Column]:
    """One switch: bridge port 1 is interface 11, p1, forwarding and up."""
    found: dict[Oid, Column] = {column: {} for column in (*STATES, *NAMES)}
    usual: dict[str, Column] = {"STP_STATE": {(1,): 5}, "BASE_IF_INDEX": {(1,): 11}, "OPER_STATUS": {(11,): 1}}
    given = usual | {"IF_NAME": {(11,): b"p1"}} | changes
    return found | {getattr(snmp_tables, name): column for name, column in given.items()}


class TestTables:
    """What is read from which object."""

    @pytest.mark.parametrize(("state", "oper"), [(5, 1), (5, 2), (1, 1), (2, 1), (3, 1), (4, 1), (6, 1)])
    def test_a_port_forwards_when_its_state_is_forwarding_and_its_link_is_up(self, state: int, oper: int) -> None:
        columns = tables(STP_STATE={(1,): state}, OPER_STATUS={(11,): oper})
        assert port_states("s1", columns) == {PortState("s1", "p1", (state, oper) == (5, 1))}

    def test_a_port_without_a_name_is_called_by_its_description(self) -> None:
        assert port_states("s1", tables(IF_NAME={}, IF_DESCR={(11,): b"GigabitEthernet1"})) == {
            PortState("s1", "GigabitEthernet1", True)
        }

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"STP_STATE": {}}, "dot1dStpPortState"),
            ({"BASE_IF_INDEX": {}}, "dot1dBasePortIfIndex"),
            ({"IF_NAME": {}}, "IF-MIB"),
            ({"BASE_IF_INDEX": {(2,): 12}}, "no port both in"),
        ],
    )
    def test_a_missing_table_is_named_with_the_remedy(self, changes: dict[str, Column], says: str) -> None:
        with pytest.raises(TreeSourceError, match=f"{says}.*; "):
            port_states("s1", tables(**changes))

    def test_a_neighbour_is_known_by_the_ports_name_or_by_its_number(self) -> None:
        remote = {"REMOTE_NAME": {(0, 1, 1): b"s2"}, "REMOTE_ID": {(0, 1, 1): b"p9"}, "REMOTE_SUBTYPE": {(0, 1, 1): 5}}
        wanted = {PortState("s1", "p1", True, Neighbour("s2", "p9"))}
        assert port_states("s1", tables(**remote)) == wanted
        by_name = {"LOCAL_SUBTYPE": {(7,): 5}, "LOCAL_ID": {(7,): b"p1"}}
        moved = {name: {(0, 7, 1): next(iter(column.values()))} for name, column in remote.items()}
        assert port_states("s1", tables(**by_name, **moved)) == wanted

    def test_a_neighbours_address_is_no_name_of_its_port(self) -> None:
        remote = {
            "REMOTE_NAME": {(0, 1, 1): b"s2"},
            "REMOTE_ID": {(0, 1, 1): b"\x02\0\0\0\0\1"},
            "REMOTE_SUBTYPE": {(0, 1, 1): 3},
            "REMOTE_DESCR": {(0, 1, 1): b"p9"},
        }
        assert {state.neighbour for state in port_states("s1", tables(**remote))} == {Neighbour("s2", "p9")}

    def test_two_neighbours_at_one_port_are_none(self) -> None:
        remote = {"REMOTE_NAME": {(0, 1, 1): b"s2", (0, 1, 2): b"s3"}}
        assert {state.neighbour for state in port_states("s1", tables(**remote))} == {None}


class TestWalk:
    """How a switch's tables are asked for, a few rows at a time."""

    def read(self, empty: int | None) -> frozenset[PortState]:
        """A switch of 48 ports, all forwarding; its answer number `empty` (from 1 on) has no row."""
        rows: dict[Oid, int | bytes] = {}
        for port in range(1, 49):
            rows |= {(*snmp_tables.STP_STATE, port): 5, (*snmp_tables.OPER_STATUS, port): 1}
            rows |= {(*snmp_tables.BASE_IF_INDEX, port): port, (*snmp_tables.IF_NAME, port): b"p%d" % port}
        asked = itertools.count(1)

        async def ask(after: Sequence[Oid]) -> list[tuple[Oid, int | bytes | None]]:
            answer: list[tuple[Oid, int | bytes | None]] = []
            for _ in range(0 if next(asked) == empty else 5):
                after = [min((oid for oid in rows if oid > last), default=(*last, 0)) for last in after]
                answer += [(oid, rows.get(oid)) for oid in after]
            return answer

        switch = SnmpSwitch("s1", "127.0.0.1", parse("{version: 2c, community: word}", "x"))
        switch._ask = ask  # type: ignore[method-assign]
        try:
            return switch.read()
        finally:
            switch.close()

    def test_a_column_ends_where_another_begins_or_the_agents_tables_end(self) -> None:
        assert self.read(None) == {PortState("s1", f"p{port}", True) for port in range(1, 49)}

    @pytest.mark.parametrize("empty", [1, 2, 10, 12])
    def test_an_answer_without_a_row_is_no_end_and_is_told_with_the_remedy(self, empty: int) -> None:
        """At the end of its tables an agent says so in each row (endOfMibView: RFC 3416, section 4.2.3)."""
        with pytest.raises(TreeSourceError, match=r"^tree source snmp:127\.0\.0\.1 \(s1\) answers without a row .*; "):
            self.read(empty)


class TestCredentials:
    """The file, and what is wrong with it."""

    def test_both_versions_are_read(self) -> None:
        one = parse("{version: 2c, community: word}", "x")
        assert isinstance(one, Community)
        assert one.community.get_secret_value() == "word"
        other = parse(USER, "x")
        assert isinstance(other, User)
        assert (other.auth, other.priv, other.priv_password.get_secret_value()) == ("sha", "aes", "Hidden-two")

    @pytest.mark.parametrize(
        ("text", "field"),
        [
            ("{version: 2c}", "community is missing"),
            ("{version: 1, community: Hidden-one}", "version can't be used"),
            ("{version: 2c, comunity: Hidden-one, community: x}", "comunity is unknown"),
            ("{version: 3, user: u, auth_password: short, priv_password: Hidden-two}", "auth_password can't be used"),
            (USER.replace("}", ", auth: md5}"), "auth can't be used"),
            ("Hidden-one", "holds no fields"),
            ("{Hidden-one", "is not YAML"),
        ],
    )
    def test_a_mistake_is_told_with_the_field_and_the_remedy_but_no_value(self, text: str, field: str) -> None:
        with pytest.raises(CredentialsError) as caught:
            parse(text, "snmp.yaml")
        assert f"credentials snmp.yaml: {field}" in str(caught.value)
        assert "; " in str(caught.value)
        assert "Hidden" not in str(caught.value)
        assert "short" not in str(caught.value)

    @pytest.mark.parametrize(
        "text",
        [
            "version: 3\nuser: baton\nauth_password: 2021-13-45\npriv_password: abcdefgh1",
            "version: !!int x",
            "version: 2c\ncommunity: c\n1: x",
            "version: 2c\ncommunity: c\nnull: x",
            "version: 2c\ncommunity: c\n2020-01-01: x",
            "{" * 1000,
        ],
    )
    def test_whatever_yaml_and_pydantic_make_of_a_file_it_is_told_as_a_mistake(self, text: str) -> None:
        with pytest.raises(CredentialsError, match=r"^credentials snmp.yaml: [^\n]*$"):
            parse(text, "snmp.yaml")

    def test_no_value_is_in_what_python_shows_of_them(self) -> None:
        assert "Hidden" not in repr(parse(USER, "x")) + str(parse(USER, "x"))

    def test_a_file_that_others_may_read_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "snmp.yaml"
        path.write_text(USER)
        path.chmod(0o640)
        with pytest.raises(CredentialsError, match="mode 0640 is open to others; chmod 600 it"):
            load(path)
        path.chmod(0o600)
        assert isinstance(load(path), User)
        with pytest.raises(CredentialsError, match="No such file or directory; name the credentials file"):
            load(tmp_path / "none")


class TestAddresses:
    """HOST, HOST:PORT, [IPV6]:PORT."""

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("10.0.0.1", ("10.0.0.1", 161)),
            ("switch.example.net:1161", ("switch.example.net", 1161)),
            ("[fe80::1]", ("fe80::1", 161)),
            ("[::1]:1161", ("::1", 1161)),
        ],
    )
    def test_an_address_is_parted_into_host_and_port_161_by_default(self, text: str, wanted: tuple[str, int]) -> None:
        assert split_address(text) == wanted

    @given(st.sampled_from(["", ":161", "a:0", "a:65536", "a:b", "::1", "[::1]x", "a b"]))
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="is not HOST"):
            split_address(text)
