"""`baton web`."""

from __future__ import annotations

from pathlib import Path

import click

from cli.reach import open_store, store_options

USERS = Path("/etc/baton/users.json")
"""As webui.settings has it; that package is slow to import, so `baton web --help` does without."""


@click.command()
@store_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; any but loopback needs TLS.")
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True)
@click.option("--cert", type=click.Path(path_type=Path, dir_okay=False), help="The server's certificate, PEM.")
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), help="Its private key, PEM, mode 0600.")
@click.option(
    "--users",
    type=click.Path(path_type=Path, dir_okay=False),
    default=USERS,
    show_default=True,
    help="The file of `baton user` and `baton token`.",
)
@click.option("--login-to-read", is_flag=True, help="Show nothing to who is not logged in.")
@click.option("--name", "names", multiple=True, help="A host name by which browsers ask for it.")
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

    `baton up` does this too (section `web` of the configuration); this is for another machine, or another port.
    """
    from webui.serve import CannotServe, check, run, url
    from webui.settings import WebSettings

    settings = WebSettings(
        host=host, port=port, cert=cert, key=key, users=users, login_to_read=login_to_read, names=names
    )
    try:
        where = open_store(run_dir, store).url
        check(where, settings)
        click.echo(f"{url(settings)} (dashboard), /v1.0 and /openapi.json (REST), /metrics (Prometheus)")
        run(where, settings)
    except CannotServe as error:
        raise click.ClickException(str(error)) from None
