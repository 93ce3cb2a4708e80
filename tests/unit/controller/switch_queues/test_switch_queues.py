"""What switch ports are to be: limits with a remedy, the same after JSON, and the same words for a hardware switch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cli.main import main
from controller.config.reading import check
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
SHARES = st.lists(st.floats(2**-7, 2**7), min_size=QUEUES, max_size=QUEUES).map(tuple)
RESERVED = st.lists(st.integers(0, 10), min_size=QUEUES, max_size=QUEUES).map(tuple)
NONE = (0,) * QUEUES
SETTINGS = st.builds(
    SwitchQueues,
    buffer_packets=st.integers(8 * 10, 10**6),
    share=st.none() | SHARES,
    reserved=RESERVED,
    marking_threshold_bytes=st.none() | st.integers(1514, 2**31 - 1),
    per_queue=st.booleans(),
    dscp_to_queue=MAPS,
)
DIVISIONS = st.builds(SwitchQueues, buffer_packets=st.integers(80, 120), share=st.none() | SHARES, reserved=RESERVED)
STEPS = st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, LOWEST), st.integers(1, 40)), max_size=40)
"""Bursts that arrive for a queue (+), or leave it."""


def after(queues: SwitchQueues, steps: list[tuple[str, int, int]]) -> list[int]:
    """The queues' lengths after some steps."""
    lengths = [0] * QUEUES
    for way, queue, packets in steps:
        for _ in range(packets):
            if way == "-":
                lengths[queue] = max(0, lengths[queue] - 1)
            else:
                lengths[queue] += queues.admits(queue, lengths)
    return lengths


class TestTheModel:
    """What can't be is refused in one line with the field and the remedy."""

    def test_dscp_seven_is_served_first_and_unmarked_traffic_last(self) -> None:
        assert BY_PRIORITY[:8] == (7, 6, 5, 4, 3, 2, 1, 0)
        assert set(BY_PRIORITY[8:]) == {LOWEST}

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"buffer_packets": 0}, "buffer_packets: 0 "),
            ({"share": (8.0,) * 7 + (0.0,)}, "share: 0 "),
            ({"share": (float("nan"),) * 8}, "share: nan "),
            ({"share": (129.0,) * 8}, "share: 129 "),
            ({"share": (8.0,)}, "share: 1 values"),
            ({"reserved": (8,)}, "reserved: 1 values"),
            ({"reserved": (-1, *NONE[1:])}, "reserved: -1, 0"),
            ({"reserved": (90, 11, *NONE[2:])}, "reserved: 90, 11"),
            ({"buffer_packets": 7}, "reserved: 8, 0"),
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

    def test_the_configuration_divides_the_buffer_by_one_value_or_by_a_list_whose_last_value_counts_for_the_rest(self) -> None:
        def queues(**fields: object) -> SwitchQueues:
            section = Config.model_validate({"switch_queues": {"ports": {"a": "1Gbit"}, **fields}}).switch_queues
            assert section is not None
            return section.queues()

        assert queues() == SwitchQueues()
        assert queues(share=8, reserved=0) == SwitchQueues().alike()
        assert queues(share=[8, 4, "0.5"], reserved=[8, 2, 0]).share == (8, 4, *(0.5,) * 6)
        assert queues(share=[8, 4, "0.5"], reserved=[8, 2, 0]).reserved == (8, 2, 0, 0, 0, 0, 0, 0)
        assert queues(share="none").share is None

    @pytest.mark.parametrize(
        ("field", "named"),
        [
            ("share: [8, 0.001]", "switch_queues.share: "),
            ("share: [8, 200]", "switch_queues.share: "),
            ("share: []", "switch_queues.share: "),
            ("share: [1, 1, 1, 1, 1, 1, 1, 1, 1]", "switch_queues.share: "),
            ("share: much", "switch_queues.share: "),
            ("reserved: -1", "switch_queues.reserved: "),
            ("reserved: none", "switch_queues.reserved: "),
            ("reserved: 13", "reserved: 13, 13"),
            ("buffer_packets: 4", "reserved: 8, 0"),
        ],
    )
    def test_a_division_that_cannot_be_is_one_line_with_field_and_remedy(
        self, tmp_path: Path, field: str, named: str
    ) -> None:
        file = tmp_path / "baton.yaml"
        file.write_text(f"switch_queues:\n  ports: {{s1-eth1: 1Gbit}}\n  {field}\n")
        said = [str(problem) for problem in check(file) if "switch_queues" in str(problem)]
        assert len(said) == 1 and named in said[0] and "; write " in said[0] and "\n" not in said[0]

    def test_the_classifier_has_the_same_handles(self) -> None:
        header = (port_queues.SOURCES / "switch_queues.h").read_text()
        handles = {"ROOT_QDISC": port_queues.ROOT, "DATA_QDISC": port_queues.DATA, "CONTROL_FIFO": port_queues.CONTROL_FIFO}
        for name, handle in {**handles, "NETWORK_FIFO": port_queues.NETWORK_FIFO}.items():
            assert f"#define {name} 0x{handle:X}\n" in header
        assert f"#define DATA_QUEUES {QUEUES}\n" in header and f"#define BANDS {port_queues.BANDS}\n" in header
        assert f"(0x{port_queues.fifo(0):X} + ((queue) << 16))" in header


