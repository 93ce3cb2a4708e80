"""The SNMP credentials for a managed switch: a YAML file of their own, mode 0600. An edge: reads the file.

    version: 2c                  # or 3, which alone encrypts
    community: fabric-readers

    version: 3
    user: baton
    auth: sha                    # sha, sha224, sha256, sha384, sha512
    auth_password: ...           # eight characters or more (RFC 3414, section 11.2)
    priv: aes                    # aes, aes192, aes256
    priv_password: ...
    context: vlan-10             # where a switch has a tree for each VLAN; left out, the default

No error, log or document ever shows a value of this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from protocol.key import KeyFileError, read_secret

LEAST_PASSWORD = 8
Password = Annotated[SecretStr, Field(min_length=LEAST_PASSWORD)]


class CredentialsError(ValueError):
    """A file of credentials that can't be used: one line with the field and the remedy, without any value."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Community(_Entry):
    """SNMP version 2c (RFC 1901): a community that is sent in clear text."""

    version: Annotated[Literal["2c"], BeforeValidator(str)] = Field(description="write 2c, or 3")
    community: SecretStr = Field(min_length=1, description="write the switch's community for reading")


class User(_Entry):
    """SNMP version 3 (RFC 3414): authenticated and encrypted, always."""

    version: Annotated[Literal["3"], BeforeValidator(str)] = Field(description="write 2c, or 3")
    user: str = Field(min_length=1, description="write the user's name")
    auth: Literal["sha", "sha224", "sha256", "sha384", "sha512"] = Field(
        "sha", description="write sha, sha224, sha256, sha384 or sha512"
    )
    auth_password: Password = Field(description="write eight characters or more")
    priv: Literal["aes", "aes192", "aes256"] = Field("aes", description="write aes, aes192 or aes256")
    priv_password: Password = Field(description="write eight characters or more")
    context: str = Field("", max_length=32, description="write a context's name of at most 32 characters, or leave it out")


Credentials = Community | User


def load(path: Path) -> Credentials:
    """Reads a file of credentials.

    Raises:
        CredentialsError: it is missing, open to others, or not such a file.
    """
    try:
        text = read_secret(path, "credentials file")
    except KeyFileError as error:
        raise CredentialsError(str(error)) from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Credentials:
    """The credentials in a text; errors call it `name`. Raises CredentialsError."""
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):  # whose text would show the line
        raise CredentialsError(f"credentials {name}: is not YAML; write version: and what belongs to it") from None
    if not isinstance(content, dict):
        raise CredentialsError(f"credentials {name}: holds no fields; write version: 2c or version: 3, and what belongs to it")
    model: type[Credentials] = User if str(content.get("version")) == "3" else Community
    try:
        return TypeAdapter(model).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = str(first["loc"][0])
    if first["type"] == "extra_forbidden" or field not in model.model_fields:
        raise CredentialsError(f"credentials {name}: {field} is unknown; write {', '.join(model.model_fields)}")
    what = "is missing" if first["type"] == "missing" else "can't be used"
    raise CredentialsError(f"credentials {name}: {field} {what}; {model.model_fields[field].description}")
