"""What the sections of the configuration are made of: the types of their fields. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from topology.interface_names import is_interface_name
from topology.units import parse_duration, parse_rate, parse_size

Duration = Annotated[int, BeforeValidator(parse_duration)]
Rate = Annotated[int, BeforeValidator(parse_rate)]
Size = Annotated[int, BeforeValidator(parse_size)]


def _address(text: object) -> tuple[str, int]:
    address, _, port = str(text).rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address and a port")
    return address.strip("[]") or "127.0.0.1", int(port)


Address = Annotated[tuple[str, int], BeforeValidator(_address)]
"""A host and a TCP port, "HOST:PORT" or "[IPV6]:PORT"; without a host, this machine alone."""


def _file(text: object) -> object:
    if not isinstance(text, str | Path):
        raise ValueError("is not a text")
    if not str(text).strip():
        raise ValueError("is empty")
    return text


File = Annotated[Path, BeforeValidator(_file)]
"""The name of a file or of a directory."""


def interface(text: str) -> str:
    """The name of an interface, unchanged. Raises ValueError."""
    if not is_interface_name(text):
        raise ValueError(f"{text!r} is no interface's name, which has 1 to 15 bytes without white space, slash and colon")
    return text


Interface = Annotated[str, AfterValidator(interface)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """A mapping in the YAML file. A field's alias is its name there; its description is the remedy that errors show."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _without_null_bytes(cls, value: object) -> object:
        """No name of a file, an interface or a namespace has one: the kernel would take what is before it."""
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str) and "\0" in text:
                raise ValueError(f"{text!r} has a null byte")
        return value


def or_none(text: object) -> object:
    """For a field that may be "none": None for that word, any other value unchanged."""
    return None if text == "none" else text
