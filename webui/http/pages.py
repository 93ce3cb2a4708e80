"""Serves the dashboard's page: one template, with the modules and styles under static/. An edge: HTTP, files.

The page loads nothing from other servers (no CDN), and nothing is compiled. It holds its style and the script that runs before
the first paint inline, so that the browser does not wait for them; its content security policy allows these two by their
digests, and nothing else inline. Its data come from /api (webui/http/api.py) and /api/stream (webui/http/stream.py).

The server reads the modules and styles once and joins them (webui/http/bundle.py). It serves the script under /assets/VERSION/,
where VERSION is a digest of all files: a browser caches it for good, and fetches it again when a file has changed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from flask import Blueprint, Response, abort, make_response, render_template, request, url_for
from markupsafe import Markup

from controller.store.layout import LEAST_WEIGHT, MOST_WEIGHT
from webui.access.auth import csrf_token, current_user
from webui.http.bundle import bundle

STATIC = Path(__file__).resolve().parents[1] / "static"
SHEETS = ("base.css", "layout.css", "views.css")
ENTRY, SCRIPT = "app.js", "baton.js"
"""The module that imports the others, and the file that joins them all. `early.js` is apart: it runs before the first paint."""
EARLY = "lib/early.js"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
YEAR_S = 31_536_000
WEIGHTS = {"least_weight": LEAST_WEIGHT, "most_weight": MOST_WEIGHT}
pages = Blueprint("pages", __name__)


class Asset(NamedTuple):
    """A file in memory: its content, plain and gzipped, and its type."""

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
    """Joins files into the content of an inline element. Raises ValueError: a file holds the element's end tag."""
    text = "".join((STATIC / name).read_text(encoding="utf-8") for name in names)
    if f"</{element}" in text.lower():
        raise ValueError(f"{', '.join(names)}: has the end of a {element} element")
    return Markup(text)


def _digest(text: str) -> str:
    """The digest of a text in the form of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


ASSETS = _assets()
VERSION = hashlib.blake2s(b"".join(ASSETS[name].content for name in sorted(ASSETS)), digest_size=8).hexdigest()
STYLE_TEXT, EARLY_TEXT = _inline("style", *SHEETS), _inline("script", EARLY)
POLICY = (
    f"default-src 'none'; script-src 'self' {_digest(EARLY_TEXT)}; style-src 'self' {_digest(STYLE_TEXT)}; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The content security policy of the page."""


@pages.get("/")
def index() -> Response:
    """Serves the dashboard's page."""

    def asset(name: str) -> str:
        return url_for("pages.asset", version=VERSION, name=name)

    account = {"user": current_user() or "", "csrf": csrf_token()}  # `user` is empty for a visitor, who may only read
    page = make_response(
        render_template("index.html", asset=asset, style=STYLE_TEXT, script=SCRIPT, early=EARLY_TEXT, **WEIGHTS, **account)
    )
    page.headers["Content-Security-Policy"] = POLICY
    page.headers["X-Content-Type-Options"] = "nosniff"
    page.headers["Referrer-Policy"] = "same-origin"
    page.headers["Cache-Control"] = "no-store"
    return page


@pages.get("/assets/<version>/<name>")
def asset(version: str, name: str) -> Response:
    """Serves the script, the icon or a file of the login page.

    A page from before an upgrade asks for another version: it gets the present files, but must not cache them.
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
    """Serves the icon where browsers look for it on pages that name none, such as the login."""
    return asset(VERSION, "icon.svg")
