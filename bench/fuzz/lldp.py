"""Forged LLDP, and frames that make no sense, from one port of a network: through the check of OpenFlow messages, the
framework's parser and the reader of LLDP into the state of discovery.

Method: three switches in a ring, found by Baton's own LLDP, and hosts at their other ports. An attacker holds one host's port.
Each run is one packet-in from there, as the switch would send it:

* a *forgery* (half of the runs): LLDP that names any port, of any time, with another key's tag, a part of a good tag, or none;
  with flipped bits, cut, repeated; LLDP that the attacker has heard at its own port, at once or later; or LLDP of other kinds;
* *hostile*: frames of any kind with extreme numbers, and packet-ins that are themselves mutated. These go to a network of their
  own, since a switch that writes such messages can say of itself what it likes.

A forgery is accepted if any link, any port that is open to hosts, or any host at another port is not as it was. A crash is an
exception; and so are more hosts at a port than it may have, and events without a bound. Time passes between runs, the switches
go on with their own LLDP, and every network is made anew after some thousands of frames.
"""

from __future__ import annotations

import importlib
import random
import struct
import time
import traceback
from collections import Counter
from typing import Any, cast

from bench.fuzz.openflow import EXTREMES, FEATURES, FRAMEWORKS, HELLOS, Parser, message
from controller.openflow.codec import Codec
from controller.openflow.discovery import Discovery
from controller.openflow.framework import Framework
from controller.openflow.intake.frames import take
from controller.openflow.intake.hosts import AGENTS_PER_PORT, PortRef
from controller.openflow.intake.lldp import FRESH_NS, KEY_BYTES, Lldp
from controller.openflow.intake.ports import PROBE_NS
from controller.openflow.intake.stream import Stream, Unreadable
from controller.openflow.view import Port, View
from protocol.units import MILLISECOND_NS

FRAMES_EACH = 3_000
CRASHES_KEPT = 5
HOSTS_PER_PORT = 16
STEP_NS = 120 * MILLISECOND_NS
"""Between two frames: the port keeps within its budget, else it would be muted, and nothing would be read."""
NOTES_EACH = 400
RING = (1, 2, 3)
EDGES = (1, 2)
TRUNKS = (11, 12)
ATTACKER = PortRef(1, 1)
PACKET_IN = struct.Struct("!IHBBQ")
IN_PORT = struct.Struct("!HHHBBI4x")
ETHERTYPES = (0x88CC, 0x0806, 0x0800, 0x86DD, 0x88B5, 0x8100, 0x8808, 0x0000, 0x05DC, 0xFFFF)
LLDP_MAC = bytes.fromhex("0180c200000e")
FOREIGN = LLDP_MAC + bytes.fromhex("02000000000188cc 0207 04 020000000001 0404 05 65 74 68 0602 0078 0000".replace(" ", ""))


def packet_in(number: int, frame: bytes) -> bytes:
    """A packet-in with this frame, from this port."""
    match = IN_PORT.pack(1, 12, 0x8000, 0, 4, number)
    return message(10, PACKET_IN.pack(0xFFFFFFFF, len(frame), 1, 1, 0) + match + bytes(2) + frame)


