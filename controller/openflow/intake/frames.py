"""Gives discovery the frames that switches pass on: LLDP, and frames whose source a switch does not know. Pure."""

from __future__ import annotations

from controller.openflow.codec import Codec, FrameReceived, LldpReceived, Message, is_lldp
from controller.openflow.discovery import Discovery
from controller.openflow.intake.hosts import PortRef
from controller.openflow.intake.lldp import Doubt


def take(discovery: Discovery, codec: Codec, dpid: int, message: Message, now_ns: int) -> None:
    """Reads a packet-in of a switch, if its port is within its budget, and tells discovery what came in."""
    at = PortRef(dpid, message.match["in_port"])
    if not discovery.admits(at, is_lldp(message), now_ns):
        return
    match codec.frame(message, now_ns):
        case LldpReceived(_, Doubt() as why):
            discovery.lldp_doubted(at, why, now_ns)
        case LldpReceived(_, PortRef() as source, True):
            discovery.loop_heard(source, at, now_ns)
        case LldpReceived(_, PortRef() as source):
            discovery.lldp_heard(source, at, now_ns)
        case FrameReceived() as frame:
            discovery.frame_seen(at, frame.mac, now_ns, frame.address, frame.control, claims=frame.claims)
