"""Which hosts may be members: those with a key that is not revoked, each by its own name and from an address of its own. An
edge: looks at the file of enrolments beside the master key, four times a second.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.members.enrolments import Document, EnrolmentFile, Enrolments
from controller.members.host_keys import HostKeys
from controller.members.part import Part
from controller.members.registry import Member, Members
from protocol.key import KeyFileError
from protocol.keys.hosts import Speaker
from protocol.units import MILLISECOND_NS, SECOND_NS

LOOK_NS = 250 * MILLISECOND_NS
MOVE_NS = SECOND_NS
"""At most so often a host may appear at another address: each time it gets another node id, of which there are 16,368."""
SHARED_KEY = (
    "shared_key_file is set, for hosts of version 2: whoever has that key can lead the fabric; "
    "leave it out once `baton status` shows no member of version 2"
)


class Admission(Part):
    """Decides on registrations, and ends the membership of hosts whose keys are revoked."""

    def __init__(
        self,
        keys: HostKeys,
        enrolments: Enrolments,
        key_file: Path,
        members: Members,
        forget: Callable[[Member, int, str], None],
        write: Callable[[dict[str, Any]], object],
        *,
        shared: bool = False,
    ) -> None:
        """`forget` ends a membership, at a time (ns) and with a line that says why.

        `shared`: whether hosts of version 2, which share one key, are taken.
        """
        self.documents = {"hosts": self.take}
        self.periodic = ((LOOK_NS, self.look),)
        self._keys = keys
        self._enrolments = enrolments
        self._file = EnrolmentFile(key_file)
        self._members = members
        self._forget = forget
        self._write = write
        self._places: dict[str, tuple[bytes, int]] = {}
        """By name, of hosts with a key for any address: the one that they have, and since when."""
        self._shared = shared
        self._problem = ""

    def take(self, document: Document, now_ns: int) -> None:
        """Takes what the store says; tells the store what it does not know."""
        changed = self._enrolments.merge(document)
        if self._enrolments.document() != document:
            self._write({"hosts": self._enrolments.document()})
        if changed:
            self._apply(now_ns)

    def look(self, now_ns: int) -> None:
        """Takes what the file says, if it has changed."""
        try:
            found, self._problem = self._file.news(), ""
        except KeyFileError as error:
            found, self._problem = None, str(error)
        if found is not None and self._enrolments.merge(found):
            self._write({"hosts": self._enrolments.document()})
            self._apply(now_ns)

    def _apply(self, now_ns: int) -> None:
        for mac in self._keys.revoke():
            self._keys.forget(mac)
            if (member := self._members.at(mac)) is not None:
                self._forget(member, now_ns, f"{member.name} is no member any more: its key is revoked")

    def refusal(self, speaker: Speaker, name: str, mac: bytes, now_ns: int) -> str:
        """Why a host may not register by this name from this address; empty: it may, and is admitted.

        A host with a key for any address has one at a time: its membership at another address ends.
        """
        enrolment = speaker.credentials.enrolment
        if speaker.name != name and not self._keys.name_of(speaker, name):
            return "this key was given to a host of another name; enroll the host by `baton host enroll`"
        macs = self._enrolments.macs(enrolment)
        if macs and mac not in macs:
            return "this key is for other addresses; name this one by --mac of `baton host enroll`"
        if not macs and self._enrolments.reserved(mac) not in (None, name):
            return "this address is reserved for another host"
        held = self._members.at(mac)
        if held is not None and held.name != name:
            if not macs:
                return "another host is a member with this address"
            self._forget(held, now_ns, f"{held.name} is no member any more: its address is reserved for {name}")
        if not macs and (problem := self._moves(name, mac, now_ns)):
            return problem
        self._keys.admit(speaker, name, mac)
        return ""

    def _moves(self, name: str, mac: bytes, now_ns: int) -> str:
        """Ends what a host was at another address; why it may not move, if it may not."""
        before, since_ns = self._places.get(name, (mac, now_ns))
        if before != mac:
            if now_ns - since_ns < MOVE_NS:
                return "this host was here with another address a moment ago; try again in a second"
            if (other := self._members.at(before)) is not None and other.name == name:
                self._forget(other, now_ns, f"{name} is a member with another address now")
                self._keys.forget(before)
        if before != mac or name not in self._places:
            self._places[name] = mac, now_ns
        return ""

    def warnings(self) -> list[str]:
        return [line for line in (self._problem, SHARED_KEY if self._shared else "") if line]
