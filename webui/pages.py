"""The dashboard's page: one template, and the plain modules and styles under static/. An edge: HTTP, files.

Nothing comes from elsewhere (no CDN), nothing is built, and the page holds no inline script: its policy forbids it. What it
shows comes by /api (webui/api.py) and /api/stream (webui/stream.py).

Modules and styles are read once and served under /assets/VERSION/, where VERSION is a digest of them all: a browser keeps them
for good, and asks for all anew when one has changed. Modules name each other relatively, so they stay within one version.
"""

from __future__ import annotations

import gzip
import hashlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from flask import Blueprint, Response, abort, make_response, render_template, request, url_for

STATIC = Path(__file__).parent / "static"
SHEETS = ("base.css", "layout.css", "views.css")
STYLE = "style.css"
"""The sheets as one file."""
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
YEAR_S = 31_536_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The content security policy of the page."""

pages = Blueprint("pages", __name__)


class Asset(NamedTuple):
    """A file as it is sent: as it is, and compressed."""

    content: bytes
    compressed: bytes
    mimetype: str


def _asset(content: bytes, suffix: str) -> Asset:
    return Asset(content, gzip.compress(content, mtime=0), TYPES[suffix])


def _assets() -> dict[str, Asset]:
    found = {path.name: _asset(path.read_bytes(), path.suffix) for path in STATIC.iterdir() if path.suffix in TYPES}
    found[STYLE] = _asset(b"".join(found.pop(sheet).content for sheet in SHEETS), ".css")
    return found


ASSETS = _assets()
VERSION = hashlib.blake2s(b"".join(ASSETS[name].content for name in sorted(ASSETS)), digest_size=8).hexdigest()
MODULES = sorted(name for name in ASSETS if name.endswith(".js") and name not in ("app.js", "theme.js"))
"""All but the entry and what runs before the first paint: a browser asks for all at once, not import after import."""


def _account() -> dict[str, Any]:
    """Who is logged in, and the token that changes need; both empty for somebody who may only look."""
    if find_spec("webui.auth") is None:
        return {"user": "", "csrf": ""}
    auth = import_module("webui.auth")
    return {"user": auth.current_user() or "", "csrf": auth.csrf_token()}


@pages.get("/")
def index() -> Response:
    """The dashboard."""

    def asset(name: str) -> str:
        return url_for("pages.asset", version=VERSION, name=name)

    page = make_response(render_template("index.html", asset=asset, style=STYLE, modules=MODULES, **_account()))
    page.headers["Content-Security-Policy"] = POLICY
    page.headers["X-Content-Type-Options"] = "nosniff"
    page.headers["Referrer-Policy"] = "same-origin"
    page.headers["Cache-Control"] = "no-store"
    return page


@pages.get("/assets/<version>/<name>")
def asset(version: str, name: str) -> Response:
    """A module, the style or the icon. A page from before an upgrade asks for another version: it gets ours, not to keep."""
    found = ASSETS.get(name)
    if found is None:
        abort(404)
    compress = request.accept_encodings.quality("gzip") > 0
    answer = Response(found.compressed if compress else found.content, mimetype=found.mimetype)
    answer.headers["Vary"] = "Accept-Encoding"
    answer.headers["Cache-Control"] = f"public, max-age={YEAR_S}, immutable" if version == VERSION else "no-store"
    if compress:
        answer.headers["Content-Encoding"] = "gzip"
    return answer


@pages.get("/favicon.ico")
def icon() -> Response:
    """What browsers ask for on pages that name no icon, such as the login."""
    return asset(VERSION, "icon.svg")
