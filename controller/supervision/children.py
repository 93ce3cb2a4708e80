"""The web server among the supervised processes. An edge: sockets.

It is started last and nothing waits for it: no dashboard is no reason not to coordinate.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

from controller.config.schema import Config
from controller.config.web import Web
from controller.processes.services import Services

WEB = "web"


def restart(
    config: Config,
    store: str,
    services: Services,
    run: Callable[[str, list[str], dict[str, str]], None],
    tell: Callable[[str, str, str], None],
) -> None:
    """Starts it as the configuration says, in place of the one that runs; tells what hinders it."""
    services.stop(WEB)
    if config.web is None:
        return
    if hindrance := taken(config.web):
        tell(WEB, "warning", f"no dashboard: {hindrance}; write another web.listen, or web: none")
        return
    run(WEB, command(config.web), {"BATON_REDIS": store})  # an argument could be read by everybody


def command(web: Web) -> list[str]:
    """What runs it; it finds the store in BATON_REDIS."""
    host, port = web.listen
    words = [sys.executable, "-m", "webui.serve", "--users", str(web.users), "--host", host, "--port", str(port)]
    if web.cert is not None:
        words += ["--cert", str(web.cert), "--key", str(web.key)]
    if web.login_to_read:
        words.append("--login-to-read")
    for name in web.names:
        words += ["--name", name]
    return words


def taken(web: Web) -> str:
    """Why nobody can listen there; empty if somebody can."""
    host, port = web.listen
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        return f"{host}:{port}: {error.strerror}"
    return ""
