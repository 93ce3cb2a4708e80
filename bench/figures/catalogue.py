"""The published figures that Baton reproduces: what each asks, and the command that measures it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from bench.karuna import FIGURES as KARUNA
from bench.xco import FIGURES as XCO


class Entry(NamedTuple):
    """A figure of the report."""

    name: str
    question: str
    source: str
    words: tuple[str, ...]
    """The command that measures it, after `baton`."""
    module: str
    """The module that measures and draws it; its code, and that of all that it uses, decides the figure."""
    seconds: int
    """About how long it takes on the wall, until it has been measured once."""

    @property
    def virtual(self) -> bool:
        """Whether it runs in virtual time, and so beside others. Otherwise it needs the machine for itself."""
        return "--virtual" in self.words

    @property
    def command(self) -> str:
        """As a user would type it."""
        return " ".join(("baton", *self.words))


SEED = ("--seed", "1")
XCO_SOURCE, KARUNA_SOURCE = "XCo, HPDC 2010", "Karuna, SIGCOMM 2016"
XCO_QUESTIONS: dict[str, tuple[str, str, int]] = {
    "incast": ("Does a client that asks N servers at once still get its blocks at the link's rate?", "2, 3, 13, 14", 400),
    "mix": ("What do five senders get of one receiver's link when K of them flood it?", "4, 15", 120),
    "uplink": ("What do 13 senders get of an uplink that carries ten of them?", "5, 16", 900),
    "short": ("How does a long flow fare among hundreds of short connections?", "7, 17", 500),
    "ping": ("How long does a small request take while the link is full?", "8, 18", 110),
    "migration": ("How long does a bulk transfer take beside one to four senders?", "19", 500),
    "fairness": ("Do UDP and TCP flows get equal shares of a link?", "20", 80),
    "conservation": ("How much of a link is used when three of five senders want only 5 % of it?", "21", 300),
    "responsiveness": ("How soon does a new set of senders have the link?", "22", 200),
}
"""By the name in `bench.xco`: the question, the figures' numbers, and about how many seconds it takes."""
KARUNA_QUESTIONS: dict[str, tuple[str, str, int]] = {
    "microbench": ("How long is the queue of two long flows under DCTCP, and under CUBIC?", "Mininet-HiFi, CoNEXT 2012", 200),
    "deadlines": ("Do flows with deadlines end just in time, and leave the rest of the link to others?", "section 3.1", 300),
    "sjf-edf": ("Whom does shortest-job-first hurt, and whom earliest-deadline-first?", "figures 1, 2", 300),
    "throughput": ("How do two flows with deadlines and two without share a link over time?", "figure 6", 200),
    "fct": ("How long do flows take under Karuna and under DCTCP?", "figure 7", 300),
    "termination": ("Does it pay to give up flows that cannot meet their deadline?", "figure 8", 300),
    "thresholds": ("What does a wrong threshold between queues cost, with ECN and without?", "figure 9", 400),
    "queues": ("How many queues are enough?", "figure 10", 300),
    "starvation": ("Does a starved flow get through?", "section 3", 400),
}
"""By the name in `bench.karuna`, the same."""
PUBLISHED_RATE = ("sjf-edf", "fct", "termination", "thresholds")
"""Those that are measured at the published 1 Gb/s."""


FASTER = {"1gbit": "1 Gb/s", "10gbit": "10 Gb/s"}
"""At which rates the queue of two long flows is measured, too."""


def _entries() -> tuple[Entry, ...]:
    demo = Entry(
        "demo",
        "What does coordination gain where five senders, K of them UDP, share one receiver's link?",
        f"{XCO_SOURCE}, figures 4 and 15",
        ("demo", "--virtual", "--rate", "1gbit", "--slice", "2ms"),
        "emulation.stack.demo",
        300,
    )
    xco = [
        Entry(
            f"xco-{name}",
            question,
            f"{XCO_SOURCE}, figure{'s' if ',' in numbers else ''} {numbers}",
            ("bench", "xco", name, "--virtual", "--quick", *SEED),
            XCO[name].module,
            seconds,
        )
        for name, (question, numbers, seconds) in XCO_QUESTIONS.items()
    ]
    karuna = [
        Entry(
            f"karuna-{name}",
            question,
            source if "," in source and "figures" not in source else f"{KARUNA_SOURCE}, {source}",
            ("bench", "karuna", name, *(("--rate", "1gbit") if name in PUBLISHED_RATE else ()), "--virtual", "--quick", *SEED),
            KARUNA[name].module,
            seconds,
        )
        for name, (question, source, seconds) in KARUNA_QUESTIONS.items()
    ]
    faster = [
        entry._replace(
            name=f"{entry.name}-{rate}",
            question=f"How long is the queue of two long flows at {speed}?",
            words=(*entry.words[:3], "--rate", rate, *entry.words[3:]),
        )
        for entry in karuna
        if entry.name == "karuna-microbench"
        for rate, speed in FASTER.items()
    ]
    fabrics = [
        Entry(
            f"fabrics-{shape}",
            f"Does each of several flows get its max-min share {where}, where rates are mixed and several links are contended?",
            "Baton's goals",
            ("bench", "fabrics", "--shape", shape, "--virtual", "--rtt", "500us", "--quick", *SEED),
            "bench.fabrics.experiment",
            900,
        )
        for shape, where in {"three-tier": "in three tiers", "leaf-spine": "in leaf and spine", "racks": "among racks"}.items()
    ]
    host = Entry(
        "host-control",
        "How soon does a flow stop and start after a command, and how many packets still leak?",
        "Fine-grained end-host traffic control, tables 4.1 to 5.1",
        ("bench", "host-control", "--quick", *SEED),
        "bench.host_control.experiment",
        150,
    )
    swarm = Entry(
        "xco-machines",
        "What does a tree of up to 4,800 machines lose, with and without coordination?",
        f"{XCO_SOURCE}, figure 27",
        ("bench", "swarm", "--figure27", *SEED),
        "bench.swarm.figure27",
        300,
    )
    return (demo, *xco, swarm, karuna[0], *faster, *karuna[1:], *fabrics, host)


ENTRIES = _entries()


def chosen(names: tuple[str, ...]) -> list[Entry]:
    """The entries of these names, in the catalogue's order; all if there are none. Raises KeyError: there is no such figure."""
    known = {entry.name: entry for entry in ENTRIES}
    for name in names:
        known[name]
    return [entry for entry in ENTRIES if not names or entry.name in names]
