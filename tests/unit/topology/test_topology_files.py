"""Fabric files: reading them, and the checker's messages about mistakes."""

import json
import textwrap
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.topology.topology_strategies import PROPERTY, fabrics
from topology import files, shapes
from topology.fabric import Fabric
from topology.problems import FabricError

GOOD = """\
switches:
  - s1
  - {name: no, dpid: 0x1F, priority: 4096}
hosts:
  - h1
  - name: h2
    addresses: [10.0.0.2, 2001:db8::2]
    mac: 12:00:00:00:00:02
links:
  - {a: h1, b: s1, rate: 100Mbit}
  - {a: h2, b: s1, rate: 1000000000}
  - {a: s1, b: no, rate: 10G, reverse_rate: 1G, a_port: up, b_port: 1}
"""


def said(text: str) -> list[str]:
    return [str(problem) for problem in files.check(text)]


def test_a_file_is_read_as_it_is_written() -> None:
    fabric = files.loads(GOOD)
    assert fabric.switches == ("no", "s1")
    assert (fabric.switch("no").dpid, fabric.switch("no").priority) == (31, 4096)
    assert fabric.mac("h2") == "12:00:00:00:00:02"
    assert [str(address) for address in fabric.addresses("h2")] == ["10.0.0.2", "2001:db8::2"]
    assert (fabric.capacity_bps(("s1", "no")), fabric.capacity_bps(("no", "s1"))) == (10**10, 10**9)
    assert (fabric.port(("s1", "no")), fabric.port(("no", "s1"))) == ("up", "1")
    assert fabric.capacity_bps(("h1", "s1")) == 10**8


def test_the_example_in_the_docstring_is_a_fabric() -> None:
    example_text = textwrap.dedent((files.__doc__ or "").partition("::\n")[2].partition("What a fabric")[0])
    assert files.check(example_text) == []


def test_json_is_read_too() -> None:
    content = {"switches": ["s1"], "hosts": [{"name": "h1", "mac": None}], "links": [{"a": "h1", "b": "s1", "rate": 10**9}]}
    assert files.loads(json.dumps(content)).capacity_bps(("h1", "s1")) == 10**9


@PROPERTY
@given(fabrics())
def test_a_fabric_survives_its_file(fabric: Fabric) -> None:
    assert files.loads(files.dumps(fabric)) == fabric


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_every_shape_survives_its_file(shape: str) -> None:
    fabric = shapes.build(shape)
    assert files.loads(files.dumps(fabric)) == fabric


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("b: s1, rate: 100Mbit", "b: s9, rate: 100Mbit", "line 10: links[0].b: no node is named 's9'; "),
        (", rate: 100Mbit", "", "line 10: links[0].rate: is missing; write the capacity"),
        ("rate: 100Mbit", "rate: ~", "line 10: links[0].rate: is missing; write the capacity"),
        ("100Mbit", "100MB", "line 10: links[0].rate: rate '100MB' is not in bits; "),
        ("100Mbit", "[1, 2]", "line 10: links[0].rate: rate ['1', '2'] is not a number or a text; "),
        ("  - h1\n", "  - h1\n  - h3\n", "line 6: hosts[1]: 'h3' is not connected to 'h1'; add a link"),
        ("- h1", "- s1", "line 5: hosts[0].name: there is a 's1' already; "),
        ("2001:db8::2", "10.0.0.2", "line 7: hosts[1].addresses[1]: address 10.0.0.2 is listed twice; "),
        ("10.0.0.2,", "10.0.0,", "line 7: hosts[1].addresses[0]: '10.0.0' is not an IP address; "),
        ("10.0.0.2,", "224.0.0.1,", "line 7: hosts[1].addresses[0]: 224.0.0.1 can't be a VM's; "),
        ("12:00:00:00:00:02", "12:00", "line 8: hosts[1].mac: '12:00' is not a unicast MAC address; "),
        ("a: h2, b: s1", "a: h1, b: s1", "line 11: links[1].b: 'h1' and 's1' are joined already; "),
        ("reverse_rate", "revers_rate", "line 12: links[2].revers_rate: is unknown; write reverse_rate"),
        ("links:", "cables:", "line 9: cables: is unknown; write switches, hosts, links"),
        ("priority: 4096", "priority: high", "line 3: switches[1].priority: input should be a valid integer"),
        ("0x1F", "0x" + "F" * 5000, "line 3: switches[1].dpid: input should be a valid integer"),
        ("- s1", "- [s1]", "line 2: switches[0]: is not an entry; write {name: ..."),
        ("- s1", "- &s s1\n  - *s", "line 3: switches[1]: is an alias (*name); "),
        ("name: no,", "name: no, name: yes,", "line 3: switches[1].name: is given twice, first in line 3; "),
        ("- s1", "- !!str s1", "line 2: switches[0]: has a !tag; remove it"),
        ("links:", "links: [", "line 10: is not YAML: "),
    ],
)
def test_a_mistake_is_named_with_its_line_its_field_and_a_remedy(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    found = said(GOOD.replace(old, new, 1))
    assert any(text.startswith(problem) for text in found), found
    assert all("; " in text and "\n" not in text for text in found)


def test_a_port_with_a_longer_name_than_an_interface_has_is_told_unless_the_switch_answers_snmp() -> None:
    longest, longer = "p" * 15, "GigabitEthernet1/0/1"
    assert not said(GOOD.replace("a_port: up", f"a_port: {longest}"))
    (problem,) = said(GOOD.replace("a_port: up", f"a_port: {longer}"))
    assert problem.startswith(f"line 12: links[2].a_port: {longer!r} is longer than an interface's name; write at most 15")
    managed = "- {name: s1, source: snmp, address: 10.0.0.11, credentials: snmp.yaml}"
    assert not said(GOOD.replace("- s1", managed, 1).replace("a_port: up", f"a_port: {longer}"))
    assert files.check("links: [{a: s1, b: s2, rate: 1G, b_port: éééééééé}]", partial=True)  # 16 bytes


def test_every_mistake_is_listed_in_the_order_of_the_lines() -> None:
    text = GOOD.replace("100Mbit", "fast").replace("4096", "x").replace("10.0.0.2,", "10.0.0,").replace("b: no,", "b: yes,")
    assert [(problem.line, problem.field) for problem in files.check(text)] == [
        (3, "switches[1].priority"),
        (7, "hosts[1].addresses[0]"),
        (10, "links[0].rate"),
        (12, "links[2].b"),
    ]


def test_what_is_wrong_with_a_node_is_not_said_again_of_its_links() -> None:
    assert len(said(GOOD.replace("2001:db8::2", "x"))) == 1
    assert len(said(GOOD.replace("dpid: 0x1F", "dpid: 0"))) == 1


@pytest.mark.parametrize("text", ["", "~", "3", "[]", "switches: []", "{}"])
def test_a_file_without_nodes_is_no_fabric(text: str) -> None:
    assert len(said(text)) == 1


@PROPERTY
@given(st.text() | st.text("{}[]:-&*!%@`'\"|>?#, \n\tas1", max_size=60))
@example("[" * 100_000)
@example("- " * 3_000)
@example('"\\UFFFFFFFF"')
@example("\ud800")
@example("&a [*a]")
@example("links: [{rate: 1}]\nlinks: 3\n---\n")
@example("%YAML 3.0\n---\n")
def test_the_checker_raises_nothing_whatever_it_reads(text: str) -> None:
    for problem in files.check(text):
        assert problem.line is not None
        assert problem.line >= 1


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["s1", "1G"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "a", "b", "rate", "addresses", "mac", "dpid", "priority", "x"]), inner)
    ),
    max_leaves=12,
)


