"""The keys of the hosts at the leader: whose a frame is, and under which key to speak to a host. Sends nothing, reads no file.

A frame to the leader names its host's enrolment. From that, the master key and the source address the key follows; so a leader
needs no list of hosts. Keys of hosts that it has admitted are kept, those of others are derived anew for each frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from controller.members.enrolments import Enrolments
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.keys.hosts import SALT_BYTES, Master, Speaker
from protocol.wire import Cause

KEPT = 2
"""How many keys of a host are known at once: the one it registered with last, and the one before, of frames under way."""
ADDRESSES = 4
"""At so many addresses a host with a key for any address is spoken to at most, the last ones at which it registered: it is a
member at one of them. A host with addresses of its own may be a member at each."""


class _Admitted:
    """The host at one MAC address: its name, the first 8 bytes of its enrolments, the newest first, and the whole ones."""

    __slots__ = ("enrolments", "name", "salts")

    def __init__(self, name: str) -> None:
        self.name = name
        self.salts: list[bytes] = []
        self.enrolments: list[bytes] = []


class HostKeys:
    """Of all hosts. `masters`: the master key, or two of them while it is changed."""

    def __init__(self, masters: KeyRing[Master], enrolments: Enrolments) -> None:
        self._masters = masters
        self._enrolments = enrolments
        self._admitted: dict[bytes, _Admitted] = {}
        self._addresses: dict[str, list[bytes]] = {}
        """By name: where it was admitted, the newest last."""
        self._speakers: dict[tuple[bytes, bytes], Speaker] = {}
        """By enrolment and MAC address, of the admitted."""
        self._sending: dict[bytes, Key] = {}
        """By MAC address: the key for frames to the host there."""
        self.changed: Callable[[bytes], None] = lambda _: None
        """Called with the MAC address of a host whose keys are others now, or none."""
        self._known: object = None

    def find(self, data: bytes, enrolment: bytes) -> Sequence[Speaker] | Cause:
        """Whose a frame to the leader may be, by what it says; or why it counts for nobody's."""
        mac = data[6:12]
        if (known := self._speakers.get((enrolment, mac))) is not None:
            return (known,)
        if self._enrolments.revoked(enrolment):
            return Cause.REVOKED
        return [self._speaker(master, enrolment, mac) for master in self._in_use()]

    def _in_use(self) -> Iterator[Master]:
        yield self._masters.sending
        if self._masters.other is not None:
            yield self._masters.other

    def _speaker(self, master: Master, enrolment: bytes, mac: bytes, name: str | None = None) -> Speaker:
        series = mac if self._enrolments.macs(enrolment) else b""
        return Speaker(master.host(enrolment, name or "").at(mac, master.group), series, name)

    def name_of(self, speaker: Speaker, name: str) -> bool:
        """Whether the host that speaks was enrolled by this name."""
        return any(master.certifies(speaker.credentials.enrolment, name) for master in self._in_use())

    def admit(self, speaker: Speaker, name: str, mac: bytes) -> None:
        """Takes the host of this name at a MAC address; from now on it is spoken to under the key that it has used."""
        salt = speaker.credentials.enrolment[:SALT_BYTES]
        admitted = self._admitted.get(mac)
        if admitted is None or admitted.name != name:
            self.forget(mac)
            admitted = self._admitted[mac] = _Admitted(name)
            addresses = self._addresses.setdefault(name, [])
            addresses.append(mac)
            if len(addresses) > ADDRESSES and not self._enrolments.macs(salt):
                self.forget(addresses[0])
        if admitted.salts[:1] != [salt]:
            admitted.salts = [salt, *(one for one in admitted.salts if one != salt)][:KEPT]
            self._rebuild(mac, admitted, speaker)

    def forget(self, mac: bytes) -> None:
        """The host at this address is none of ours any more."""
        if (admitted := self._admitted.pop(mac, None)) is not None:
            self._addresses[admitted.name].remove(mac)
            if not self._addresses[admitted.name]:
                del self._addresses[admitted.name]
            self._drop(mac, admitted)

    def revoke(self) -> list[bytes]:
        """Drops the keys that were revoked; returns the addresses of admitted hosts that have no valid one left."""
        gone = []
        for mac, admitted in list(self._admitted.items()):
            valid = [salt for salt in admitted.salts if not self._enrolments.revoked(salt)]
            if valid != admitted.salts:
                admitted.salts = valid
                self._rebuild(mac, admitted)
                if not valid:
                    gone.append(mac)
        return gone

    def sending_to(self, mac: bytes) -> Key | None:
        """The key for frames to the host at this address; None: no host was admitted there."""
        return self._sending.get(mac)

    def follow(self) -> None:
        """Takes note of the master keys in use now."""
        known = self._masters.sending.ident, self._masters.other and self._masters.other.ident
        if known != self._known:
            self._known = known
            for mac, admitted in self._admitted.items():
                self._rebuild(mac, admitted)

    def _drop(self, mac: bytes, admitted: _Admitted) -> None:
        for enrolment in admitted.enrolments:
            del self._speakers[enrolment, mac]
        admitted.enrolments.clear()
        self._sending.pop(mac, None)
        self.changed(mac)

    def _rebuild(self, mac: bytes, admitted: _Admitted, heard: Speaker | None = None) -> None:
        """Derives the keys of a host; those that it was `heard` under just now are known."""
        self._drop(mac, admitted)
        ours = None if heard is None else (heard.credentials.fingerprint, heard.credentials.enrolment)
        for master in self._in_use():
            for salt in admitted.salts:
                enrolment = master.enrolment(admitted.name, salt)
                if heard is not None and ours == (master.fingerprint, enrolment):
                    speaker = Speaker(heard.credentials, heard.series[1], admitted.name)
                else:
                    speaker = self._speaker(master, enrolment, mac, admitted.name)
                admitted.enrolments.append(speaker.credentials.enrolment)
                self._speakers[speaker.credentials.enrolment, mac] = speaker
                self._sending.setdefault(mac, speaker.credentials.from_leader)
