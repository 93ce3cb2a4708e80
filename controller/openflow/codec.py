"""Builds and reads every OpenFlow 1.3 message: plain values on one side, the framework's objects on the other.

A datapath is the framework's object (Ryu or os-ken), reached only through its `ofproto` and
`ofproto_parser`. A flow's cookie is 16 bits of magic, by which an application that starts finds what is Baton's
(controller/openflow/intake/takeover.py), 32 bits of generation and 16 bits of cause. A table that is put as a whole, because
what the switch holds could not be read, gets a generation of its own; all flows of others are removed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from ipaddress import ip_address
from typing import Any, NamedTuple

from controller.openflow.framework import Framework
from controller.openflow.intake import entries
from controller.openflow.intake.hosts import PortRef, Request
from controller.openflow.intake.lldp import Doubt, Lldp
from controller.openflow.intake.takeover import Reading
from controller.openflow.metering import Counters, DropRule
from controller.openflow.roles import Claim, Role
from controller.openflow.tables.flowtable import Cause, Change, Flow, FlowKey, Match, Ports
from controller.openflow.tables.forwarding import ALL_BUT_GROUPS, ASKING_MAC, ETH_ARP, ETH_CONTROL, ETH_LLDP
from controller.openflow.view import Port, told_name

MAGIC = 0xBA70
COUNTED = 0x8000  # the bit in the cookie of every Cause whose counters are polled
WORTH_AN_EVENT = {
    Cause.FORGED_COORDINATOR: "frames with the coordinator's address that came in by another port than its own",
    Cause.CONTROL_OFF_PATH: "control frames that go neither from the coordinator to hosts nor from a host to it",
}
"""The causes whose counts are events, and what was dropped, in words."""
METERED_PER_S, METERED_PER_PORT, METERED_MAX = 400, 4, 2_000
"""How many frames a second a switch with meters passes on to the controller: for the switch, and more for each port."""
ROOM = 8  # of the framework's 16 buffers
TAGS = (0x8100, 0x88A8, 0x9100)
"""EtherTypes of VLAN tags: IEEE 802.1Q, table 9-1, and the outer one of switches before it."""
NOT_COUNTED = 0xFFFFFFFFFFFFFFFF
EVERY_PORT_MAX = 0xFFFFFF00 - ALL_BUT_GROUPS
"""The greatest number of a port that takes part: those above OFPP_MAX are reserved; for the last below there is no group."""

Datapath = Any  # the frameworks publish no types
Message = Any
Description = Any
Parser = Any


class Codec:
    """Builds and reads messages. `generation`: 32 bits, other than at the last start, and of a table put anew."""

    def __init__(self, framework: Framework, generation: int, lldp: Lldp) -> None:
        self._packet: Any = framework.packet
        self._lldp = lldp
        self._generation = generation & 0xFFFFFFFF

    # -- out -------------------------------------------------------------------------------------------------

    def change(self, datapath: Datapath, change: Change) -> list[Message]:
        """The messages that carry out a change, in order."""
        return [
            *(
                message
                for number, ports in change.groups.items()
                for message in _group(datapath, number, ports)
            ),
            *(_remove(datapath, key) for key in change.remove),
            *(self._put(datapath, flow) for flow in change.put),
        ]

    def remove_foreign(self, datapath: Datapath, table: int | None = None) -> list[Message]:
        """Messages that remove every flow of another generation, or put by another program, in one table or in all: one message
        for each cookie bit."""
        ours = MAGIC << 48 | self._generation << 16
        ofproto, parser = datapath.ofproto, datapath.ofproto_parser
        return [
            parser.OFPFlowMod(
                datapath,
                cookie=~ours & 1 << bit,
                cookie_mask=1 << bit,
                table_id=ofproto.OFPTT_ALL if table is None else table,
                command=ofproto.OFPFC_DELETE,
                out_port=ofproto.OFPP_ANY,
                out_group=ofproto.OFPG_ANY,
            )
            for bit in range(16, 64)
        ]

    def lldp(self, datapath: Datapath, number: int, now_ns: int, *, seeks_loop: bool = False) -> Message:
        """The message that sends LLDP out by a port now, or a frame that seeks loops."""
        described = datapath.ports.get(number)
        address = described.hw_addr if described is not None else "02:00:00:00:00:00"
        source = PortRef(datapath.id, number)
        return _out(datapath, number, self._lldp.frame(source, address, now_ns, seeks_loop=seeks_loop))

    def _put(self, datapath: Datapath, flow: Flow) -> Message:
        ofproto, parser = datapath.ofproto, datapath.ofproto_parser
        actions = []
        if flow.copy_bytes is not None:
            actions.append(parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, flow.copy_bytes))
        if flow.queue is not None:
            actions.append(parser.OFPActionSetQueue(flow.queue))
        if flow.output is not None:
            actions.append(parser.OFPActionOutput(flow.output))
        if flow.group is not None:
            actions.append(parser.OFPActionGroup(flow.group))
        instructions = []
        if actions:
            instructions.append(parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions))
        if flow.goto is not None:
            instructions.append(parser.OFPInstructionGotoTable(flow.goto))
        return parser.OFPFlowMod(
            datapath,
            cookie=MAGIC << 48 | self._generation << 16 | flow.cause,
            table_id=flow.table,
            command=ofproto.OFPFC_ADD,
            priority=flow.priority,
            idle_timeout=flow.idle_s,
            flags=ofproto.OFPFF_SEND_FLOW_REM if flow.idle_s else 0,
            match=_match(parser, flow.match),
            instructions=instructions,
        )

    # -- in --------------------------------------------------------------------------------------------------

    def frame(self, message: Message, now_ns: int) -> FrameReceived | LldpReceived | None:
        """Reads a packet-in: a frame with its source, LLDP, or None for a frame that can't be parsed."""
        number = message.match["in_port"]
        try:
            ethernet, _, rest = self._packet.ethernet.ethernet.parser(message.data)
            kind = ethernet.ethertype
            if kind == ETH_LLDP:
                frame = bytes(message.data)
                return LldpReceived(number, self._lldp.read(frame, now_ns), self._lldp.seeks_loop(frame))
            address, is_tagged = None, kind in TAGS
            while kind in TAGS:
                kind, rest = int.from_bytes(rest[2:4]), rest[4:]
            if kind == ETH_LLDP:  # of a VLAN: no switch of ours sends it
                return None
            if kind == ETH_ARP:
                address = self._packet.arp.arp.parser(rest)[0].src_ip
            elif kind == self._packet.ether_types.ETH_TYPE_IP:
                address = self._packet.ipv4.ipv4.parser(rest)[0].src
        # The framework's parsers raise any exception on a frame that a host made up.
        except Exception:
            return None
        return FrameReceived(number, ethernet.src, address, kind == ETH_CONTROL, claims=kind == ETH_ARP and not is_tagged)


