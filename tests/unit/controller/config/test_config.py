"""The configuration of `baton up`: every mistake is found, with its line and a remedy, and units mean what
they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.config import reading, schema
from controller.config.coordinator import CoordinatorSection
from controller.config.reading import ConfigError
from controller.config.schema import Config
from controller.config.settings import CHANGEABLE, MODES, RANGES, CoordinatorSettings, OpenFlowSettings, TreeSource, Weight

WHOLE = """
run_dir: run
store: redis://:secret@db.example:6380/2
openflow:
  framework: os-ken
  listen: "[::1]:6654"
  poll: 500ms
coordinator:
  interface: c0
  attachment: s1:5
  netns: none
  key_file: key
  policy: hybrid
  slice: 10ms
  lead: 0.5ms
  headroom: 0.96
  minimum_active: 2ms
  heartbeat: 4ms
  fail_open: 40ms
  realtime_priority: none
  weights:
    h1: 2
    h1 -> h2: 0.5
  mode: always
agents:
  mice_bytes: 64KiB
  mice_rate: 2Mbit
sources: [openflow, "ovsdb:unix:/run/openvswitch/db.sock"]
"""
LEAST = """
coordinator:
  interface: c0
  attachment: s1:5
  key_file: /etc/baton/key
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a text to a file and gives its path."""

    def to_file(text: str, name: str = "baton.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return to_file


def complaints(path: Path) -> list[tuple[int | None, str, str]]:
    return [(problem.line, problem.field, problem.text) for problem in reading.check(path)]


class TestAGoodFile:
    """A good file is read with its units, and gives each process its settings."""

    def test_units_become_integers_in_base_units(self, write: Write) -> None:
        coordinator = reading.load(write(WHOLE)).coordinator_settings("unix:///s")
        assert coordinator is not None
        assert (coordinator.slice_ns, coordinator.lead_ns) == (10_000_000, 500_000)
        assert (coordinator.mice_bytes, coordinator.mice_rate_bps) == (65_536, 2_000_000)
        assert coordinator.store == "unix:///s"

    def test_a_field_that_says_none_has_no_value(self, write: Write) -> None:
        loaded = reading.load(write(WHOLE)).coordinator
        assert loaded is not None and loaded.realtime_priority is None and loaded.netns is None

    def test_file_names_are_taken_from_the_files_directory(self, write: Write) -> None:
        path = write(WHOLE)
        loaded = reading.load(path)
        assert loaded.run_dir == path.parent / "run"
        assert loaded.coordinator is not None and loaded.coordinator.key_file == path.parent / "key"

    def test_weights_and_sources_are_values(self, write: Write) -> None:
        loaded = reading.load(write(WHOLE))
        assert loaded.coordinator is not None
        assert loaded.coordinator.weights == (Weight("h1", "", 2.0), Weight("h1", "h2", 0.5))
        assert loaded.sources == (
            TreeSource("openflow", ""),
            TreeSource("ovsdb", "unix:/run/openvswitch/db.sock"),
        )

    def test_the_openflow_settings_survive_json(self, write: Write) -> None:
        told = reading.load(write(WHOLE)).openflow_settings(Path("/f.yaml"))
        assert (told.address, told.port, told.framework) == ("::1", 6654, "os-ken")
        assert OpenFlowSettings.from_json(told.to_json()) == told

    def test_the_coordinator_settings_survive_json(self, write: Write) -> None:
        told = reading.load(write(WHOLE)).coordinator_settings("unix:///s")
        assert told is not None
        assert CoordinatorSettings.from_json(told.to_json()) == told

    def test_defaults_are_the_same_in_the_file_and_in_the_settings(self, write: Write) -> None:
        """So that a coordinator started by hand works as one that `baton up` starts."""
        told = reading.load(write("store: unix:///s\n" + LEAST)).coordinator_settings("unix:///s")
        bare = CoordinatorSettings(interface="c0", attachment="s1:5", key_file=Path("/etc/baton/key"), store="unix:///s")
        assert told == bare
        assert Config.model_validate({}).openflow_settings(None) == OpenFlowSettings()

    def test_a_lease_is_short_only_where_a_standby_may_wait_for_its_end(self, write: Write) -> None:
        def lease_ns(text: str) -> int:
            settings = reading.load(write(text)).coordinator_settings("unix:///s")
            assert settings is not None
            return settings.lease_ns

        assert lease_ns(LEAST) == 1_000_000_000
        assert lease_ns("store: redis://10.0.0.1:6379\n" + LEAST) == 200_000_000
        assert lease_ns(LEAST.rstrip() + "\n  lease: 300ms\n") == 300_000_000

    def test_an_empty_file_runs_without_a_coordinator(self, write: Write) -> None:
        assert reading.load(write("")).coordinator_settings("unix:///s") is None

    def test_a_fabric_may_stand_in_the_file(self, write: Write) -> None:
        text = "fabric:\n  switches: [s1]\n  hosts: [h1]\n  links: [{a: h1, b: s1, rate: 1G}]\n"
        assert reading.check(write(text)) == []


class TestMistakes:
    """The error for each has its line, the field, and the remedy."""

    @pytest.mark.parametrize(
        ("line", "field", "says", "text"),
        [
            (2, "openflow.framwork", "did you mean framework?", "openflow:\n  framwork: ryu\n"),
            (1, "opnflow", "did you mean openflow?", "opnflow:\n  framework: ryu\n"),
            (2, "openflow.poll", "has no unit", "openflow:\n  poll: 5\n"),
            (2, "openflow.poll", "50ms or more", "openflow:\n  poll: 1ms\n"),
            (2, "openflow.listen", "an address and a port", "openflow:\n  listen: here\n"),
            (1, "store", "write the URL of a Redis", "store: mysql://x\n"),
            (1, "openflow", "write", "openflow: 7\n"),
            (1, "sources[1]", "is not a source", "sources: [openflow, snmp]\n"),
            (1, "", "is not YAML", "a: }\n"),
            (2, "run_dir", "given twice", "run_dir: /a\nrun_dir: /b\n"),
            (5, "coordinator.slice", "from 200us to 1s", LEAST.strip() + "\n  slice: 5s\n"),
            (5, "coordinator.slice", "is over 1s", LEAST.strip() + "\n  slice: 5s\n"),
            (5, "coordinator.lease", "is under 50ms", LEAST.strip() + "\n  lease: 1ms\n"),
            (5, "coordinator.contend_fraction", "is over 1;", LEAST.strip() + "\n  contend_fraction: 3\n"),
            (5, "coordinator.weights", "is not a weight", LEAST.strip() + "\n  weights: {h1: heavy}\n"),
            (5, "coordinator.weights", "from 0.01 to 100", LEAST.strip() + "\n  weights: {h1: 1e-300}\n"),
            (5, "coordinator.weights", "h1 -> h1: a host sends", LEAST.strip() + '\n  weights: {"h1 -> h1": 2}\n'),
            (5, "coordinator.weights", "h1->h2: is there", LEAST.strip() + '\n  weights: {"h1 -> h2": 2, "h1->h2": 3}\n'),
            (5, "coordinator.headroom", "0.98", LEAST.strip() + "\n  headroom: nan\n"),
            (5, "coordinator.fail_open", "write 36ms or more", LEAST.strip() + "\n  fail_open: 9ms\n"),
            (6, "coordinator.fail_open", "write 37500us or more", LEAST.strip() + "\n  heartbeat: 12.5ms\n  fail_open: 37ms\n"),
            (6, "coordinator.silence", "write 600600us or more", LEAST + "  silence: 600ms\nagents: {report: 300.3ms}\n"),
            (
                5,
                "coordinator.minimum_active",
                "longer than the slice",
                LEAST.strip() + "\n  minimum_active: 9ms\n",
            ),
            (
                4,
                "fabric.links[0].rate",
                "is missing",
                "fabric:\n  switches: [s1, s2]\n  links:\n  - {a: s1, b: s2}\n",
            ),
            (1, "fabric", "can't be read", "fabric: nowhere.yaml\n"),
            (1, "fabric", "is neither a text nor a mapping; name a fabric file", "fabric: [s1]\n"),
            (1, "coordinator", "'5' is not a mapping; ", "coordinator: 5\n"),
            (1, "", "is not a mapping; ", "- run_dir\n"),
            (1, "sources", "'openflow' is not a list; ", "sources: openflow\n"),
            (1, "replicas", "'two' is not a whole number; ", "replicas: two\n"),
            (2, "openflow.control_first", "'maybe' is neither true nor false; ", "openflow:\n  control_first: maybe\n"),
            (5, "coordinator.headroom", "'most' is not a number; ", LEAST.strip() + "\n  headroom: most\n"),
            (5, "coordinator.mode", "'never' is none of these; write on_demand or always", LEAST.strip() + "\n  mode: never\n"),
            (1, "run_dir", "is not a text; ", "run_dir: [r]\n"),
            (1, "run_dir", "is empty; name a directory", "run_dir: ''\n"),
            (2, "web.users", "is empty; name the file", "web:\n  users: ''\n"),
            (2, "openflow.tls.ca", "is empty; name the file", "openflow:\n  tls: {cert: c, key: k, ca: ''}\n"),
            (5, "coordinator.key_file", "is empty; name the master key", LEAST.replace("/etc/baton/key", "''")),
            (1, "users", "the store and the web server are both the user baton; ", "users: {store: baton, web: baton}\n"),
            (2, "priorities.period", "is over 1h; write a duration from 100ms to 1h", "priorities:\n  period: 2h\n"),
            (5, "coordinator.fail_open", "is over 10s; write three heartbeats or more, and at most 10s",
             LEAST.strip() + "\n  fail_open: 1min\n"),
            (2, "weekly.lease", "is over 1min; write a duration no shorter than the week, and at most 1min",
             "weekly:\n  lease: 2min\n"),
            (2, "agents.mice_rate", "is zero; write a rate above 0", "agents:\n  mice_rate: 0\n"),
            (1, "store", "names no port from 1 to 65535; ", "store: redis://host:99999/0\n"),
            (1, "store", "does not end with the number of a database; ", "store: redis://:secret@host:6379/baton\n"),
            (2, "users.web", "is empty; name a user", "users:\n  web: ''\n"),
            (1, "fabric", "has a null byte", 'fabric: "a\\0b"\n'),
            (1, "run_dir", "has a null byte", 'run_dir: "a\\0b"\n'),
            (4, "coordinator.key_file", "has a null byte", LEAST.strip().replace("/etc/baton/key", '"a\\0b"') + "\n"),
            (5, "coordinator.shared_key_file", "has a null byte", LEAST.strip() + '\n  shared_key_file: "a\\0b"\n'),
            (5, "coordinator.netns", "has a null byte", LEAST.strip() + '\n  netns: "a\\0b"\n'),
            (2, "openflow.tls.cert", "has a null byte", 'openflow:\n  tls: {cert: "a\\0b", key: k, ca: c}\n'),
            (2, "web.users", "has a null byte", 'web:\n  users: "a\\0b"\n'),
            (2, "coordinator.interface", "'eth0123456789abc' is no", LEAST.strip().replace("c0", "eth0123456789abc")),
            (2, "coordinator.interface", "'a b' is no interface's name", LEAST.strip().replace("c0", "a b")),
            (2, "switch_queues.ports", "'s1-ethernet-0012' is no", "switch_queues:\n  ports: {s1-ethernet-0012: 1G}\n"),
            (2, "web.names", "' ' is no host's name; list the host names", "web:\n  names: [baton.example, ' ']\n"),
            (2, "web.names", "'' is no host's name; list the host names", "web:\n  names: ['']\n"),
            (1, "sources", "has a null byte", 'sources: [openflow, "bridge:a\\0b"]\n'),
        ],
    )
    def test_is_told_with_line_field_and_remedy(self, write: Write, line: int, field: str, says: str, text: str) -> None:
        found = complaints(write(text))
        assert len(found) == 1, found
        assert found[0][:2] == (line, field)
        assert says in found[0][2]
        assert "; " in found[0][2], "every text ends with its remedy"

    @pytest.mark.parametrize("text", [" s1:c1", "s1: c1", "s1 :c1", "s1:c1\n"])
    def test_white_space_around_a_switch_or_a_port_is_told(self, write: Write, text: str) -> None:
        section = {"interface": "c0", "attachment": text, "key_file": "k"}
        ((_, field, told),) = complaints(write(json.dumps({"coordinator": section})))
        assert field == "coordinator.attachment" and 'say where the interface is plugged in, as "switch:port"' in told
        assert not complaints(write(json.dumps({"coordinator": section | {"attachment": "s1:Ethernet 1"}})))

    def test_replicas_of_a_private_store_are_told(self, write: Write) -> None:
        ((line, field, text),) = complaints(write("run_dir: /r\nreplicas: 1\n"))
        assert (line, field, text) == (2, "replicas", "the private store has none; write 0, or set store")
        assert not complaints(write("store: redis://10.0.0.9:6379/0\nreplicas: 1\n"))

    @pytest.mark.parametrize(("store", "most"), [("none", 90), ("redis://10.0.0.9:6379/0", 94)])
    def test_a_run_directory_whose_sockets_have_too_long_names_is_told_with_the_limit(
        self, write: Write, store: str, most: int
    ) -> None:
        longest = "/" + "x" * (most - 1)
        assert not complaints(write(f"store: {store}\nrun_dir: {longest}\n"))
        ((line, field, text),) = complaints(write(f"store: {store}\nrun_dir: {longest}x\n"))
        assert (line, field) == (2, "run_dir") and f"{most + 1} bytes" in text and f"at most {most} bytes" in text

    @pytest.mark.parametrize("url", ["redis://:s3cret/x@host:6379/0", "redis://u:s3cret/x@host:6379/0", "redis://:s3:cret@h:x/0"])
    def test_no_password_is_told(self, write: Write, url: str) -> None:
        ((_, field, text),) = complaints(write(f"store: {url}\n"))
        assert field == "store" and "s3" not in text

    def test_a_missing_field_is_told_at_its_section(self, write: Write) -> None:
        found = complaints(write("run_dir: /r\ncoordinator:\n  interface: c0\n  attachment: s1:1\n"))
        assert [(line, field) for line, field, _ in found] == [(2, "coordinator.key_file")]

    def test_mistakes_in_a_named_fabric_file_are_told_with_that_files_line(self, write: Write) -> None:
        write("switches: [s1]\nhosts: [h1]\n", "fabric.yaml")
        ((line, field, text),) = complaints(write("fabric: fabric.yaml\n"))
        assert (line, field) == (1, "fabric") and "fabric.yaml: line" in text

    def test_all_of_them_are_told_in_the_order_of_the_lines(self, write: Write) -> None:
        found = complaints(write("openflow:\n  pol: 1s\ncoordinator:\n  slice: 2\nagents:\n  report: soon\n"))
        lines = [line or 0 for line, _, _ in found]
        assert lines == sorted(lines) and len(found) == 6

    def test_loading_raises_one_line_that_names_the_file_and_counts_the_rest(self, write: Write) -> None:
        path = write("openflow:\n  pol: 1s\n  poll: 2\n")
        with pytest.raises(ConfigError) as caught:
            reading.load(path)
        text = str(caught.value)
        assert text.startswith(f"{path}: line 2: openflow.pol") and "1 more" in text and "\n" not in text

    def test_a_file_that_is_not_there_is_one_problem(self, tmp_path: Path) -> None:
        ((_, _, text),) = complaints(tmp_path / "none.yaml")
        assert "can't be read" in text

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.one_of(st.text(), st.binary().map(lambda b: b.decode("latin-1"))))
    def test_each_problem_of_any_text_has_its_line_and_a_remedy(self, write: Write, text: str) -> None:
        path = write("")
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        for line, _, says in complaints(path):
            assert line is None if says.startswith("can't be read: ") else line is not None and 1 <= line <= len(text) + 1
            assert "; " in says and "\n" not in says

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.sampled_from(["openflow", "coordinator", "agents", "sources", "fabric", "store", "run_dir"]),
        st.recursive(
            st.none() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        ),
    )
    def test_each_problem_of_any_section_has_its_field_and_a_remedy(self, write: Write, section: str, value: object) -> None:
        for line, field, says in complaints(write(json.dumps({section: value}))):
            assert line == 1 and (field.startswith(section) or says.startswith("is not YAML: "))
            assert "; " in says and "\n" not in says


class TestChangesWhileRunning:
    """A running coordinator takes over the policy's fields, and says which others need its restart."""

    BARE = CoordinatorSettings(interface="c0", attachment="s1:5", key_file=Path("/k"), store="unix:///s")

    def test_a_policy_document_changes_only_what_it_names(self) -> None:
        after = self.BARE.changed({"policy": "free", "slice_ns": 10_000_000})
        assert (after.policy, after.slice_ns, after.lead_ns) == ("free", 10_000_000, self.BARE.lead_ns)

    def test_what_the_settings_call_changeable_is_accepted_back(self) -> None:
        assert self.BARE.changed(self.BARE.changeable()) == self.BARE
        assert set(self.BARE.changeable()) == set(CHANGEABLE)

    @pytest.mark.parametrize("changes", [{"interface": "c1"}, {"slice_ns": "2ms"}, {"slice_ns": True}, {"weights": 3}])
    def test_a_field_or_type_that_cannot_change_is_refused_by_name(self, changes: dict[str, object]) -> None:
        with pytest.raises(ValueError, match=next(iter(changes))):
            self.BARE.changed(changes)

    @pytest.mark.parametrize(
        "changes",
        [
            {"slice_ns": 0}, {"slice_ns": 2**70}, {"headroom": float("nan")}, {"headroom": 1.5}, {"lead_ns": -1},
            {"grace_ns": 10**12}, {"quiet_ns": -1}, {"minimum_active_ns": 10**12}, {"minimum_active_ns": 3_000_000},
            {"release_fraction": 0.95}, {"release_fraction": 0.0}, {"mode": "sometimes"}, {"weights": [["h1", "", 0.0]]},
            {"weights": [["h1", "", float("nan")]]}, {"weights": [["h1", "", 10**400]]},
            {"weights": [["h1", "", 1e-300]]}, {"weights": [["h1", "", 101]]},
        ],
    )  # fmt: skip
    def test_a_value_that_the_configuration_would_refuse_is_refused_by_name(self, changes: dict[str, object]) -> None:
        with pytest.raises(ValueError, match=next(iter(changes))):
            self.BARE.changed(changes)

    def test_a_slice_that_is_shorter_than_another_field_allows_is_refused(self) -> None:
        with pytest.raises(ValueError, match="minimum_active_ns"):
            self.BARE.changed({"slice_ns": 500_000})
        assert self.BARE.changed({"slice_ns": 500_000, "minimum_active_ns": 0}).slice_ns == 500_000

    def test_the_ranges_are_those_of_the_configuration(self) -> None:
        for name, (least, most) in RANGES.items():
            found: dict[str, float] = {}
            for one in CoordinatorSection.model_fields[name].metadata:
                found |= {bound: getattr(one, bound) for bound in ("gt", "ge", "le") if hasattr(one, bound)}
            assert found.get("ge", found.get("gt")) == least, name
            assert name in ("quiet_ns", "minimum_active_ns") or found["le"] == most, name
        assert get_args(CoordinatorSection.model_fields["mode"].annotation) == MODES

    def test_fields_that_need_a_restart_are_named(self) -> None:
        other = self.BARE.changed({"policy": "free"})
        assert self.BARE.needs_restart(other) == []
        moved = CoordinatorSettings(interface="c1", attachment="s1:5", key_file=Path("/k"), store="unix:///s")
        assert self.BARE.needs_restart(moved) == ["interface"]

    @pytest.mark.parametrize("text", ["[]", '{"interfac": "c0"}', "{}", "nonsense"])
    def test_a_settings_file_of_another_shape_is_a_value_error(self, text: str) -> None:
        with pytest.raises(ValueError):
            CoordinatorSettings.from_json(text)


class TestTheManual:
    """docs/operating.md shows every field, with its default."""

    TEXT = (Path(__file__).parents[4] / "docs" / "operating.md").read_text()

    def test_its_example_is_a_good_file_with_every_field_at_its_default(self, write: Write) -> None:
        example = self.TEXT.partition("```yaml\n")[2].partition("```")[0]
        shown = reading.load(write(example))
        told = shown.coordinator_settings("unix:///s")
        assert shown.coordinator is not None and told is not None
        assert told == CoordinatorSettings(
            interface=told.interface, attachment=told.attachment, key_file=told.key_file, store="unix:///s",
            marking_bytes=30_000,
        )  # fmt: skip
        assert shown.openflow_settings(None) == OpenFlowSettings()
        names = ("openflow", "coordinator", "agents", "priorities", "pfc", "weekly")
        sections = (Config, *(schema.SECTIONS[name] for name in names))
        for name in (info.alias or name for section in sections for name, info in section.model_fields.items()):
            assert f"{name}: " in example or f"{name}:  " in example, name
