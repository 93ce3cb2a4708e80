"""The section `web` of the configuration: where the dashboard listens, its TLS and its users. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from controller.config.fields import Address, File, Section
from controller.config.loopback import is_loopback

FILES = ("cert", "key", "users")


def _name(text: str) -> str:
    """A host's name, or the end of names after a dot. Raises ValueError: no browser can ask for it."""
    if not text.strip(". ") or len(text.split()) != 1:
        raise ValueError(f"{text!r} is no host's name")
    return text


class WebSection(Section):
    """The dashboard, its REST interface and its metrics."""

    listen: Address = Field(
        ("127.0.0.1", 8080), description="write an address and a port, such as 127.0.0.1:8080"
    )
    cert: File | None = Field(None, description="name the file with the server's certificate (PEM)")
    key: File | None = Field(None, description="name the file with the certificate's private key, mode 0600")
    users: File = Field(Path("/etc/baton/users.json"), description="name the file of `baton user` and `baton token`")
    login_to_read: bool = Field(False, description="write true or false")
    names: tuple[Annotated[str, AfterValidator(_name)], ...] = Field(
        (), description="list the host names by which browsers ask for it"
    )

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key go together; write both, or neither")
        if self.cert is None and not is_loopback(self.listen[0]):
            raise ValueError(f"listen {self.listen[0]} can be reached from elsewhere; write cert and key for TLS, or 127.0.0.1")
        return self

    def anchored(self, directory: Path) -> Self:
        """The section with absolute names of files; relative ones count from `directory`."""
        named = {name: getattr(self, name) for name in FILES}
        return self.model_copy(update={name: (directory / path).absolute() for name, path in named.items() if path is not None})