def is_lldp(message: Message) -> bool:
    """Whether a packet-in is LLDP."""
    return bytes(message.data[12:14]) == ETH_LLDP.to_bytes(2)


class Refusal(Enum):
    """What a switch's refusal of a meter means."""

    ONE_OF_TWO = auto()
    NO_METERS = auto()


class FrameReceived(NamedTuple):
    """A frame from `mac` came in by port `number`; `address` is its source in ARP or IPv4. `claims`: it says itself that the
    address is its own; a router passes on IPv4 of others, and two VLANs may use the same addresses."""

    number: int
    mac: str
    address: str | None
    control: bool = False
    claims: bool = False


class LldpReceived(NamedTuple):
    """LLDP came in by port `number`; `source` sent it, or it is not believed. One that `seeks_loop` may have passed bridges."""

    number: int
    source: PortRef | Doubt
    seeks_loop: bool = False


def batch(datapath: Datapath, messages: Iterable[Message]) -> bytes:
    """The messages as one buffer for `datapath.send`: one write, and one place in the framework's short queue."""
    buffers = []
    for message in messages:
        datapath.set_xid(message)
        message.serialize()
        buffers.append(bytes(message.buf))
    return b"".join(buffers)


def meter(datapath: Datapath) -> list[Message]:
    """Messages that bound how many frames a switch passes on to the controller, by the meter of its connection (7.3.4.4). As
    with groups, the switch refuses one of the two. A switch without meters refuses both: then only we bound them."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    rate = min(METERED_MAX, METERED_PER_S + METERED_PER_PORT * len(datapath.ports))
    bands = [parser.OFPMeterBandDrop(rate=rate, burst_size=rate)]
    flags = ofproto.OFPMF_PKTPS | ofproto.OFPMF_BURST
    return [
        parser.OFPMeterMod(datapath, command, flags, ofproto.OFPM_CONTROLLER, bands)
        for command in (ofproto.OFPMC_ADD, ofproto.OFPMC_MODIFY)
    ]


def refuses_meter(message: Message) -> Refusal | None:
    """What an error says of `meter`: one of its messages was refused, or, if it was the second, the switch has no meters."""
    ofproto = message.datapath.ofproto
    data = bytes(message.data)
    if data[1:2] != bytes([ofproto.OFPT_METER_MOD]) and message.type != ofproto.OFPET_METER_MOD_FAILED:
        return None
    return Refusal.NO_METERS if data[8:10] == ofproto.OFPMC_MODIFY.to_bytes(2) else Refusal.ONE_OF_TWO


def request(datapath: Datapath, wanted: Request) -> Message:
    """The message that sends an ARP request to one host, as a probe without a sender's address: it changes no host's table (RFC
    5227, 1.1)."""
    target, sender = (bytes.fromhex(mac.replace(":", "")) for mac in (wanted.mac, ASKING_MAC))
    header = target + sender + ETH_ARP.to_bytes(2)
    body = bytes.fromhex("0001080006040001") + sender + bytes(4) + bytes(6) + ip_address(wanted.address).packed
    return _out(datapath, wanted.at.number, header + body + bytes(18))


def _out(datapath: Datapath, number: int, data: bytes) -> Message:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    actions = [parser.OFPActionOutput(number)]
    return parser.OFPPacketOut(datapath, ofproto.OFP_NO_BUFFER, ofproto.OFPP_CONTROLLER, actions, data)


def has_room(datapath: Datapath) -> bool:
    """Whether `datapath.send` would not wait: the framework keeps 16 buffers for a switch that does not read."""
    queue = datapath.send_q
    return queue is not None and queue.qsize() < ROOM


def is_here(datapath: Datapath) -> bool:
    """Whether a switch connects from this machine: both ends of its connection have the same address."""
    try:
        return bool(datapath.socket.getpeername()[0] == datapath.socket.getsockname()[0])
    except OSError:  # it has just gone
        return False


def is_silent(datapath: Datapath) -> bool:
    """Whether a switch has owed an answer for some time: to more than the latest of the framework's echo requests."""
    return len(datapath.unreplied_echo_requests) > 1


