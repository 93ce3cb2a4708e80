"""The fabrics, patterns and ideals of `baton bench fabrics`, and its verdict."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from bench.fabrics import clients, experiment, ideal
from bench.fabrics.patterns import PATTERNS, SHAPES, Traffic, racks
from cli.bench import fabrics as command
from cli.main import main
from controller.policies import POLICIES
from emulation.fabric.naming import EmulationError
from emulation.measuring.fidelity import Fidelity
from emulation.measuring.measure import Pings
from emulation.traffic.clients import Got, Growth, read_ping
from emulation.traffic.experiment import Flow, Outcome, PortOutcome
from topology.fabric import DirectedLink, Fabric
from topology.spanning_tree import compute

GIGABIT = 10**9
TRAFFIC = Traffic(GIGABIT)


def run_of(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field of a run
    """The record of a run that meets all goals."""
    good = {
        "round_trip_us": 0.0, "congestion_control": "cubic", "pattern": "one-receiver", "policy": "auto", "of_ideal": 0.97,
        "least_of_ideal": 0.95, "drop_share": 0.0, "pings": {"sent": 100, "lost": 0},
        "rtt_ms": {"p50": 0.1, "p99": 1.0, "max": 2.0},
    }  # fmt: skip
    return {**good, **changes}


def test_the_share_of_drops_is_of_data_alone() -> None:
    """A port that dropped ten of 1,000 data packets, and all of its control frames."""
    fabric = SHAPES["three-tier"](GIGABIT, None)
    (switch,) = fabric.neighbours("h6")
    ports = {DirectedLink(switch, "h6"): PortOutcome(sent=990, drops=10, control_sent=0, control_drops=500)}
    assert experiment.drop_share(fabric, Outcome(10**9, 0, (), ports, Pings(), Fidelity(1, 0), {})) == 0.01


class TestShapes:
    """Every shape has several tiers, mixed rates, and at least three racks of two hosts."""

    @pytest.mark.parametrize("shape", SHAPES)
    def test_rates_are_mixed_unless_given(self, shape: str) -> None:
        mixed, even = SHAPES[shape](GIGABIT, None), SHAPES[shape](GIGABIT, 10 * GIGABIT)
        assert {even.capacity_bps(link) for link in even.links} == {GIGABIT, 10 * GIGABIT}
        assert len({mixed.capacity_bps(link) for link in mixed.links}) >= 2

    @pytest.mark.parametrize("shape", ["three-tier", "leaf-spine"])
    def test_links_are_redundant(self, shape: str) -> None:
        assert compute(SHAPES[shape](GIGABIT, None)).blocked

    def test_the_three_tiers_of_the_fabric_that_nobody_tuned(self) -> None:
        fabric = SHAPES["three-tier"](100_000_000, None)
        assert fabric.switches == ("a1", "a2", "c1", "c2", "t1", "t2", "t3") and len(fabric.links) == 17
        assert fabric.capacity_bps(("c1", "a2")) == 200_000_000 and fabric.capacity_bps(("a1", "t3")) == 150_000_000
        assert racks(fabric) == [["h1", "h2"], ["h3", "h4"], ["h5", "h6"]]

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("pattern", PATTERNS)
    def test_flows_of_a_pattern_differ(self, shape: str, pattern: str) -> None:
        flows, ping = PATTERNS[pattern](SHAPES[shape](GIGABIT, None), TRAFFIC)
        assert len(set(flows)) == len(flows) >= 4 and ping[0] != ping[1]
        assert {flow.kind for flow in flows} == {"udp", "tcp"}


class TestIdeal:
    """Max-min shares in what applications receive."""

    def fabric(self) -> Fabric:
        return SHAPES["three-tier"](GIGABIT, None)

    def test_a_flow_alone_gets_its_link_less_the_headers(self) -> None:
        assert ideal.goodputs_bps(self.fabric(), [Flow("tcp", "h1", "h6")]) == [pytest.approx(GIGABIT * 1448 / 1514)]

    def test_a_datagram_in_fragments_has_a_header_for_each(self) -> None:
        assert ideal.wire_bytes(Flow("udp", "h1", "h6", size=60_000)) == (60_000, 60_008 + 41 * 34)
        assert ideal.wire_bytes(Flow("udp", "h1", "h6", size=1400)) == (1400, 1442)

    def test_one_receiver_is_shared_equally_but_for_headers(self) -> None:
        flows, _ = PATTERNS["one-receiver"](self.fabric(), TRAFFIC)
        shares = ideal.goodputs_bps(self.fabric(), flows)
        assert [flow.source for flow in flows] == ["h1", "h2", "h3", "h5"]
        assert sum(shares) == pytest.approx(GIGABIT * (1400 / 1442 + 3 * 1448 / 1514) / 4)

    def test_several_links_are_contended_and_who_wants_little_gets_it(self) -> None:
        flows, _ = PATTERNS["several-bottlenecks"](self.fabric(), TRAFFIC)
        shares = [share / 1e6 for share in ideal.goodputs_bps(self.fabric(), flows)]
        assert shares[-1] == pytest.approx(50)  # of 5 %
        third, rest = 1000 / 3, (1500 - 2 * 1000 / 3) / 2  # of h6's link; of the link into its rack
        assert shares[0] == pytest.approx(third * 1448 / 1514) and shares[2] == pytest.approx(third * 1400 / 1442)
        assert shares[1] == pytest.approx(rest * 1448 / 1514) == shares[3]


class TestPolicies:
    """The policies that exist, uncoordinated first."""

    def test_all_that_are_wanted_by_default_and_exist(self) -> None:
        found = experiment.policies()
        assert found[:4] == ("uncoordinated", "free", "rate_limit", "timeslice") and set(found[1:]) <= set(POLICIES)

    def test_uncoordinated_comes_first(self) -> None:
        assert experiment.policies(["timeslice", "uncoordinated"]) == ("uncoordinated", "timeslice")

    @pytest.mark.parametrize("name", ["weekly", "nothing"])
    def test_a_policy_that_cannot_be_compared_is_refused_by_name(self, name: str) -> None:
        with pytest.raises(ValueError, match=name):
            experiment.policies([name])


class TestVerdict:
    """Whether the goals of the default policy are met."""

    def test_met_goals_are_told_with_the_number_of_runs(self) -> None:
        runs = [run_of(), run_of(policy="free", of_ideal=0.1)]
        assert experiment.verdict(runs, 2.0) == "All goals are met in 1 runs of auto."

    def test_what_is_missed_is_named(self) -> None:
        said = experiment.verdict([run_of(), run_of(least_of_ideal=0.5, pings={"sent": 100, "lost": 3})], 2.0)
        assert "1 of 2 runs" in said and "50% of its share, 3 pings lost" in said

    def test_without_the_default_policy_there_is_none(self) -> None:
        assert "was not" in experiment.verdict([run_of(policy="timeslice")], 2.0)


class TestCommand:
    """`baton bench fabrics`."""

    def test_its_choices_are_those_of_the_experiment(self) -> None:
        assert tuple(SHAPES) == command.SHAPES and tuple(PATTERNS) == command.PATTERNS

    def test_a_round_trip_needs_virtual_time(self) -> None:
        done = CliRunner().invoke(main, ["bench", "fabrics", "--rtt", "1ms"])
        assert done.exit_code == 2 and "--rtt needs --virtual" in done.output

    @pytest.mark.parametrize(("option", "value"), [("--rtt", "soon"), ("--slice", "soon"), ("--above", "fast")])
    def test_a_value_that_is_none_is_named(self, option: str, value: str) -> None:
        done = CliRunner().invoke(main, ["bench", "fabrics", "--virtual", option, value])
        assert done.exit_code == 2 and option in done.output and value in done.output

    def test_a_round_trip_or_a_congestion_control_that_is_given_twice_is_measured_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Or two runs would have one name, and the record the confidence of only one of them."""
        seen: list[experiment.Options] = []

        def run(options: experiment.Options, *_: object) -> None:
            seen.append(options)
            raise EmulationError("enough")

        monkeypatch.setattr(command, "enter", lambda *_, **__: None)
        monkeypatch.setattr(experiment, "run", run)
        words = ("--rtt", "500us", "--rtt", "0.5ms", "--congestion-control", "bbr", "--congestion-control", "bbr")
        CliRunner().invoke(main, ["bench", "fabrics", "--virtual", *words])
        (options,) = seen
        assert (options.round_trips_ns, options.controls) == ((500_000,), ("bbr",))


