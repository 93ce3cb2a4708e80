"""Writes the configuration of the queues for a hardware switch: for SONiC, or in words for any vendor's. Pure.

SONiC's tables (DSCP_TO_TC_MAP, TC_TO_QUEUE_MAP, SCHEDULER, WRED_PROFILE, PORT_QOS_MAP, QUEUE, BUFFER_PROFILE, BUFFER_QUEUE) are
those of its Configuration.md; its queue 7 is served first, as on most switches, and a share is a power of two (dynamic_th). The
notes say what a platform can't express.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from math import log2
from typing import Any, NamedTuple

from controller.switch_queues.control_room import CONTROL_PRIORITY, CONTROL_QUEUE
from controller.switch_queues.model import BAND_PACKETS, LOWEST, PortQueues, SwitchQueues
from protocol.units import FRAME_BYTES
from topology.units import format_rate

NAME = "BATON"
SCHEDULER = "baton_strict"
POOL = "egress_lossy_pool"
COLOURS = ("green", "yellow", "red")
TAGGED = (
    "control: have Baton's frames tagged, by `control_priority_tag: 7` in the section coordinator and `baton agent "
    "--priority-tag 7`; ports must take frames of VLAN 0, trust their priority, and serve 7 first"
)


class SwitchText(NamedTuple):
    """The configuration for the switch, and notes for the operator."""

    text: str
    notes: tuple[str, ...]


def sonic(ports: Sequence[str], port: PortQueues) -> SwitchText:
    """A fragment of config_db.json for some ports (such as Ethernet0), which `config load` merges."""
    queues = port.queues
    threshold = queues.marking_threshold_bytes
    used = {str(LOWEST - queue) for queue in queues.used}
    entry = {"scheduler": SCHEDULER, **({} if threshold is None else {"wred_profile": NAME})}
    tables: dict[str, Any] = {
        "DSCP_TO_TC_MAP": {NAME: {str(dscp): str(LOWEST - queue) for dscp, queue in enumerate(queues.dscp_to_queue)}},
        "DOT1P_TO_TC_MAP": {NAME: {str(tag): str(LOWEST if tag == CONTROL_PRIORITY else 0) for tag in range(8)}},
        "TC_TO_QUEUE_MAP": {NAME: {str(queue): str(queue) for queue in range(LOWEST + 1)}},
        "SCHEDULER": {SCHEDULER: {"type": "STRICT"}},
        "PORT_QOS_MAP": {
            name: {"dscp_to_tc_map": NAME, "dot1p_to_tc_map": NAME, "tc_to_queue_map": NAME} for name in ports
        },
        "QUEUE": {f"{name}|{queue}": entry for name in ports for queue in sorted(used, reverse=True)},
        "BUFFER_PROFILE": {_profile(queue): _division(queues, queue) for queue in queues.used},
        "BUFFER_QUEUE": {f"{name}|{LOWEST - queue}": {"profile": _profile(queue)} for name in ports for queue in queues.used},
    }
    if threshold is not None:
        tables["WRED_PROFILE"] = {NAME: _wred(threshold)}
    return SwitchText(json.dumps(tables, indent=4), tuple(_sonic_notes(port)))


def _profile(queue: int) -> str:
    return f"baton_queue_{LOWEST - queue}"


def _division(queues: SwitchQueues, queue: int) -> dict[str, str]:
    """What a queue has of the buffer: bytes of its own, and its share of what is free as a power of two."""
    profile = {"pool": POOL, "size": str(queues.reserved[queue] * FRAME_BYTES)}
    if queues.share is None:
        return {**profile, "static_th": str(queues.buffer_packets * FRAME_BYTES)}
    return {**profile, "dynamic_th": str(round(log2(queues.share[queue])))}


def _wred(threshold_bytes: int) -> dict[str, str]:
    """A step at the threshold for every colour: DCTCP marks every packet above it and none below."""
    profile = {"ecn": "ecn_all"}
    for colour in COLOURS:
        profile[f"wred_{colour}_enable"] = "true"
        profile[f"{colour}_min_threshold"] = profile[f"{colour}_max_threshold"] = str(threshold_bytes)
        profile[f"{colour}_drop_probability"] = "100"
    return profile


def _sonic_notes(port: PortQueues) -> list[str]:
    queues = port.queues
    notes = []
    if queues.marking_threshold_bytes is not None:
        if not queues.per_queue:
            notes.append(
                "marking: config_db has thresholds of queues, none of a port; each queue here has the port's. "
                "Where the ASIC's own configuration has a port (service pool) threshold, set it there"
            )
        notes.append(
            "marking: most ASICs drop packets above the threshold that may not be marked; "
            "have every host use ECN (net.ipv4.tcp_ecn=1)"
        )
    if queues.used[0] == 0:
        notes.append(
            "control: all queues up to the first carry data, none is left above them; Baton's frames (EtherType 0x88B5), "
            "ARP and LLDP take the traffic class of their port or VLAN priority: lead them to 7, or lead no DSCP to queue 0"
        )
    notes.append(TAGGED)
    buffer_bytes = queues.buffer_packets * FRAME_BYTES
    notes.append(
        f"buffer: {queues.buffer_packets} packets ({buffer_bytes} bytes) a port; here all ports share the pool {POOL}, whose "
        "name and size are the platform's: put its name in, if it has another"
    )
    if inexact := sorted({share for share in queues.share or () if not log2(share).is_integer()}):
        shown = ", ".join(f"{share:g} is {2.0 ** round(log2(share)):g} here" for share in inexact)
        notes.append(f"buffer: dynamic_th knows powers of two only: a share of {shown}")
    notes.append(f"rate: {format_rate(port.rate_bps)} is the link's own; nothing shapes it")
    return notes


def generic(ports: Sequence[str], port: PortQueues) -> SwitchText:
    """The same in words, for the switch of any vendor."""
    queues, threshold = port.queues, port.queues.marking_threshold_bytes
    by_queue: dict[int, list[int]] = {}
    for dscp, queue in enumerate(queues.dscp_to_queue):
        by_queue.setdefault(queue, []).append(dscp)
    lines = [
        f"ports {', '.join(ports)}",
        f"  rate {format_rate(port.rate_bps)}",
        f"  buffer {queues.buffer_packets} packets, shared by all data queues; full: drop the packet that arrives",
        *_shares(queues),
        "  scheduling strict, from the first line down:",
        f"    control   EtherType 0x88B5, 802.1p priority {CONTROL_PRIORITY}{BAND_PACKETS:>22} packets of its own",
        f"    network   ARP, ICMP, ICMPv6, LLDP, 01-80-C2-00-00-0X{BAND_PACKETS:>15} packets of its own",
    ]
    lines += [f"    queue {queue}   DSCP {_ranges(by_queue[queue])}" for queue in queues.used]
    lines.append(f"    (what has no DSCP is in queue {LOWEST})")
    if threshold is None:
        lines.append("  ECN off")
    else:
        what = "the packet's queue" if queues.per_queue else "all data queues of the port"
        lines += [
            f"  ECN mark CE when more than {threshold} bytes wait in {what}, the packet included",
            "      now, not on average; no probability, no second threshold",
            "      packets that may not be marked are not dropped for it",
        ]
    return SwitchText("\n".join(lines), (TAGGED,))


def _shares(queues: SwitchQueues) -> list[str]:
    """The division of the buffer, a line for the queues that have the same."""
    alike: dict[tuple[int, float | None], list[int]] = {}
    for queue in queues.used:
        share = None if queues.share is None else queues.share[queue]
        alike.setdefault((queues.reserved[queue], share), []).append(queue)
    lines = []
    for (reserved, times), numbers in alike.items():
        most = "all that is free" if times is None else f"{times:g} times what is free"
        own = f"{reserved} packets of its own, then " if reserved else ""
        lines.append(f"    queue {_ranges(numbers)}: {own}{most}")
    return lines


def openvswitch(ports: Sequence[str], port: PortQueues) -> SwitchText:
    """Commands that give ports of an Open vSwitch elsewhere a queue for control frames, which Baton uses by OpenFlow."""
    rate = port.rate_bps
    commands = [
        f"ovs-vsctl --id=@control create Queue other-config:priority=0 other-config:min-rate={rate // 10} \\\n"
        f"  -- --id=@data create Queue other-config:priority=1 \\\n"
        f"  -- --id=@qos create QoS type=linux-htb other-config:max-rate={rate} \\\n"
        f"     queues:0=@data queues:{CONTROL_QUEUE}=@control \\\n"
        f"  -- set Port {shlex.quote(name)} qos=@qos"
        for name in ports
    ]
    return SwitchText(
        "\n".join(commands),
        (
            f"Baton uses queue {CONTROL_QUEUE} once every port of the switch that is up has it; a port that has a QoS already "
            "needs only that queue added to it",
            "a userspace datapath (datapath_type=netdev) has no queues; on the controller's machine Baton needs none of this",
            "the priorities by DSCP and the marking: run `baton switch-queues` on the switch",
        ),
    )


def _ranges(numbers: Sequence[int]) -> str:
    """Rising numbers as ranges: 1, 2, 3, 7 as "1-3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


PLATFORMS: dict[str, Callable[[Sequence[str], PortQueues], SwitchText]] = {
    "sonic": sonic,
    "generic": generic,
    "openvswitch": openvswitch,
}
