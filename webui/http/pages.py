"""The dashboard's page: one template, and the plain modules and styles under static/. An edge: HTTP, files.

Nothing comes from elsewhere (no CDN), and nothing is compiled. The page holds its style, and the script that runs before the
first paint, so that neither is waited for; its policy allows these two by their digests, and no other. What it shows comes by
/api (webui/http/api.py) and /api/stream (webui/http/stream.py).

Modules and styles are read once, each kind made one (webui/http/bundle.py). The script is served under /assets/VERSION/, where
VERSION is a digest of all: a browser keeps it for good, and asks for it anew when something has changed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from flask import Blueprint, Response, abort, make_response, render_template, request, url_for
from markupsafe import Markup

from webui.http.bundle import bundle

STATIC = Path(__file__).resolve().parents[1] / "static"
SHEETS = ("base.css", "layout.css", "views.css")
ENTRY, SCRIPT = "app.js", "baton.js"
"""The module that uses the others, and all of them as one file. `early.js` is apart: it runs before the first paint."""
EARLY = "lib/early.js"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
YEAR_S = 31_536_000
pages = Blueprint("pages", __name__)


class Asset(NamedTuple):
    """A file as it is sent: as it is, and compressed."""

    content: bytes
    compressed: bytes
    mimetype: str


def _asset(content: bytes, suffix: str) -> Asset:
    return Asset(content, gzip.compress(content, mtime=0), TYPES[suffix])


def _assets() -> dict[str, Asset]:
    inline = (*SHEETS, EARLY)
    files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.suffix in TYPES}
    found = {name: _asset(path.read_bytes(), path.suffix) for name, path in files.items() if name not in inline}
    modules = {name: found.pop(name).content.decode() for name in list(found) if name.endswith(".js")}
    found[SCRIPT] = _asset(bundle(modules, ENTRY).encode(), ".js")
    return found


def _inline(element: str, *names: str) -> Markup:
    """Files as the content of an element of the page. Raises ValueError: one would end the element."""
    text = "".join((STATIC / name).read_text(encoding="utf-8") for name in names)
    if f"</{element}" in text.lower():
        raise ValueError(f"{', '.join(names)}: has the end of a {element} element")
    return Markup(text)


def _digest(text: str) -> str:
    """As a content security policy names what it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


ASSETS = _assets()
VERSION = hashlib.blake2s(b"".join(ASSETS[name].content for name in sorted(ASSETS)), digest_size=8).hexdigest()
STYLE_TEXT, EARLY_TEXT = _inline("style", *SHEETS), _inline("script", EARLY)
POLICY = (
    f"default-src 'none'; script-src 'self' {_digest(EARLY_TEXT)}; style-src 'self' {_digest(STYLE_TEXT)}; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The content security policy of the page."""


def _account() -> dict[str, Any]:
    """Who is logged in, and the token that changes need; both empty for somebody who may only look."""
    if find_spec("webui.access.auth") is None:
        return {"user": "", "csrf": ""}
    auth = import_module("webui.access.auth")
    return {"user": auth.current_user() or "", "csrf": auth.csrf_token()}


@pages.get("/")
def index() -> Response:
    """The dashboard."""

    def asset(name: str) -> str:
        return url_for("pages.asset", version=VERSION, name=name)

    content = render_template("index.html", asset=asset, style=STYLE_TEXT, script=SCRIPT, early=EARLY_TEXT, **_account())
    page = make_response(content)
    page.headers["Content-Security-Policy"] = POLICY
    page.headers["X-Content-Type-Options"] = "nosniff"
    page.headers["Referrer-Policy"] = "same-origin"
    page.headers["Cache-Control"] = "no-store"
    return page


@pages.get("/assets/<version>/<name>")
def asset(version: str, name: str) -> Response:
    """The script, the icon or a file of the login page.

    A page from before an upgrade asks for another version: it gets ours, not to keep.
    """
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
