"""The frames of a siege: an endless series of each kind. Pure: random numbers come from a generator.

What a frame needs to know of the fabric is in `Scene`; a host that has the key learns epoch and node id before.
"""

from __future__ import annotations

import itertools
import random
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from protocol.bodies.vocabulary import Kind
from protocol.key import Key
from protocol.keys.hosts import Credentials
from protocol.messages import (
    COORDINATOR,
    HEARTBEAT_MAC,
    Backlog,
    GateKind,
    Heartbeat,
    Message,
    Override,
    Ping,
    Register,
    encode,
)
from protocol.wire import BODY, seal

LLDP_MAC, BROADCAST = bytes.fromhex("0180c200000e"), b"\xff" * 6
ETH_IPV4, ETH_IPV6, ETH_ARP, ETH_LLDP, ETH_CONTROL = 0x0800, 0x86DD, 0x0806, 0x88CC, 0x88B5
FRAME_MIN = 60
FAKE_MACS = 2_048
DISCARD = 9
"""The UDP port of a service that throws away what it gets (RFC 863)."""
LAST_SEQUENCE = (1 << 64) - 1
ESCAPES = b"\x1b[2Jh1\nh1"


@dataclass(frozen=True, slots=True)
class Scene:
    """The attacker's own addresses, whom it talks to, and what it knows."""

    mac: bytes
    address: IPv4Address
    other_mac: bytes
    other_address: IPv4Address
    """A host that throws away what it gets."""
    leader_mac: bytes
    victims: Sequence[tuple[bytes, IPv4Address, int]] = ()
    """(MAC address, IP address, node id) of members."""
    ports: Sequence[tuple[int, int]] = ((1, 1), (1, 2), (1, 3))
    """(datapath id, port number) that forged LLDP names."""
    name: str = ""
    key: Credentials | None = None
    """Of the attacker, if it is an enrolled host, with its name."""
    epoch: int = 0
    node: int = 0
    """Of the attacker as a member; 0 without a key."""
    sequence: int = 0


def frames(kind: str, scene: Scene, generator: random.Random) -> Iterator[bytes]:
    """Frames of one kind, without an end. Raises KeyError: there is no such kind."""
    return _KINDS[kind](scene, generator)


