"""`baton web`."""

from __future__ import annotations

from pathlib import Path

import click

from cli.reach import open_store, store_options
from webui.settings import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_USERS, WebSettings


@click.command()
@store_options
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="Address to listen on; any but loopback needs TLS.")
@click.option("--port", type=click.IntRange(1, 65535), default=DEFAULT_PORT, show_default=True)
@click.option("--cert", type=click.Path(path_type=Path, dir_okay=False), help="The server's certificate (PEM).")
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), help="The certificate's private key (PEM, mode 0600).")
@click.option(
    "--users",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_USERS,
    show_default=True,
    help="The users file that `baton user` and `baton token` write.",
)
@click.option("--login-to-read", is_flag=True, help="Require a login for reading, too.")
@click.option("--name", "names", multiple=True, help="A host name that browsers use for this server; may be repeated.")
def web(
    run_dir: Path,
    store: str | None,
    host: str,
    port: int,
    cert: Path | None,
    key: Path | None,
    users: Path,
    login_to_read: bool,
    names: tuple[str, ...],
) -> None:
    """Serve the dashboard, the REST interface and the metrics, until a signal ends it.

    `baton up` serves them too, if the configuration has a section `web`; use this command on another machine or port.
    """
    from webui.access.accounts import Accounts, AccountsError
    from webui.serve import CannotServe, check, run, url

    settings = WebSettings(
        host=host, port=port, cert=cert, key=key, users=users, login_to_read=login_to_read, names=names
    )
    try:
        where = open_store(run_dir, store).url
        check(where, settings)
        Accounts(users).session_secret()  # the supervised server logs a bad file and serves on: reading needs no login
        click.echo(f"{url(settings)} (dashboard), /v1.0 and /openapi.json (REST), /metrics (Prometheus)")
        run(where, settings)
    except (CannotServe, AccountsError) as error:
        raise click.ClickException(str(error)) from None