class Network:
    """Three switches in a ring and their hosts, as the application sees them."""

    def __init__(self, parser: Parser, generator: random.Random) -> None:
        self.generator = generator
        self.now_ns = 10**12
        self.lldp, self._theirs = Lldp(generator.randbytes(KEY_BYTES)), Lldp(generator.randbytes(KEY_BYTES))
        packet: Any = importlib.import_module(f"{parser.root}.lib.packet")
        for name in ("ethernet", "arp", "ipv4"):
            importlib.import_module(f"{parser.root}.lib.packet.{name}")
        framework = Framework(parser.root, object, None, None, None, None, packet, None)
        self.codec = Codec(framework, 1, self.lldp)
        self.discovery = Discovery(hosts_per_port=HOSTS_PER_PORT)
        self.notes = 0
        self._parser = parser
        self._stream = Stream(0)
        self._stream.feed(HELLOS[0] + FEATURES, 0)
        self._heard = [self._own()]
        for dpid in RING:
            ports = [Port(number, f"s{dpid}-eth{number}", True) for number in (*EDGES, *TRUNKS)]
            self.discovery.switch_up(dpid, f"s{dpid}", ports, self.now_ns)
        self._announce()
        self.now_ns += PROBE_NS
        for dpid in RING:
            for number in EDGES:
                at = PortRef(dpid, number)
                if at != ATTACKER:
                    self.discovery.frame_seen(at, self._mac(at), self.now_ns, f"10.0.{dpid}.{number}")

    def pass_time(self) -> None:
        """A while: the switches announce their ports, and the hosts are still there."""
        self.now_ns += STEP_NS
        self._announce()
        self.discovery.tick(self.now_ns)
        self.notes += len(self.discovery.drain_notes())
        self._heard = [*self._heard[-60:], self._own()]

    def receive(self, raw: bytes) -> None:
        """A message of the attacker's switch. Raises Unreadable: the check hangs up."""
        admitted = self._stream.feed(raw, self.now_ns)
        while admitted:
            version, kind, length, xid = self._parser.header(admitted)
            parsed = self._parser.parse(version, kind, length, xid, admitted[:length])
            admitted = admitted[length:]
            if parsed is not None and kind == 10:
                take(self.discovery, self.codec, ATTACKER.dpid, cast(Any, parsed), self.now_ns)

    def others(self) -> tuple[object, ...]:
        """What the attacker's frames must not change."""
        view: View = self.discovery.view(self.now_ns)
        hosts = {mac: host.at for mac, host in view.hosts.items() if host.at != ATTACKER}
        return view.links, view.edges, tuple(sorted(view.switches)), tuple(sorted(hosts.items()))

    def crowded(self) -> bool:
        """Whether more is kept of the attacker than there may be."""
        hosts = sum(host.at == ATTACKER for host in self.discovery.view(self.now_ns).hosts.values())
        return hosts > HOSTS_PER_PORT + AGENTS_PER_PORT or self.notes > NOTES_EACH

    # -- frames -----------------------------------------------------------------------------------------------------------

    def forgery(self) -> bytes:
        """A frame of LLDP from the attacker."""
        generator = self.generator
        named = PortRef(generator.choice((*RING, 4, 0, (1 << 64) - 1)), generator.choice((*EDGES, *TRUNKS, 0, 0xFFFFFFFD)))
        sent_ns = self.now_ns + generator.choice((0, -FRESH_NS, -MILLISECOND_NS, FRESH_NS, -self.now_ns))
        theirs = self._theirs.frame(named, self._mac(named), sent_ns)
        way = generator.randrange(6)
        if way == 0:
            return theirs
        if way == 1:  # the attacker's own good tag under another name, or of another time
            own = generator.choice(self._heard)
            at = generator.choice((14, 37, 44, 60))
            return own[:at] + theirs[at:] if generator.random() < 0.5 else theirs[:at] + own[at:]
        if way == 2:
            return generator.choice(self._heard)
        if way == 3:
            return FOREIGN + generator.randbytes(generator.randrange(60))
        raw = bytearray(generator.choice((theirs, generator.choice(self._heard))))
        if way == 4:
            for bit in generator.sample(range(14 * 8, len(raw) * 8), generator.randrange(1, 5)):
                raw[bit // 8] ^= 1 << bit % 8
            return bytes(raw)
        return bytes(raw[: generator.randrange(14, len(raw))]) + generator.randbytes(generator.choice((0, 0, 1, 200)))

    def hostile(self) -> bytes:
        """A message of the attacker's switch with a frame of any kind, itself mutated or not."""
        generator = self.generator
        kind = generator.choice(ETHERTYPES).to_bytes(2)
        frame = bytearray(generator.randbytes(12) + kind + generator.randbytes(generator.randrange(80)))
        if generator.random() < 0.4:
            frame = bytearray(self.forgery())
        for _ in range(generator.randrange(3)):
            at = generator.randrange(len(frame))
            frame[at : at + 2] = generator.choice(EXTREMES).to_bytes(2)
        raw = bytearray(packet_in(generator.choice((*EDGES, *TRUNKS, *EXTREMES)), bytes(frame)))
        for _ in range(generator.randrange(3)):
            at = generator.randrange(8, len(raw))
            raw[at] = generator.randrange(256)
        return bytes(raw)

    # -- inside -----------------------------------------------------------------------------------------------------------

    @staticmethod
    def _mac(at: PortRef) -> str:
        return f"02:00:00:00:{at.dpid % 256:02x}:{at.number % 256:02x}"

    def _own(self) -> bytes:
        return self.lldp.frame(ATTACKER, self._mac(ATTACKER), self.now_ns)

    def _announce(self) -> None:
        for one, other in zip(RING, (*RING[1:], RING[0]), strict=True):
            here, there = PortRef(one, TRUNKS[0]), PortRef(other, TRUNKS[1])
            self.discovery.lldp_heard(here, there, self.now_ns)
            self.discovery.lldp_heard(there, here, self.now_ns)


def fuzz(seconds: float, seed: int) -> dict[str, Any]:
    """{"runs", "forgeries", "crashes", "accepted_forgeries", "refused", "doubted", "first_forgeries", "first_crashes"}."""
    generator = random.Random(seed)
    counts: Counter[str] = Counter()
    doubted: Counter[str] = Counter()
    crashes: list[str] = []
    accepted: list[str] = []
    parsers = [Parser(root) for root in FRAMEWORKS]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        parser = generator.choice(parsers)
        honest, other = Network(parser, generator), Network(parser, generator)
        wanted = honest.others()
        for _ in range(FRAMES_EACH):
            if time.monotonic() > until:
                break
            counts["runs"] += 1
            forged = generator.random() < 0.5
            network = honest if forged else other
            network.pass_time()
            frame = network.forgery() if forged else b""
            raw = packet_in(ATTACKER.number, frame) if forged else network.hostile()
            counts["forgeries"] += forged
            try:
                network.receive(raw)
                failed = "more is kept than may be" if network.crowded() else ""
            except Unreadable:
                counts["refused"] += 1
                failed, other = "", Network(parser, generator)
            except Exception:  # any other exception is a finding
                failed = traceback.format_exc()
            if failed:
                counts["crashes"] += 1
                line = f"seed {seed}, run {counts['runs']}, {parser.root}, {raw.hex()}: {failed}"
                crashes += [line][: CRASHES_KEPT - len(crashes)]
                honest, other = Network(parser, generator), Network(parser, generator)
            elif forged and honest.others() != wanted:
                counts["accepted_forgeries"] += 1
                accepted += [f"seed {seed}, run {counts['runs']}, {frame.hex()}"][: CRASHES_KEPT - len(accepted)]
                honest = Network(parser, generator)
        doubted.update(honest.discovery.counts)
    sums = {name: counts[name] for name in ("runs", "forgeries", "crashes", "accepted_forgeries", "refused")}
    return {**sums, "doubted": dict(doubted), "first_forgeries": accepted, "first_crashes": crashes}