def _lldp(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    while True:
        dpid, port = generator.choice(scene.ports)
        chassis = b"\x07dpid:%016x" % dpid
        body = struct.pack("!H", 1 << 9 | len(chassis)) + chassis + struct.pack("!HBIHH", 2 << 9 | 5, 7, port, 3 << 9 | 2, 120)
        ours = struct.pack("!H3sBQ", 127 << 9 | 28, b"BAT", 1, generator.getrandbits(62)) + generator.randbytes(16)
        yield LLDP_MAC + scene.mac + ETH_LLDP.to_bytes(2) + body + ours + bytes(2)


def _sources(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    mac, target, _ = scene.victims[0] if scene.victims else (scene.other_mac, scene.other_address, 0)
    for number in itertools.count():
        if number % 4:
            source = IPv4Address(0x0B000000 | generator.getrandbits(24))
            yield mac + scene.mac + _udp(source, target)
        else:
            yield mac + scene.mac + _udp6(IPv6Address(0xFD << 120 | generator.getrandbits(64)), IPv6Address("fd00::1"))


def _macs(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    for number in itertools.count():
        fake = b"\x06\x5e" + (number % FAKE_MACS).to_bytes(4)
        yield scene.other_mac + fake + _udp(scene.address, scene.other_address)


def _theft(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    while True:
        stolen = generator.choice([scene.leader_mac, *(mac for mac, _, _ in scene.victims)])
        if generator.random() < 0.5:
            yield scene.other_mac + stolen + _udp(scene.address, scene.other_address)
        else:
            ip = scene.address.packed
            arp = struct.pack("!HHBBH6s4s6s4s", 1, ETH_IPV4, 6, 4, 1, stolen, ip, bytes(6), ip)
            yield scene.other_mac + stolen + ETH_ARP.to_bytes(2) + arp + bytes(18)


def _control(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    forged = Key(generator.randbytes(32))
    for number in itertools.count():
        source = generator.choice([scene.mac, *(mac for mac, _, _ in scene.victims)])
        head = scene.leader_mac + source + ETH_CONTROL.to_bytes(2)
        whole = encode(
            Ping(number), key=forged, destination=scene.leader_mac, source=source,
            sender=generator.choice((COORDINATOR, 16, 17, 1 << 31)), epoch=generator.getrandbits(32), sequence=number,
        )  # fmt: skip
        yield generator.choice((
            (head + generator.randbytes(generator.randrange(200))).ljust(FRAME_MIN, b"\0"),
            whole,
            whole[: generator.randrange(14, len(whole))].ljust(FRAME_MIN, b"\0"),
        ))  # fmt: skip


def _tenant(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    """As `_sources`, with sources of 64 Ki addresses: each is a new flow to the agent."""
    mac, target, _ = scene.victims[0]
    for number in itertools.count():
        yield mac + scene.mac + _udp(IPv4Address(0x0C000000 | number & 0xFFFF), target, 400)


def _harmless(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    while True:
        yield scene.other_mac + scene.mac + _udp(scene.address, scene.other_address)


# -- with a key ---------------------------------------------------------------------------------------------------------------


def _epochs(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    for number in itertools.count(1):
        epoch = generator.choice((scene.epoch + 1_000, scene.epoch + (1 << 27), 0xF0000000, 0xFFFFFFFF))
        if generator.random() < 0.5:
            lie = Heartbeat(Override.FREE, 1, 1)
            yield _sealed(scene, lie, number, destination=HEARTBEAT_MAC, sender=COORDINATOR, epoch=epoch)
        else:
            yield _sealed(scene, Ping(number), number, epoch=epoch)


def _sequence(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    for number in itertools.count(1):
        mac, _, node = generator.choice(scene.victims)
        yield _sealed(scene, Ping(number), LAST_SEQUENCE - scene.sequence, source=mac, sender=node)


def _registers(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    for number in itertools.count():
        address = IPv4Address(0x0D000000 | number & 0xFFFFFF)
        register = Register(f"made-up-{number}", number, 10**8, (address,), GateKind.TBF, "1")
        yield _sealed(scene, register, 1, source=b"\x06\x5f" + number.to_bytes(4), sender=0)


def _pages(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    for number in itertools.count(1):
        entries = tuple((16 + each, 60_000, 1514) for each in range(40))
        yield _sealed(scene, Backlog(1_000 + number, 0, 0xFFFF, entries), number)


def _names(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    name = b"e" * len(ESCAPES)
    for number in itertools.count(1):
        good = _sealed(scene, Register(name.decode(), number, 10**8, (scene.address,), GateKind.TBF, "1"), number, sender=0)
        body = good[BODY : BODY + int.from_bytes(good[20:22])].replace(name, ESCAPES)
        assert scene.key is not None
        yield seal(
            Kind.REGISTER, body, key=scene.key.to_leader, destination=scene.leader_mac, source=scene.mac, sender=0,
            epoch=scene.epoch, sequence=scene.sequence + number,
        )  # fmt: skip


def _addresses(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    for number in itertools.count(1):
        changing = tuple(IPv4Address(0x0E000000 | generator.getrandbits(16)) for _ in range(8))
        register = Register(scene.name, number, 10**8, (scene.address, *dict.fromkeys(changing)), GateKind.TBF, "1")
        yield _sealed(scene, register, (1 << 32) + number, sender=0)


def _nonsense(scene: Scene, generator: random.Random) -> Iterator[bytes]:
    assert scene.key is not None
    for number in itertools.count(1):
        yield seal(
            generator.randrange(64), generator.randbytes(generator.randrange(200)), key=scene.key.to_leader,
            destination=scene.leader_mac, source=scene.mac, sender=scene.node, epoch=scene.epoch,
            sequence=scene.sequence + (1 << 33) + number,
        )  # fmt: skip


def _sealed(
    scene: Scene,
    message: Message,
    number: int,
    *,
    destination: bytes | None = None,
    source: bytes | None = None,
    sender: int | None = None,
    epoch: int | None = None,
) -> bytes:
    assert scene.key is not None, "this kind needs the key"
    return encode(
        message, key=scene.key.to_leader, destination=destination or scene.leader_mac, source=source or scene.mac,
        sender=scene.node if sender is None else sender, epoch=(scene.epoch if epoch is None else epoch) & 0xFFFFFFFF,
        sequence=scene.sequence + number,
    )  # fmt: skip


# -- packets ------------------------------------------------------------------------------------------------------------------


def _udp(source: IPv4Address, target: IPv4Address, size: int = 18) -> bytes:
    length = 28 + size
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, 0, 0, 64, socket.IPPROTO_UDP, 0, source.packed, target.packed)
    head = head[:10] + _checksum(head).to_bytes(2) + head[12:]
    return ETH_IPV4.to_bytes(2) + head + struct.pack("!HHHH", DISCARD, DISCARD, 8 + size, 0) + bytes(size)


def _udp6(source: IPv6Address, target: IPv6Address, size: int = 18) -> bytes:
    head = struct.pack("!IHBB16s16s", 6 << 28, 8 + size, socket.IPPROTO_UDP, 64, source.packed, target.packed)
    return ETH_IPV6.to_bytes(2) + head + struct.pack("!HHHH", DISCARD, DISCARD, 8 + size, 0) + bytes(size)


def _checksum(data: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


_KINDS: dict[str, Callable[[Scene, random.Random], Iterator[bytes]]] = {
    "lldp": _lldp, "sources": _sources, "macs": _macs, "theft": _theft, "control": _control, "tenant": _tenant,
    "harmless": _harmless, "epochs": _epochs, "sequence": _sequence, "registers": _registers, "pages": _pages,
    "names": _names, "addresses": _addresses, "nonsense": _nonsense,
}  # fmt: skip
