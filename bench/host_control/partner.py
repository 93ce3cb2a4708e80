"""The other end of the wire: a leader of one member, and the link partner that sends PFC frames. An edge: a raw socket.

It welcomes the host's agent, answers its pings and sends it the directory of the flows' destinations, as a coordinator does. It
sends everything else only when the experiment says so, at the instant that the experiment chooses: the delays are those of the
host alone.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from ipaddress import IPv4Address

from bench.host_control.ends import SENDER, End
from protocol.auth import Guard
from protocol.bodies.versions import NEWEST
from protocol.keyring import KeyRing
from protocol.keys.authentication import LeaderAuthentication
from protocol.keys.hosts import Credentials, HostSecret, Master, Speaker
from protocol.link import ControlSocket
from protocol.messages import (
    COORDINATOR,
    HEARTBEAT_MAC,
    Directory,
    DirectoryRequest,
    Heartbeat,
    Leave,
    Message,
    Override,
    Ping,
    Pong,
    Register,
    Regulate,
    Welcome,
    encode,
)
from protocol.paging import paginate

MEMBER, FIRST_NODE = 1000, 16
"""The host under test, and the destination of flow 0."""
HEARTBEAT_NS = 10_000_000
FAIL_OPEN_NS = 2_000_000_000
REPORT_NS = 500_000_000
"""Long, so that reports do not disturb the delays."""


class Partner:
    """Serves the agent while the experiment waits, in `serve_until`."""

    def __init__(self, end: End, master: Master, host: HostSecret, targets: list[IPv4Address]) -> None:
        """Opens a socket at this end; `host` is the agent's, `targets` are the flows' destinations. Raises OSError."""
        with end.entered():
            self._link = ControlSocket(end.interface)
        self.address = self._link.address
        self._host, self._targets = host, targets
        self.flows = len(targets)
        self._epoch = int(time.time())
        ring = KeyRing(master)
        self._way = LeaderAuthentication(
            ring, lambda data, _: [Speaker(self._at(data[6:12]))], lambda to: self._at(to).from_leader
        )
        self._guard = Guard(ring, epoch=self._epoch, leader=True, address=self.address, ways={NEWEST: self._way})
        self._sequence = time.time_ns()
        self._keys: dict[bytes, Credentials] = {}
        self._member_mac = HEARTBEAT_MAC
        self._heartbeat_ns = 0
        self.welcomed = False
        self.answered = 0
        """How many PINGs it has answered; the agent knows its clock from them."""
        self.received: list[Message] = []
        """The agent's messages, but for those that keep it a member; the experiment empties the list."""

    def close(self) -> None:
        """Closes the socket."""
        self._link.close()

    def send(self, message: Message, destination: bytes | None = None) -> None:
        """Sends a message to the agent, or to another destination."""
        self._link.send(self.sealed(message, destination))

    def sealed(self, message: Message, destination: bytes | None = None) -> bytes:
        """The frame that carries a message; send it before any other message, whose sequence number is higher."""
        self._sequence += 1
        return encode(
            message,
            key=self._way,
            destination=destination or self._member_mac,
            source=self.address,
            sender=COORDINATOR,
            epoch=self._epoch,
            sequence=self._way.place() if isinstance(message, Heartbeat) else self._sequence,
        )

    def _at(self, mac: bytes) -> Credentials:
        if mac not in self._keys:
            self._keys[mac] = self._host.at(mac)
        return self._keys[mac]

    def send_frame(self, whole: bytes) -> None:
        """Sends a complete frame, such as PFC."""
        self._link.send(whole)

    def serve_until(self, instant_ns: int) -> None:
        """Serves the agent until an instant of the monotonic clock. It sleeps meanwhile: the sender may share its processor."""
        link = self._link.fileno()
        while (now := time.monotonic_ns()) < instant_ns:
            if now >= self._heartbeat_ns:
                self._heartbeat_ns = now + HEARTBEAT_NS
                self.send(Heartbeat(Override.COORDINATE, 1, 1), HEARTBEAT_MAC)
            sleep_ns = min(instant_ns, self._heartbeat_ns) - now
            if select.select((link,), (), (), max(0, sleep_ns) / 1e9)[0]:
                while (raw := self._link.receive()) is not None:
                    self._take(raw)

    def wait(self, what: Callable[[], bool], seconds: float) -> bool:
        """Serves until the condition holds; whether it did within so many seconds."""
        end_ns = time.monotonic_ns() + round(seconds * 1e9)
        while not (held := what()) and time.monotonic_ns() < end_ns:
            self.serve_until(time.monotonic_ns() + 5_000_000)
        return held

    def _take(self, raw: bytes) -> None:
        frame = self._guard.accept(raw)
        if frame is None:
            return
        match frame.message:
            case Ping(sent_ns=sent):
                self.answered += 1
                arrived_ns = self._link.arrived_ns()
                self._link.send_stamped(lambda leaving_ns: self.sealed(Pong(sent, arrived_ns, leaving_ns)))
            case Register(nonce=nonce):
                self._member_mac = frame.source
                place, value = self._way.position
                settings = HEARTBEAT_NS, FAIL_OPEN_NS, 300_000, 0, 0, REPORT_NS
                self.send(Welcome(nonce, MEMBER, *settings, place=place, value=value))
            case DirectoryRequest():
                entries = tuple((FIRST_NODE + at, (target,)) for at, target in enumerate(self._targets))
                for page in paginate(Directory(1, 0, 1, ((MEMBER, (SENDER,)), *entries))):
                    self.send(page)
                self.send(Regulate(1, 0, 1, ()))
                self.welcomed = True
            case Leave():
                self.welcomed = False
            case message:
                self.received.append(message)
                del self.received[:-1000]
