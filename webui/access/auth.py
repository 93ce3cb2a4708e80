"""Authentication and authorization of requests: the blueprint `auth`. An edge: Flask, the clock, the users file, the audit
stream.

Reading needs no login (unless `login_to_read`), changing does. A person logs in by a form and holds a session: a signed cookie
that scripts can't read and other sites can't send. Each change that comes with a session must carry its CSRF token, in the
header X-CSRF-Token or the form field csrf_token. A program sends `Authorization: Bearer TOKEN` instead; it needs no cookie
and no CSRF token, since no browser adds that header by itself.

Other blueprints use `login_required`, `csrf_token` and `current_user` (both also in templates), and `audit`. Registering the
blueprint is all the set-up: it takes the store and the settings from the application's extensions.

    @api.post("/api/control")
    @login_required
    def control() -> ResponseReturnValue:
        ...
        audit("policy set to rate_limit", policy="rate_limit")     # else the method and the path are recorded

Every answer forbids scripts, styles and frames of other origins (Content-Security-Policy). Scripts and styles are files of this
server; only the dashboard's page holds one of each inline, which its policy names by their digests (webui/http/pages.py). An
element's style attribute is allowed.
"""

from __future__ import annotations

import functools
import hmac
import logging
import secrets
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, ParamSpec
from urllib.parse import urlsplit

from flask import (
    Blueprint,
    Flask,
    Response,
    abort,
    current_app,
    g,
    jsonify,
    make_response,
    redirect,
    render_template,
    request,
    session,
    url_for,
)
from flask.sansio.blueprints import BlueprintSetupState
from flask.sessions import SecureCookieSessionInterface
from flask.typing import ResponseReturnValue
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import HTTPException, TooManyRequests, Unauthorized

from controller.store.store import StoreUnavailable
from protocol.units import SECOND_NS
from webui.access.accounts import LONGEST, Accounts, AccountsError
from webui.access.browsers import KNOWN_S, cookie_of, number_of
from webui.access.guard import Attempt
from webui.access.logins import Logins
from webui.access.names import OwnNames
from webui.access.origin import origin_of
from webui.settings import SETTINGS, STORE, USER

log = logging.getLogger("baton.web.auth")
P = ParamSpec("P")