class TestTheBuffer:
    """How the queues of a port divide it."""

    @given(DIVISIONS, STEPS)
    def test_no_arrivals_fill_more_than_there_is(self, queues: SwitchQueues, steps: list[tuple[str, int, int]]) -> None:
        assert sum(after(queues, steps)) <= queues.buffer_packets

    @given(DIVISIONS, STEPS)
    def test_every_queue_always_has_what_is_reserved_for_it(
        self, queues: SwitchQueues, steps: list[tuple[str, int, int]]
    ) -> None:
        lengths = after(queues, steps)
        for queue, reserved in enumerate(queues.reserved):
            held = list(lengths)
            for _ in range(reserved - held[queue]):
                assert queues.admits(queue, held)
                held[queue] += 1
            assert sum(held) <= queues.buffer_packets

    @given(DIVISIONS, STEPS, st.integers(0, LOWEST), st.floats(1, 16))
    def test_a_larger_share_never_holds_less(
        self, queues: SwitchQueues, steps: list[tuple[str, int, int]], queue: int, factor: float
    ) -> None:
        lengths = after(queues, steps)
        if queues.share is not None and queues.admits(queue, lengths):
            larger = [min(128.0, share * factor) for share in queues.share]
            assert replace(queues, share=tuple(larger)).admits(queue, lengths)

    @pytest.mark.parametrize(("backlogged", "free"), [(1, 61), (2, 46), (6, 22)])
    def test_what_waits_below_leaves_the_first_bytes_of_flows_two_first_windows(self, backlogged: int, free: int) -> None:
        low = [("+", LOWEST - queue, 1) for _ in range(100) for queue in range(backlogged)]
        lengths = after(SwitchQueues(), low)
        assert 100 - 8 - sum(lengths) >= free
        assert after(SwitchQueues(), [*low, ("+", 1, 20)])[1] == 20
        before = after(SwitchQueues().alike(), low)
        assert 100 - sum(before) <= 100 / (1 + 8 * backlogged) + 1, "the rule with one share leaves as little as it did"

    def test_a_burst_of_handshakes_finds_room_behind_any_backlog_of_others(self) -> None:
        full = [("+", queue, 100) for queue in (7, 2, 1, 6, 3, 4, 5)]
        assert after(SwitchQueues(), [*full, ("+", 0, 8)])[0] == 8
        assert after(SwitchQueues().alike(), [*full, ("+", 0, 8)])[0] < 8

    def test_where_all_are_alike_one_queue_alone_has_most_of_it(self) -> None:
        assert after(SwitchQueues().alike(), [("+", LOWEST, 200)])[LOWEST] == 89


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

    def test_every_queue_has_its_reserve_and_its_share_as_a_power_of_two(self) -> None:
        wanted = SwitchQueues(share=(16.0, 8.0, 4.0, 3.0, 1.0, 0.5, 0.25, 0.25), reserved=(8, 2, 0, 0, 0, 0, 0, 1))
        found = sonic(["Ethernet0", "Ethernet4"], PortQueues(GIGABIT, wanted))
        tables = json.loads(found.text)
        for port in ("Ethernet0", "Ethernet4"):
            profiles = [tables["BUFFER_PROFILE"][tables["BUFFER_QUEUE"][f"{port}|{7 - at}"]["profile"]] for at in range(QUEUES)]
            assert [profile["dynamic_th"] for profile in profiles] == ["4", "3", "2", "2", "0", "-1", "-2", "-2"]
            assert [int(profile["size"]) for profile in profiles] == [1514 * packets for packets in wanted.reserved]
        assert "a share of 3 is 4 here" in " ".join(found.notes)
        assert "powers of two" not in " ".join(sonic(["Ethernet0"], PortQueues(GIGABIT)).notes)
        whole = json.loads(sonic(["Ethernet0"], PortQueues(GIGABIT, replace(wanted, share=None))).text)
        assert {profile["static_th"] for profile in whole["BUFFER_PROFILE"].values()} == {str(100 * 1514)}

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
        assert text.index("0x88B5") < text.index("ARP") < text.index("queue 0   DSCP") < text.index("queue 7   DSCP")
        divided = ("queue 0: 8 packets of its own, then 8 times", "queue 1: 8 times", "queue 2-7: 0.5 times what is free")
        assert all(said in text for said in divided)
        whole = SwitchQueues(share=None, reserved=NONE)
        assert "queue 0-7: all that is free" in generic(["1"], PortQueues(GIGABIT, whole)).text
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
            assert code and text.splitlines()[-1].startswith("Error: ") and "; " in text, text
            assert words[0].removeprefix("--") in text or words[0] == "--config"

    @pytest.mark.parametrize(("option", "shown"), [("--buffer", "0"), ("--threshold", "0"), ("--rate", "rate '0'")])
    def test_a_wrong_value_is_told_by_its_option(self, option: str, shown: str) -> None:
        code, text = self.run("--platform", "generic", "--port", "1", option, "0")
        assert code == 2 and f"Invalid value for {option}: {shown}" in text

    @pytest.mark.parametrize("name", ["", "p\nq", "\x1b[2J"])
    def test_a_name_that_no_port_has_is_refused(self, name: str) -> None:
        code, text = self.run("--platform", "sonic", "--port", name)
        assert code == 2 and "--port" in text

    def test_a_ports_name_is_one_word_for_the_shell(self) -> None:
        code, text = self.run("--platform", "openvswitch", "--port", "s1;reboot")
        assert code == 0 and "set Port 's1;reboot' qos=@qos" in text
