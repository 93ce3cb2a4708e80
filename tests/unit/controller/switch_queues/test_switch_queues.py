"""What switch ports are to be: limits with a remedy, the same after JSON, and the same words for a hardware switch."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cli.main import main
from controller.config.schema import Config
from controller.switch_queues import port as port_queues
from controller.switch_queues.hardware import generic, sonic
from controller.switch_queues.model import (
    BY_PRIORITY,
    LOWEST,
    QUEUES,
    KeeperSettings,
    NamedPort,
    PortQueues,
    SwitchQueues,
    mapping,
    named_ports,
)

GIGABIT = 1_000_000_000
MAPS = st.dictionaries(st.integers(0, 63), st.integers(0, LOWEST)).map(lambda pairs: mapping(pairs.items()))
SETTINGS = st.builds(
    SwitchQueues,
    buffer_packets=st.integers(1, 10**6),
    share=st.none() | st.floats(0.25, 64),
    marking_threshold_bytes=st.none() | st.integers(1514, 2**31 - 1),
    per_queue=st.booleans(),
    dscp_to_queue=MAPS,
)


class TestTheModel:
    """What can't be is refused in one line with the field and the remedy."""

    def test_dscp_seven_is_served_first_and_unmarked_traffic_last(self) -> None:
        assert BY_PRIORITY[:8] == (7, 6, 5, 4, 3, 2, 1, 0)
        assert set(BY_PRIORITY[8:]) == {LOWEST}

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"buffer_packets": 0}, "buffer_packets: 0 "),
            ({"share": 0}, "share: 0 "),
            ({"share": float("nan")}, "share: nan "),
            ({"marking_threshold_bytes": 1513}, "marking_threshold_bytes: 1513 "),
            ({"marking_threshold_bytes": 2**31}, "marking_threshold_bytes: "),
            ({"dscp_to_queue": (0,) * 63}, "dscp_to_queue: write 64 queues"),
            ({"dscp_to_queue": (8,) * 64}, "dscp_to_queue: write 64 queues"),
        ],
    )
    def test_a_value_out_of_range_names_its_field_and_the_remedy(self, fields: dict[str, object], named: str) -> None:
        with pytest.raises(ValueError, match=named) as raised:
            SwitchQueues(**fields)  # type: ignore[arg-type]  # wrong on purpose
        assert "write" in str(raised.value) and "\n" not in str(raised.value)

    def test_a_rate_out_of_range_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"rate: 10 bit/s .*; write"):
            PortQueues(10)
        with pytest.raises(ValueError, match="names no port"):
            named_ports({})

    @given(SETTINGS, st.lists(st.tuples(st.text(min_size=1), st.integers(10**6, 10**11)), max_size=4))
    def test_settings_are_the_same_after_json(self, queues: SwitchQueues, ports: list[tuple[str, int]]) -> None:
        settings = KeeperSettings(ports=tuple(NamedPort(*port) for port in ports), queues=queues)
        assert KeeperSettings.from_json(settings.to_json()) == settings

    @pytest.mark.parametrize("text", ["{}", "[]", '{"ports": [], "queues": {"dscp_to_queue": 1}}', "no"])
    def test_settings_that_are_none_are_an_error(self, text: str) -> None:
        with pytest.raises(ValueError):
            KeeperSettings.from_json(text)

    def test_the_configuration_says_the_same(self) -> None:
        section = Config.model_validate(
            {"switch_queues": {"ports": {"s1-eth*": "1Gbit"}, "marking_threshold": "20KB", "marking": "queue"}}
        ).switch_queues
        assert section is not None
        assert section.settings().ports == (NamedPort("s1-eth*", GIGABIT),)
        assert section.queues() == SwitchQueues(marking_threshold_bytes=20_000, per_queue=True)
        none = Config.model_validate({"switch_queues": {"ports": {"a": "1Gbit"}, "marking_threshold": "none"}}).switch_queues
        assert none is not None and none.queues().marking_threshold_bytes is None

    def test_the_classifier_has_the_same_handles(self) -> None:
        header = (port_queues.SOURCES / "switch_queues.h").read_text()
        handles = {"ROOT_QDISC": port_queues.ROOT, "DATA_QDISC": port_queues.DATA, "CONTROL_FIFO": port_queues.CONTROL_FIFO}
        for name, handle in {**handles, "NETWORK_FIFO": port_queues.NETWORK_FIFO}.items():
            assert f"#define {name} 0x{handle:X}\n" in header
        assert f"#define DATA_QUEUES {QUEUES}\n" in header and f"#define BANDS {port_queues.BANDS}\n" in header
        assert f"(0x{port_queues.fifo(0):X} + ((queue) << 16))" in header