IDLE_S = 3_600
LIFETIME_S = 12 * 3_600
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY = (
    "default-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
LARGEST_BODY = 1 << 20
AUTH, OWN_NAMES = "baton.auth", "baton.names"
"""The names of `Logins` and of `OwnNames` (None: any name will do) in `Flask.extensions`."""

auth = Blueprint("auth", __name__)


class _Sessions(SecureCookieSessionInterface):
    """Flask's signed cookies, with the present secret of the users file."""

    def get_signing_serializer(self, app: Flask) -> Any:  # noqa: ANN401 -- itsdangerous' class, or None
        try:
            app.secret_key = _of(app).accounts.session_secret()
        except AccountsError as error:
            log.error("%s; logins are impossible", error)
        return super().get_signing_serializer(app)


@auth.record_once
def _begin(setup: BlueprintSetupState) -> None:
    """Sets up the application's sessions and the `Logins` state."""
    app, settings = setup.app, setup.app.extensions[SETTINGS]
    assert isinstance(app, Flask)
    app.extensions[AUTH] = Logins(app.extensions[STORE], Accounts(settings.users), login_to_read=settings.login_to_read)
    app.config.update(
        SESSION_COOKIE_NAME="__Host-baton" if settings.secure else "baton",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Strict",
        SESSION_COOKIE_SECURE=settings.secure,
        SESSION_COOKIE_PATH="/",
        PERMANENT_SESSION_LIFETIME=IDLE_S,
    )
    is_named = settings.names or bind_error(settings.host, tls=False) is None
    app.extensions[OWN_NAMES] = OwnNames(settings.names) if is_named else None
    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_CONTENT_LENGTH"] or LARGEST_BODY
    app.secret_key = secrets.token_hex()
    app.session_interface = _Sessions()
    app.jinja_env.globals.update(csrf_token=csrf_token, current_user=current_user)


def bind_error(address: str, *, tls: bool) -> str | None:
    """Why the dashboard must not listen on this address, in one line with the remedy; None if it may."""
    try:
        loopback = ip_address(address).is_loopback
    except ValueError:
        loopback = address == "localhost"
    if loopback or tls:
        return None
    return f"listen: other machines can reach {address}, so passwords need TLS; give a certificate, or listen on 127.0.0.1"


# -- for the other blueprints -------------------------------------------------------------------------------------------


def current_user() -> str | None:
    """The sender of the request: a user's name, "token NAME", or None for a visitor. Raises Unauthorized: an unknown token."""
    if "baton_user" not in g:
        g.baton_user = request.environ[USER] = _by_token() if "Authorization" in request.headers else _by_session()
    user: str | None = g.baton_user
    return user


def still() -> Callable[[], bool]:
    """A function that tells, later and in any thread, whether the sender of this request still has the access that it has now.
    What can't be looked up is taken for granted: a stream goes on while the store is away."""
    state, user = _of(current_app), current_user()
    if user is None:
        return lambda: True
    if g.get("baton_token"):
        text = request.headers["Authorization"].partition(" ")[2].strip()

        def known() -> bool:
            return state.accounts.token(text, now_s=state.now_s()) is not None
    else:
        identifier, generation, since_s = str(session.get("id")), session.get("generation"), session.get("since_s", 0)

        def known() -> bool:
            same = state.accounts.generation(user) == generation and state.now_s() < since_s + LIFETIME_S
            return same and state.store.sessions.lives(identifier)

    def told() -> bool:
        try:
            return known()
        except (AccountsError, StoreUnavailable):
            return True

    return told


def csrf_token() -> str:
    """The CSRF token that this browser must send with each change; begins a session if there is none."""
    if "csrf" not in session:
        session["csrf"] = secrets.token_urlsafe()
    return str(session["csrf"])


def login_required(view: Callable[P, ResponseReturnValue]) -> Callable[P, ResponseReturnValue]:
    """Makes a view require a login, and the CSRF token for a change; records each change, by its path if not by `audit`."""

    @functools.wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> ResponseReturnValue:
        if current_user() is None:
            return _refuse_visitor()
        if request.method in SAFE:
            return view(*args, **kwargs)
        if not g.get("baton_token"):
            _check_csrf()
        try:
            response = make_response(view(*args, **kwargs))
        except HTTPException as error:
            _audit_path(error.code or 500)
            raise
        _audit_path(response.status_code)
        return response

    return guarded


def audit(text: str, *, severity: str = "info", **fields: str | int | float | bool | None) -> None:
    """Records the user and the action as an event of kind `audit` and a line in the log. Never fails the request."""
    who = current_user() or "visitor"
    g.baton_audited = True
    log.info("audit: %s from %s: %s", who, request.remote_addr, "".join(c if c.isprintable() else "?" for c in text))
    try:
        _of(current_app).store.publish_event("audit", severity, f"{who}: {text}", by=who, address=request.remote_addr, **fields)
    except StoreUnavailable as error:
        log.warning("not in the audit stream: %s", error)


# -- pages --------------------------------------------------------------------------------------------------------------


@auth.get("/login")
def login() -> ResponseReturnValue:
    """Shows the login form."""
    return _form("", 200)


@auth.post("/login")
def log_in() -> ResponseReturnValue:
    """Checks the login form: redirects to the page that was asked for, or shows the form again with the error."""
    _check_csrf()
    state = _of(current_app)
    name, password = request.form.get("user", "")[:64].lower(), request.form.get("password", "")[: LONGEST + 1]
    secret, address = state.accounts.session_secret(), request.remote_addr or ""
    browser = number_of(secret, request.cookies.get(_browser_cookie(), ""), name, now_s=state.now_s())
    attempt = Attempt(name, origin_of(address), browser)
    if wait_ns := state.wait_ns(attempt):
        state.refused("too many attempts", attempt, address)
        raise TooManyRequests("too many attempts; wait and try again", retry_after=-(-wait_ns // SECOND_NS))
    generation = state.accounts.generation(name)  # a password that changes from here on ends the session that begins below
    if not state.accounts.is_password(name, password):
        state.refused("wrong name or password", attempt, address)
        return _form("wrong name or password", 401)
    identifier = secrets.token_hex(16)
    state.store.sessions.begin(identifier, name, LIFETIME_S)
    with state.lock:
        state.guard.succeeded(attempt)
    session.clear()  # against session fixation: an attacker may have set the visitor's cookie
    session.permanent = True
    session["user"], session["generation"] = name, generation
    session["id"], session["since_s"] = identifier, state.now_s()
    g.baton_user = name
    csrf_token()
    audit("logged in")
    answer = redirect(_local(request.form.get("next", "")), 303)
    known = cookie_of(secret, name, attempt.browser or secrets.token_hex(16), now_s=state.now_s())
    secure = bool(current_app.config["SESSION_COOKIE_SECURE"])
    answer.set_cookie(_browser_cookie(), known, KNOWN_S, secure=secure, httponly=True, samesite="Strict", path="/")
    return answer


@auth.post("/logout")
def logout() -> ResponseReturnValue:
    """Leads to the page, as a visitor: a page that has been open for long, or another tab's, may log out again."""
    return redirect("/", 303) if current_user() is None else _end_session()


@login_required
def _end_session() -> ResponseReturnValue:
    """Ends the session for good, also for anyone who copied its cookie, and for a web server that is started later."""
    if "id" in session:
        _of(current_app).store.sessions.end(session["id"])
    audit("logged out")
    session.clear()
    return redirect("/", 303)


@auth.get("/api/session")
def who() -> ResponseReturnValue:
    """The user who is logged in, and the CSRF token for changes: {"user": name or null, "csrf": text}."""
    answer = jsonify(user=current_user(), csrf=csrf_token())
    answer.headers["Cache-Control"] = "no-store"
    return answer


@auth.app_errorhandler(AccountsError)
def _no_accounts(error: AccountsError) -> ResponseReturnValue:
    log.error("%s", error)
    return jsonify(error="the users file can't be read", remedy="see the web server's log for the cause"), 503


# -- inside -------------------------------------------------------------------------------------------------------------


def _of(app: Flask) -> Logins:
    state: Logins = app.extensions[AUTH]
    return state


def _by_token() -> str | None:
    kind, _, text = request.headers["Authorization"].partition(" ")
    state = _of(current_app)
    token = state.accounts.token(text.strip(), now_s=state.now_s()) if kind.lower() == "bearer" else None
    if token is None:
        raise Unauthorized("no such token; `baton token create` makes one", www_authenticate=_challenge())
    g.baton_token = True
    return f"token {token.name}"


def _by_session() -> str | None:
    state, name = _of(current_app), session.get("user")
    if name is None:
        return None
    fresh = state.now_s() < session.get("since_s", 0) + LIFETIME_S
    try:
        fresh = fresh and state.store.sessions.lives(str(session.get("id")))
    except StoreUnavailable as error:
        log.warning("a session can't be checked, and counts as a visitor's: %s", error)
        return None
    if not fresh or state.accounts.generation(name) != session.get("generation"):
        session.clear()
        return None
    return str(name)


def _browser_cookie() -> str:
    return "__Host-baton-browser" if current_app.config["SESSION_COOKIE_SECURE"] else "baton-browser"


def _check_csrf() -> None:
    given = request.headers.get("X-CSRF-Token") or request.form.get("csrf_token", "")
    wanted = session.get("csrf", "")
    origin = request.headers.get("Origin")
    elsewhere = origin is not None and _netloc(origin) != request.host
    if elsewhere or not wanted or not hmac.compare_digest(given.encode(), wanted.encode()):
        abort(403, "the CSRF token is missing or of another session; reload the page and try again")


def _netloc(url: str) -> str | None:
    """Host and port of a URL; None for what is none."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


@auth.before_app_request
def _named() -> None:
    """Refuses requests to another name than this server's."""
    names: OwnNames | None = current_app.extensions[OWN_NAMES]
    if names is not None and request.host not in names:
        abort(400, "this server has another name; the setting web.names (--name) lists its names")


@auth.before_app_request
def _reading() -> ResponseReturnValue | None:
    """With `login_to_read`, refuses visitors everything but the login page and its files."""
    if not _of(current_app).login_to_read or request.endpoint in (None, "static") or request.blueprint == "auth":
        return None
    return None if current_user() is not None else _refuse_visitor()


def _refuse_visitor() -> ResponseReturnValue:
    accepted = request.accept_mimetypes
    wants_page = "text/html" in accepted.values() and accepted.quality("text/html") > 0.9  # a program that accepts all does not
    if wants_page and request.method in SAFE:
        return redirect(url_for("auth.login", next=request.full_path.rstrip("?")), 303)
    raise Unauthorized("log in, or send Authorization: Bearer TOKEN", www_authenticate=_challenge())


def _challenge() -> WWWAuthenticate:
    return WWWAuthenticate("bearer", {"realm": "baton"})


def _audit_path(status: int) -> None:
    if not g.get("baton_audited"):
        audit(f"{request.method} {request.path}: {status}", status=status)


def _local(path: str) -> str:
    """The path to go to after the login: always one of this server."""
    fine = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if fine else "/"


def _form(error: str, status: int) -> ResponseReturnValue:
    wanted = _local(request.values.get("next", "/"))
    users = bool(_of(current_app).accounts.users())
    page = make_response(render_template("auth/login.html", error=error, next=wanted, users=users), status)
    page.headers["Cache-Control"] = "no-store"
    return page


@auth.after_app_request
def _harden(response: Response) -> Response:
    response.headers.setdefault("Content-Security-Policy", POLICY)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    if current_app.config["SESSION_COOKIE_SECURE"]:
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
    return response
