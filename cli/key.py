"""`baton key`."""

from __future__ import annotations

from pathlib import Path

import click

from protocol.key import Key, KeyFileError


@click.group()
def key() -> None:
    """The shared key, without which nobody can grant or take permission."""


@key.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def generate(file: Path) -> None:
    """Write a new random key to FILE (mode 0600); a file that is there is never overwritten.

    Copy it to the controller and to every host, readable by root only.
    """
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Key.generate(file)
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}; name a directory you may write") from None
    click.echo(f"{file} written; copy it to the controller and to every host, and keep it secret")
