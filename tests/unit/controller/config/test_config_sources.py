"""Sources of the tree at the switches of a fabric file, and certificates, in the configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.config import reading
from controller.config.file import reads_tree, uses_openflow
from controller.config.settings import OpenFlowSettings, TlsFiles, TreeSource
from topology import files
from topology.sources import SwitchSource

FABRIC = """
switches:
  - {name: s1, source: snmp, address: 10.0.0.11, credentials: secrets/snmp.yaml}
  - {name: s2, source: ovsdb, address: "unix:/db"}
  - {name: s3, source: ovsdb, address: "unix:/db"}
  - {name: s4, source: bridge, address: ns/br0}
  - {name: s5, source: openflow}
  - s6
links:
  - {a: s1, b: s2, rate: 1G}
  - {a: s2, b: s3, rate: 1G}
  - {a: s3, b: s4, rate: 1G}
  - {a: s4, b: s5, rate: 1G}
  - {a: s5, b: s6, rate: 1G}
"""


def written(directory: Path, text: str, fabric: str = FABRIC) -> Path:
    (directory / "fabrics").mkdir()
    (directory / "fabrics" / "f.yaml").write_text(fabric)
    path = directory / "baton.yaml"
    path.write_text(text)
    return path


def test_a_fabric_files_sources_are_all_that_is_read_each_once_with_files_of_its_directory(tmp_path: Path) -> None:
    loaded = reading.load(written(tmp_path, "fabric: fabrics/f.yaml\n"))
    assert loaded.sources == (
        TreeSource("snmp", "10.0.0.11", "s1", str(tmp_path / "fabrics" / "secrets" / "snmp.yaml")),
        TreeSource("ovsdb", "unix:/db"),
        TreeSource("bridge", "ns/br0", "s4"),
        TreeSource("openflow", ""),
    )
    assert uses_openflow(loaded) and reads_tree(loaded)
    settings = loaded.openflow_settings(tmp_path / "fabrics" / "f.yaml")
    assert OpenFlowSettings.from_json(settings.to_json()) == settings


def test_what_the_configuration_lists_is_read_besides(tmp_path: Path) -> None:
    fabric = "switches: [{name: s1, source: snmp, address: h, credentials: c}]"
    loaded = reading.load(written(tmp_path, 'fabric: fabrics/f.yaml\nsources: ["bridge:br9"]\n', fabric))
    assert [str(source) for source in loaded.sources] == ["bridge:br9", "snmp:h"]
    assert not uses_openflow(loaded)


def test_a_fabric_that_is_written_out_has_sources_too_and_one_without_changes_nothing(tmp_path: Path) -> None:
    fabric = "{switches: [{name: s1, source: bridge, address: br0}]}"
    assert reading.load(written(tmp_path, f"fabric: {fabric}\n")).sources == (TreeSource("bridge", "br0", "s1"),)
    (tmp_path / "baton.yaml").write_text("fabric: {switches: [s1]}\n")
    assert reading.load(tmp_path / "baton.yaml").sources == (TreeSource("openflow", ""),)


def test_a_source_is_no_part_of_the_fabric_itself() -> None:
    assert "snmp" not in json.dumps(files.loads(FABRIC).to_dict())
    assert files.switch_sources(FABRIC)[0] == SwitchSource("s1", "snmp", "10.0.0.11", "secrets/snmp.yaml")


@pytest.mark.parametrize(
    ("entry", "field", "says"),
    [
        ("source: snmpp, address: a", "source", "is not a source of the tree; write openflow, ovsdb, bridge, snmp"),
        ("source: snmp, credentials: c", "address", "is missing; write the SNMP agent's"),
        ("source: snmp, address: a", "credentials", "is missing; name a file, mode 0600"),
        ('source: snmp, address: "a:b:c", credentials: c', "address", "'a:b:c' is not of its form; write the SNMP agent's"),
        ('source: snmp, address: "a:0", credentials: c', "address", "'a:0' is not of its form; write the SNMP agent's"),
        ("source: ovsdb, address: /run/db.sock", "address", "is not of its form; write the OVSDB server's, such as unix:"),
        ("source: bridge, address: a/b/c", "address", "is not of its form; write NAME or NAMESPACE/NAME"),
        ("source: bridge, address: a/", "address", "is not of its form; write NAME or NAMESPACE/NAME"),
        ("source: bridge, address: a, credentials: c", "credentials", "has no meaning with source: bridge; remove it"),
        ("source: openflow, address: a", "address", "has no meaning with source: openflow; remove it"),
        ("address: a", "address", "needs a source; "),
        ('source: snmp, address: a, credentials: "a\\0b"', "credentials", "has a null byte; remove it"),
        ('source: ovsdb, address: "a\\0b"', "address", "has a null byte; remove it"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_field(entry: str, field: str, says: str) -> None:
    (problem,) = files.check(f"switches:\n  - {{name: s1, {entry}}}\n")
    assert (problem.line, problem.field) == (2, f"switches[0].{field}")
    assert says in problem.text


@pytest.mark.parametrize("entry", ["ovsdb:db.sock", "bridge:a/b/c", "bridge:a b", "openflow:x", "ovsdb"])
def test_an_entry_of_the_configuration_that_no_source_has_is_a_mistake(tmp_path: Path, entry: str) -> None:
    path = tmp_path / "baton.yaml"
    path.write_text(f'sources: ["{entry}"]\n')
    ((field, text),) = [(problem.field, problem.text) for problem in reading.check(path)]
    assert field == "sources[0]" and "is not a source of the tree; list openflow, ovsdb:ADDRESS" in text


class TestTls:
    """openflow.tls."""

    def test_its_files_are_taken_from_the_configurations_directory(self, tmp_path: Path) -> None:
        (tmp_path / "b.yaml").write_text("openflow:\n  tls: {cert: c.pem, key: /k.pem, ca: ca/ca.pem}\n")
        settings = reading.load(tmp_path / "b.yaml").openflow_settings(None)
        assert settings.tls == TlsFiles(str(tmp_path / "c.pem"), "/k.pem", str(tmp_path / "ca" / "ca.pem"))
        assert OpenFlowSettings.from_json(settings.to_json()) == settings

    @pytest.mark.parametrize("listen", ["0.0.0.0:6653", "10.0.0.1:6653", '"[::]:6653"', "controller.example:6653"])
    def test_where_others_can_reach_it_it_is_required(self, tmp_path: Path, listen: str) -> None:
        (tmp_path / "b.yaml").write_text(f"openflow:\n  listen: {listen}\n")
        (problem,) = reading.check(tmp_path / "b.yaml")
        assert problem.field == "openflow"
        assert "can be reached from elsewhere; write cert, key and ca under tls, or 127.0.0.1" in problem.text
        (tmp_path / "b.yaml").write_text(f"openflow:\n  listen: {listen}\n  tls: {{cert: c, key: k, ca: a}}\n")
        assert not reading.check(tmp_path / "b.yaml")

    @pytest.mark.parametrize(
        ("text", "field", "says"),
        [
            ("{cert: c, key: k}", "openflow.tls.ca", "is missing; name the file with the authority"),
            ("{cert: c, key: k, ca: a, crt: x}", "openflow.tls.crt", "did you mean cert?"),
            ("yes", "openflow.tls", "write cert, key and ca"),
        ],
    )
    def test_a_mistake_is_told_with_its_field(self, tmp_path: Path, text: str, field: str, says: str) -> None:
        (tmp_path / "b.yaml").write_text(f"openflow:\n  tls: {text}\n")
        (problem,) = reading.check(tmp_path / "b.yaml")
        assert problem.field in (field, "openflow.tls")
        assert says in problem.text