class TestSonic:
    """A fragment of config_db.json that does what the model says."""

    @given(SETTINGS)
    def test_every_dscp_leads_to_a_strict_queue_in_the_models_order(self, queues: SwitchQueues) -> None:
        tables = json.loads(sonic(["Ethernet0", "Ethernet4"], PortQueues(GIGABIT, queues)).text)
        for port in ("Ethernet0", "Ethernet4"):
            maps = tables["PORT_QOS_MAP"][port]
            led = []
            for dscp in range(64):
                tc = tables["DSCP_TO_TC_MAP"][maps["dscp_to_tc_map"]][str(dscp)]
                queue = tables["TC_TO_QUEUE_MAP"][maps["tc_to_queue_map"]][tc]
                entry = tables["QUEUE"][f"{port}|{queue}"]
                assert tables["SCHEDULER"][entry["scheduler"]] == {"type": "STRICT"}
                assert ("wred_profile" in entry) == (queues.marking_threshold_bytes is not None)
                led.append(LOWEST - int(queue))  # its queue 7 goes first
            assert tuple(led) == queues.dscp_to_queue

    def test_marking_is_a_step_for_every_colour(self) -> None:
        (profile,) = json.loads(sonic(["Ethernet0"], PortQueues(GIGABIT)).text)["WRED_PROFILE"].values()
        assert profile["ecn"] == "ecn_all"
        for colour in ("green", "yellow", "red"):
            assert profile[f"{colour}_min_threshold"] == profile[f"{colour}_max_threshold"] == "30000"
            assert profile[f"{colour}_drop_probability"] == "100"

    def test_what_it_can_not_express_is_noted(self) -> None:
        port = PortQueues(GIGABIT)
        notes = " ".join(sonic(["Ethernet0"], port).notes)
        assert "none of a port" in notes and "0x88B5" in notes and "may not be marked" in notes
        free = replace(port.queues, per_queue=True, dscp_to_queue=mapping([(6, 1)]))
        notes = " ".join(sonic(["Ethernet0"], PortQueues(GIGABIT, free)).notes)
        assert "none of a port" not in notes and "0x88B5" not in notes
        assert "marking" not in " ".join(sonic(["E"], PortQueues(GIGABIT, SwitchQueues(marking_threshold_bytes=None))).notes)


class TestGeneric:
    """Words of no vendor."""

    def test_it_says_all_that_the_model_does(self) -> None:
        text = generic(["1/1", "1/2"], PortQueues(GIGABIT)).text
        wanted = ("ports 1/1, 1/2", "1Gbit", "100 packets", "0x88B5", "ARP", "queue 0   DSCP 7", "DSCP 0, 8-63", "30000 bytes")
        for said in wanted:
            assert said in text
        assert text.index("0x88B5") < text.index("ARP") < text.index("queue 0") < text.index("queue 7")
        assert "all data queues of the port" in text

    def test_without_a_threshold_nothing_is_marked(self) -> None:
        assert "ECN off" in generic(["1"], PortQueues(GIGABIT, SwitchQueues(marking_threshold_bytes=None))).text


class TestTheCommand:
    """`baton switch-config`."""

    def run(self, *words: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["switch-config", *words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    def test_it_prints_json_for_sonic(self) -> None:
        result = CliRunner().invoke(main, ["switch-config", "--platform", "sonic", "--port", "Ethernet8"])
        assert result.exit_code == 0 and "Ethernet8" in json.loads(result.stdout)["PORT_QOS_MAP"]
        assert "note: " in result.stderr

    def test_options_change_what_it_prints(self) -> None:
        words = ("--threshold", "60KB", "--per-queue", "--buffer", "200", "--rate", "10Gbit")
        code, text = self.run("--platform", "generic", "--port", "1", *words)
        assert code == 0
        for said in ("60000 bytes wait in the packet's queue", "200 packets", "10Gbit"):
            assert said in text

    def test_what_is_wrong_is_one_line_with_the_remedy(self) -> None:
        wrong = (("--buffer", "0"), ("--threshold", "1"), ("--rate", "1kbit"), ("--threshold", "x"), ("--config", "/nowhere"))
        for words in wrong:
            code, text = self.run("--platform", "generic", "--port", "1", *words)
            assert code == 1 and text.startswith("Error: ") and text.count("\n") == 1, text