def connection(datapath: Datapath) -> str:
    """A connection in words: the switch's name, and its address."""
    return f"{bridge_name(datapath) or 'a nameless one'} at {datapath.address[0]}"


def addresses(datapath: Datapath) -> frozenset[str]:
    """The MAC addresses of a switch's ports, its local one among them."""
    return frozenset(each.hw_addr for each in datapath.ports.values())


def barrier(datapath: Datapath) -> Message:
    """A request that the switch answers when it has carried out all messages before."""
    return datapath.ofproto_parser.OFPBarrierRequest(datapath)


def claim_role(datapath: Datapath, claim: Claim) -> Message:
    """A role request under a generation; the switch answers by a role reply, or an error if the generation is old."""
    ofproto = datapath.ofproto
    role = {Role.MASTER: ofproto.OFPCR_ROLE_MASTER, Role.SLAVE: ofproto.OFPCR_ROLE_SLAVE, Role.EQUAL: ofproto.OFPCR_ROLE_EQUAL}
    return datapath.ofproto_parser.OFPRoleRequest(datapath, role[claim.role], claim.generation)


def confirmed_role(message: Message) -> Claim:
    """Reads a role reply."""
    ofproto = message.datapath.ofproto
    role = {ofproto.OFPCR_ROLE_MASTER: Role.MASTER, ofproto.OFPCR_ROLE_SLAVE: Role.SLAVE}.get(message.role, Role.EQUAL)
    return Claim(role, message.generation_id)


