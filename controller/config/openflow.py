"""The section `openflow` of the configuration: where switches connect, and the TLS between them and Baton. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from controller.config.fields import Address, Duration, File, Section, or_none
from controller.config.loopback import is_loopback
from controller.config.settings import TlsFiles
from protocol.units import MILLISECOND_NS as MS


class TlsSection(Section):
    """Files in PEM. A switch must show a certificate of this authority, and gets ours."""

    cert: File = Field(description="name the file with the controller's certificate")
    key: File = Field(description="name the file with the certificate's private key, mode 0600")
    ca: File = Field(description="name the file with the authority that signed the switches' certificates")

    def files(self, directory: Path) -> TlsFiles:
        """The names for the processes; relative ones count from `directory`."""
        return TlsFiles(*(str((directory / name).absolute()) for name in (self.cert, self.key, self.ca)))


class OpenFlowSection(Section):
    """The switches that Baton controls."""

    framework: Literal["ryu", "os-ken"] = Field("ryu", description="write ryu or os-ken")
    listen: Address = Field(
        ("127.0.0.1", 6653),
        description="write the address and port that switches connect to, such as 0.0.0.0:6653",
    )
    tls: Annotated[TlsSection | None, BeforeValidator(or_none)] = Field(
        None, description="write cert, key and ca, each with a file; none only on loopback"
    )
    control_first: bool = Field(True, description="write true or false")
    hosts_per_port: int = Field(128, ge=1, le=65_536, description="write how many addresses one port may have, such as 128")
    lldp_ns: Duration = Field(
        500 * MS, alias="lldp", ge=100 * MS, le=30_000 * MS, description="write a duration from 100ms to 30s, such as 500ms"
    )
    poll_ns: Duration = Field(250 * MS, alias="poll", ge=50 * MS, description="write 50ms or more, such as 1s")

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if self.tls is None and not is_loopback(self.listen[0]):
            where = self.listen[0]
            raise ValueError(f"listen {where} can be reached from elsewhere; write cert, key and ca under tls, or 127.0.0.1")
        return self
