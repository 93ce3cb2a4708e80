"""The connections of the switches, by datapath id: who has one, and sending to those that read. An edge: OpenFlow."""

from __future__ import annotations

from collections.abc import Iterable

from controller.openflow import codec
from controller.openflow.intake.hosts import Request
from controller.openflow.roles import Claim
from controller.openflow.view import View


class Connections(dict[int, codec.Datapath]):
    """The datapaths by datapath id."""

    def serves(self, datapath: codec.Datapath) -> bool:
        """Whether this is a switch's connection; False: another has replaced it, or it was turned away."""
        return self.get(datapath.id) is datapath

    def has_rival(self, datapath: codec.Datapath) -> bool:
        """Whether a switch that has connected has the datapath id of another one, which answers: they have no port in common.
        Each would end the other's connection, again and again."""
        other = self.get(datapath.id)
        if other is None or other is datapath or codec.is_silent(other):
            return False
        theirs, its = codec.addresses(other), codec.addresses(datapath)
        return bool(theirs and its) and theirs.isdisjoint(its)

    def in_words(self, dpid: int) -> str:
        """The connection of a switch in words; "": it has none."""
        datapath = self.get(dpid)
        return "" if datapath is None else codec.connection(datapath)

    @property
    def ports(self) -> int:
        """How many ports the connected switches have."""
        return sum(len(datapath.ports) for datapath in self.values())

    def here(self, view: View) -> list[int]:
        """The switches of this view that connect from this machine."""
        return [dpid for dpid in view.switches if dpid in self and codec.is_here(self[dpid])]

    def has_room(self, dpid: int) -> bool:
        """Whether nothing has to wait for a switch. One that is not connected is sent nothing."""
        datapath = self.get(dpid)
        return datapath is None or codec.has_room(datapath)

    def send(self, dpid: int, messages: list[codec.Message]) -> bool:
        """Sends messages to a switch in one write; False if it is not connected, or does not read: nothing waits for it."""
        datapath = self.get(dpid)
        if datapath is None or not codec.has_room(datapath):
            return False
        if messages:
            datapath.send(codec.batch(datapath, messages))
        return True

    def send_or_end(self, dpid: int, messages: list[codec.Message]) -> None:
        """Sends what a switch can't do without. The connection of one that does not read ends: it gets it by the next one."""
        if not self.send(dpid, messages):
            self[dpid].close()

    def claim_role(self, dpid: int, claim: Claim) -> None:
        """Claims our role at a switch."""
        self.send_or_end(dpid, [codec.claim_role(self[dpid], claim)])

    def ask(self, requests: Iterable[Request]) -> None:
        """Sends ARP requests to hosts."""
        for request in requests:
            datapath = self.get(request.at.dpid)
            if datapath is not None:
                self.send(request.at.dpid, [codec.request(datapath, request)])