class TestClients:
    """What ordinary programs got."""

    def test_a_file_s_growth_within_a_time_and_its_longest_stall(self) -> None:
        growth = Growth()
        for at_ns, size in ((10, 0), (20, 5), (30, 5), (40, 9), (90, 11)):
            growth.seen(at_ns, size)
        assert growth.got(0, 100) == Got(11, 50)
        assert growth.got(30, 80) == Got(4, 40)
        assert growth.got(41, 80) == Got(0, 39)
        assert Growth().got(0, 10) == Got(0, 10)

    def test_of_what_ping_prints_the_requests_of_the_measured_time_count(self) -> None:
        text = (
            "PING 10.0.0.6 (10.0.0.6) 56(84) bytes of data.\n"
            "[99.950000] no answer yet for icmp_seq=1\n"
            "[99.990000] 64 bytes from 10.0.0.6: icmp_seq=2 ttl=64 time=40 ms\n"
            "[100.000123] 64 bytes from 10.0.0.6: icmp_seq=3 ttl=64 time=0.123 ms\n"
            "[100.100000] no answer yet for icmp_seq=4\n"
            "[100.150000] no answer yet for icmp_seq=5\n"
            "[100.160000] 64 bytes from 10.0.0.6: icmp_seq=5 ttl=64 time=60 ms\n"
            "[100.160000] 64 bytes from 10.0.0.6: icmp_seq=5 ttl=64 time=60 ms (DUP!)\n"
            "[100.210000] 64 bytes from 10.0.0.6: icmp_seq=6 ttl=64 time=60 ms\n"
            "[100.200050] 64 bytes from 10.0.0.6: icmp_seq=7 ttl=64 time=0.05 ms\n"
            "\n--- 10.0.0.6 ping statistics ---\n7 packets transmitted, 5 received, 28% packet loss, time 303ms\n"
        )
        assert read_ping(text, 0.05, 100.0, 100.2) == {"sent": 4, "lost": 1, "times_ms": [0.123, 60.0, 60.0]}
        assert read_ping(text, 0.05, 0.0, 200.0) == {"sent": 7, "lost": 2, "times_ms": [40.0, 0.123, 60.0, 60.0, 0.05]}
        with pytest.raises(EmulationError, match="no summary"):
            read_ping("ping: connect: Network is unreachable", 0.05, 0.0, 1.0)

    def test_a_reply_that_comes_twice_counts_when_it_first_came(self) -> None:
        reply = "[{}] 64 bytes from 10.0.0.6: icmp_seq=1 ttl=64 time={} ms{}\n"
        text = reply.format(100.001, 1.0, "") + reply.format(100.04, 40.0, " (DUP!)")
        summary = "1 packets transmitted, 1 received, +1 duplicates, 0% packet loss, time 0ms\n"
        assert read_ping(text + summary, 0.05, 99.0, 101.0) == {"sent": 1, "lost": 0, "times_ms": [1.0]}

    def test_a_stall_beyond_two_rounds_is_named(self) -> None:
        flow = {"kind": "wget", "source": "h2", "longest_stall_ms": 17.0}
        runs = [{"policy": policy, "two_rounds_ms": 16.0, "flows": [flow]} for policy in ("uncoordinated", "timeslice")]
        assert clients.verdict(runs).endswith("(16 ms): wget from h2 17 ms under timeslice.")
        assert clients.verdict([{**runs[1], "two_rounds_ms": 18.0}]).startswith("No program stalled")

    def test_without_a_policy_that_gives_turns_nothing_is_said_of_stalls(self) -> None:
        flow = {"kind": "wget", "source": "h2", "longest_stall_ms": 1700.0}
        runs = [{"policy": policy, "two_rounds_ms": 16.0, "flows": [flow]} for policy in ("uncoordinated", "free")]
        assert clients.verdict(runs) == "Measured; stalls are judged under policies of Baton, of which none ran."