def is_stale(message: Message) -> bool:
    """Whether an error says that another controller has claimed a role under a newer generation."""
    ofproto = message.datapath.ofproto
    return bool((message.type, message.code) == (ofproto.OFPET_ROLE_REQUEST_FAILED, ofproto.OFPRRFC_STALE))


def polls(datapath: Datapath) -> list[Message]:
    """Requests for the counters of all ports, the counters of the rules that drop by `Cause`, and the number of flows."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    every = (ofproto.OFPTT_ALL, ofproto.OFPP_ANY, ofproto.OFPG_ANY)
    return [
        parser.OFPPortStatsRequest(datapath, 0, ofproto.OFPP_ANY),
        parser.OFPFlowStatsRequest(datapath, 0, *every, COUNTED, COUNTED, parser.OFPMatch()),
        parser.OFPAggregateStatsRequest(datapath, 0, *every, 0, 0, parser.OFPMatch()),
    ]


def table_requests(datapath: Datapath) -> list[Message]:
    """Requests for all entries of ours, for all groups, and, as the last one, for the number of all entries: of `tell`."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    every = (ofproto.OFPTT_ALL, ofproto.OFPP_ANY, ofproto.OFPG_ANY)
    return [
        parser.OFPFlowStatsRequest(datapath, 0, *every, MAGIC << 48, 0xFFFF << 48, parser.OFPMatch()),
        parser.OFPGroupDescStatsRequest(datapath, 0),
        parser.OFPAggregateStatsRequest(datapath, 0, *every, 0, 0, parser.OFPMatch()),
    ]


def has_more(message: Message) -> bool:
    """Whether further parts of this answer follow."""
    return bool(getattr(message, "flags", 0) & message.datapath.ofproto.OFPMPF_REPLY_MORE)


def tell(reading: Reading, message: Message) -> None:
    """Hands an answer to one of `table_requests` to the reading; an error ends it."""
    ofproto = message.datapath.ofproto
    more = has_more(message)
    match getattr(message, "type", None) if message.msg_type == ofproto.OFPT_MULTIPART_REPLY else None:
        case ofproto.OFPMP_FLOW:
            reading.flows(map(entries.flow, message.body), more=more)
        case ofproto.OFPMP_GROUP_DESC:
            reading.groups(map(entries.group, message.body), more=more)
        case ofproto.OFPMP_AGGREGATE:
            reading.counted(message.body.flow_count)
        case _:
            reading.failed()


def ask_queues(datapath: Datapath) -> Message:
    """A request for the queues of all ports."""
    return datapath.ofproto_parser.OFPQueueGetConfigRequest(datapath, datapath.ofproto.OFPP_ANY)


def ports_with_queue(message: Message, queue: int) -> frozenset[int]:
    """Reads a reply with the queues of all ports: the ports that have this one."""
    return frozenset(each.port for each in message.queues if each.queue_id == queue)


def refuses_queues(message: Message) -> bool:
    """Whether an error is a switch's answer to `ask_queues`: it knows no queues."""
    ofproto = message.datapath.ofproto
    asked = bytes(message.data)[1:2] == bytes([ofproto.OFPT_QUEUE_GET_CONFIG_REQUEST])
    return bool(asked or message.type == ofproto.OFPET_QUEUE_OP_FAILED)


def bridge_name(datapath: Datapath) -> str:
    """The name of the switch: that of its local port; "": it tells none."""
    local = datapath.ports.get(datapath.ofproto.OFPP_LOCAL)
    return _name(local) if local else ""


def ports(datapath: Datapath) -> Iterator[Port]:
    """The switch's ports as it described them when it connected, by number, reserved ones left out."""
    return (port(datapath, each) for number, each in sorted(datapath.ports.items()) if number <= EVERY_PORT_MAX)


def port(datapath: Datapath, described: Description) -> Port:
    """One port description (OpenFlow 1.3, 7.2.1); speed is in kbit/s there."""
    ofproto = datapath.ofproto
    down = described.state & ofproto.OFPPS_LINK_DOWN or described.config & ofproto.OFPPC_PORT_DOWN
    return Port(described.port_no, _name(described), not down, described.curr_speed * 1000, described.hw_addr)


