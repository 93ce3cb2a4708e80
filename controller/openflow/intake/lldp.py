"""LLDP that only this process can have made: a keyed tag, and the time of sending. Pure.

As in TopoGuard (Hong et al., NDSS 2015): a host can't name a port that is not its own, since it does not have the key, and
can't keep what it heard for later. It can pass on at once what it hears at its own port; `controller.openflow.discovery` says
what that is worth. The frame is IEEE Std 802.1AB: chassis "dpid:" and 16 hexadecimal digits, port as four bytes (both locally
assigned), time to live, an organizationally specific TLV with time and tag, end.
"""

from __future__ import annotations

import hmac
import struct
from enum import Enum
from hashlib import blake2s

from controller.openflow.intake.hosts import PortRef

FRESH_NS = 3_000_000_000
"""How old LLDP may be: no older than a link without any may get (LINK_SILENCE_NS of `controller.openflow.discovery`)."""
KEY_BYTES, TAG_BYTES = 32, 16

_DESTINATION = bytes.fromhex("0180c200000e")
_PASSED_ON = bytes.fromhex("034241544f4c")
"""A group address that bridges forward, as they do not the one of LLDP: so a loop through somebody's bridge is seen."""
_ETHERTYPE = b"\x88\xcc"
_CHASSIS = struct.Struct("!HB21s")  # type 1, subtype 7
_PORT = struct.Struct("!HBI")  # type 2, subtype 7
_TTL = struct.Struct("!HH")
_OURS = struct.Struct("!H3sBQ16s")  # type 127: organization, subtype, time in ns, tag
_ORGANIZATION, _SUBTYPE = bytes.fromhex("424154"), 1  # no registered one: its bit for local use is set
_HEAD = 14
_LENGTH = _HEAD + _CHASSIS.size + _PORT.size + _TTL.size + _OURS.size + 2
_TTL_S = 120
_LOCALLY = 7
_SIGNED = struct.Struct("!QIQ")


class Doubt(Enum):
    """Why LLDP is not believed."""

    FOREIGN = "foreign"
    """It does not say that it is from a switch of a controller's: another vendor's switch, or a host's daemon."""
    FORGED = "forged"
    """It names a switch by its datapath id, and we did not make it."""
    OLD = "old"
    """We made it, too long ago."""


class Lldp:
    """Makes and reads our LLDP. `key`: KEY_BYTES random bytes, of this process alone."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key of LLDP has {KEY_BYTES} bytes, not {len(key)}")
        self._key = key

    def frame(self, source: PortRef, mac: str, now_ns: int, *, seeks_loop: bool = False) -> bytes:
        """The frame that a switch sends by this port, whose address is `mac`. `now_ns`: monotonic. One that `seeks_loop` passes
        bridges."""
        return b"".join(
            (
                (_PASSED_ON if seeks_loop else _DESTINATION) + bytes.fromhex(mac.replace(":", "")) + _ETHERTYPE,
                _CHASSIS.pack(1 << 9 | _CHASSIS.size - 2, _LOCALLY, b"dpid:%016x" % source.dpid),
                _PORT.pack(2 << 9 | _PORT.size - 2, _LOCALLY, source.number),
                _TTL.pack(3 << 9 | _TTL.size - 2, _TTL_S),
                _OURS.pack(127 << 9 | _OURS.size - 2, _ORGANIZATION, _SUBTYPE, now_ns, self._tag(source, now_ns)),
                bytes(2),
            )
        )

    def read(self, frame: bytes, now_ns: int) -> PortRef | Doubt:
        """Which port sent this frame of LLDP, or why that is not believed."""
        if frame[_HEAD + 2 : _HEAD + 8] != b"\x07dpid:":
            return Doubt.FOREIGN
        if len(frame) < _LENGTH:
            return Doubt.FORGED
        at = _HEAD
        _, _, name = _CHASSIS.unpack_from(frame, at)
        at += _CHASSIS.size
        _, _, number = _PORT.unpack_from(frame, at)
        at += _PORT.size + _TTL.size
        _, _, _, sent_ns, tag = _OURS.unpack_from(frame, at)
        try:
            source = PortRef(int(name[5:], 16), number)
        except ValueError:
            return Doubt.FORGED
        if not hmac.compare_digest(tag, self._tag(source, sent_ns)):
            return Doubt.FORGED
        return source if 0 <= now_ns - sent_ns <= FRESH_NS else Doubt.OLD

    @staticmethod
    def seeks_loop(frame: bytes) -> bool:
        """Whether this frame was made to pass bridges: then it says nothing of neighbours."""
        return frame.startswith(_PASSED_ON)

    def _tag(self, source: PortRef, sent_ns: int) -> bytes:
        signed = _SIGNED.pack(source.dpid, source.number, sent_ns)
        return blake2s(signed, key=self._key, digest_size=TAG_BYTES, person=b"lldp").digest()