@PROPERTY
@given(st.dictionaries(st.sampled_from(["switches", "hosts", "links"]), JSON | st.lists(JSON, max_size=4)))
def test_the_checker_finds_the_fault_in_anything_that_is_no_fabric(content: object) -> None:
    text = json.dumps(content)
    if files.check(text) == []:
        assert len(files.loads(text).parts()) == 1


def test_a_bad_file_is_refused_with_all_its_problems(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(GOOD.replace("100Mbit", "fast").replace("12:00", "13:00"))
    with pytest.raises(FabricError, match=r"line 8: hosts\[1\].mac: .* \(and 1 more\)") as caught:
        files.load(path)
    assert len(caught.value.problems) == 2


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FabricError, match=r"/dev/zero: can't be read: it is longer than 64 MiB; "):
        files.load("/dev/zero")
    with pytest.raises(FabricError, match=r"nowhere\.yaml: can't be read: No such file or directory; "):
        files.load(tmp_path / "nowhere.yaml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FabricError, match="not UTF-8"):
        files.load(tmp_path / "binary")


class TestPartialFiles:
    """A file that lists no switches gives only what differs from what Baton learns."""

    PARTIAL = "links:\n  - {a: c1, b: a1, rate: 200Mbit}\n  - {a: t3, b: 't3:h6-p', rate: 100Mbit, reverse_rate: 50Mbit}\n"

    def test_links_alone_are_a_partial_file(self) -> None:
        fabric = files.loads(self.PARTIAL, partial=True)
        assert files.check(self.PARTIAL, partial=True) == [] and files.is_partial(self.PARTIAL)
        assert fabric.capacity_bps(("a1", "c1")) == 200_000_000
        assert fabric.capacity_bps(("t3:h6-p", "t3")) == 50_000_000

    def test_a_host_on_a_learned_switch_is_attached_to_it(self) -> None:
        text = "hosts:\n  - {name: h6, addresses: 10.9.0.6}\nlinks:\n  - {a: h6, b: t3, rate: 100Mbit}\n"
        assert files.loads(text, partial=True).attachment("h6") == "t3"

    def test_a_file_with_switches_is_checked_as_a_whole(self) -> None:
        assert not files.is_partial(GOOD)
        assert files.check(GOOD.replace("b: no,", "b: yes,"), partial=True) != []

    def test_a_whole_file_is_wanted_where_the_rest_is_not_learned(self) -> None:
        assert said(self.PARTIAL)[0] == "line 2: links[0].a: no node is named 'c1'; name a switch or a host, or add it"

    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            ("c1", "'c 1'", "line 2: links[0].a: 'c 1' is not a name; "),
            ("b: a1", "b: c1", "line 2: links[0].b: the link joins 'c1' to itself; "),
            ("200Mbit", "0", "line 2: links[0].rate: rate '0' is zero; "),
            ("links:", "hosts: [c1, a1]\nlinks:", "line 3: links[0].b: 'c1' and 'a1' are both hosts; "),
        ],
    )
    def test_its_mistakes_are_named(self, old: str, new: str, problem: str) -> None:
        found = [str(one) for one in files.check(self.PARTIAL.replace(old, new, 1), partial=True)]
        assert [text.startswith(problem) for text in found] == [True], found