def _name(described: Description) -> str:
    return told_name(described.name.decode("utf-8", "replace"))


def counters(message: Message) -> Iterator[Counters]:
    """Reads a reply with the counters of ports; leaves out reserved ports. A counter that a switch does not have is all ones
    (5.8), and 0 here."""
    for each in message.body:
        if each.port_no <= EVERY_PORT_MAX:
            at_ns = each.duration_sec * 1_000_000_000 + each.duration_nsec
            told = (each.rx_packets, each.rx_bytes, each.tx_packets, each.tx_bytes, each.tx_dropped)
            received, rx_bytes, sent, tx_bytes, dropped = (0 if count == NOT_COUNTED else count for count in told)
            yield Counters(each.port_no, received, rx_bytes, sent, tx_bytes, dropped, at_ns)


def refusals(message: Message) -> dict[DropRule, int]:
    """Reads a reply with the counters of the rules that drop: packets by rule. Its entries are `entries.Raw`. A counter that
    a switch does not have is all ones (5.8), and left out."""
    counts: dict[DropRule, int] = {}
    for each in message.body:
        if each.packet_count == NOT_COUNTED:
            continue
        try:
            cause = Cause(each.cookie & 0xFFFF)
        except ValueError:
            continue  # another controller's flow
        counts[DropRule(cause, each.key)] = each.packet_count
    return counts


def refuses_table(message: Message) -> bool:
    """Whether an error says that a switch has not taken a flow, so that it lacks a part of its table."""
    ofproto = message.datapath.ofproto
    return bytes(message.data)[1:2] == bytes([ofproto.OFPT_FLOW_MOD])


def refuses_group(message: Message) -> bool:
    """Whether an error says that a switch has not taken a group. The refusal to add one that exists says nothing (`_group`)."""
    ofproto = message.datapath.ofproto
    exists = (message.type, message.code) == (ofproto.OFPET_GROUP_MOD_FAILED, ofproto.OFPGMFC_GROUP_EXISTS)
    of_group = bytes(message.data)[1:2] == bytes([ofproto.OFPT_GROUP_MOD]) or message.type == ofproto.OFPET_GROUP_MOD_FAILED
    return bool(of_group and not exists)


def error(message: Message) -> str | None:
    """An error of a switch in words. None for two that are expected: the refusal to add a group that exists (see `_group`), and
    the refusal of packet-outs of a slave, for those that were on their way when its role changed."""
    ofproto = message.datapath.ofproto
    exists = (ofproto.OFPET_GROUP_MOD_FAILED, ofproto.OFPGMFC_GROUP_EXISTS)
    slave = (ofproto.OFPET_BAD_REQUEST, ofproto.OFPBRC_IS_SLAVE)
    if (message.type, message.code) in (exists, slave):
        return None
    code = ofproto.ofp_error_code_to_str(message.type, message.code)
    return f"{ofproto.ofp_error_type_to_str(message.type)}, {code}"


def _match(parser: Parser, match: Match) -> Message:
    fields: dict[str, Any] = {}
    for name, value in match._asdict().items():
        if isinstance(value, str) and "/" in value:
            fields[name] = tuple(value.split("/"))
        elif value is not None:
            fields[name] = value
    return parser.OFPMatch(**fields)


def _remove(datapath: Datapath, key: FlowKey) -> Message:
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    return parser.OFPFlowMod(
        datapath,
        table_id=key.table,
        command=ofproto.OFPFC_DELETE_STRICT,
        priority=key.priority,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        match=_match(parser, key.match),
    )


def _group(datapath: Datapath, number: int, members: Ports) -> Iterator[Message]:
    """Adds and modifies: whether or not the switch has the group, one of the two applies and the switch refuses the other."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    buckets = [parser.OFPBucket(actions=[parser.OFPActionOutput(member)]) for member in sorted(members)]
    for command in (ofproto.OFPGC_ADD, ofproto.OFPGC_MODIFY):
        yield parser.OFPGroupMod(datapath, command, ofproto.OFPGT_ALL, number, buckets)
