"""The section `openflow` of the configuration: switches that Baton controls, and what protects the way to them. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from controller.config.fields import Duration, Section
from controller.config.settings import TlsFiles
from protocol.units import MILLISECOND_NS as MS


def _none(text: object) -> object:
    return None if text == "none" else text


def _listen(text: object) -> tuple[str, int]:
    address, _, port = str(text).rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address and a port")
    return address.strip("[]") or "127.0.0.1", int(port)


class Tls(Section):
    """Files in PEM. A switch must show a certificate of this authority, and sees ours."""

    cert: Path = Field(description="name the file with the controller's certificate")
    key: Path = Field(description="name the file with the certificate's private key, mode 0600")
    ca: Path = Field(description="name the file with the authority that signed the switches' certificates")

    def files(self, directory: Path) -> TlsFiles:
        """As processes are told, relative names taken from `directory`."""
        return TlsFiles(*(str((directory / name).absolute()) for name in (self.cert, self.key, self.ca)))


class OpenFlow(Section):
    """Switches that Baton controls."""

    framework: Literal["ryu", "os-ken"] = Field("ryu", description="write ryu or os-ken")
    listen: Annotated[tuple[str, int], BeforeValidator(_listen)] = Field(
        ("127.0.0.1", 6653),
        description="write the address and port that switches connect to, such as 0.0.0.0:6653",
    )
    tls: Annotated[Tls | None, BeforeValidator(_none)] = Field(
        None, description="write cert, key and ca, each with a file; without, nothing is hidden"
    )
    poll_ns: Duration = Field(1_000 * MS, alias="poll", ge=50 * MS, description="write 50ms or more, such as 1s")
