"""OpenFlow over TLS: admits switches by their certificate, and shows them ours. An edge: sockets, certificates' files.

Both frameworks have options for TLS (ctl-privkey, ctl-cert, ca-certs), which are set here; but Ryu's server forgets its
certificate after the first switch that connects, and neither server bounds a handshake. So we replace the server by one that
serves each switch alike, logs each refusal, and reads the files again when they have changed: a certificate can be renewed
without a restart.
"""

from __future__ import annotations

import importlib
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.config.settings import TlsFiles
from controller.openflow.framework import Framework

log = logging.getLogger("baton.openflow")

HANDSHAKE_S = 5


class CertificateError(ValueError):
    """A file of `openflow.tls` that can't be used: one line with the field and the remedy."""


def context(files: TlsFiles) -> ssl.SSLContext:
    """A server's TLS context: TLS 1.2 or newer, our certificate, and only clients with a certificate of this authority.

    Raises:
        CertificateError: a file is missing, or is not what it should be.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_mode = ssl.CERT_REQUIRED
    for field, name in files._asdict().items():
        try:
            Path(name).read_bytes()
        except OSError as error:
            raise CertificateError(f"openflow.tls.{field}: {name} can't be read ({error.strerror}); name a PEM file") from None
    try:
        made.load_cert_chain(files.cert, files.key)
    except ssl.SSLError as error:
        text = f"{files.cert} and {files.key} are no pair of certificate and key in PEM ({error.reason}); make them anew"
        raise CertificateError(f"openflow.tls.cert: {text}") from None
    try:
        made.load_verify_locations(files.ca)
    except ssl.SSLError:
        raise CertificateError(f"openflow.tls.ca: {files.ca} holds no certificate in PEM; name the authority's") from None
    return made


def demand(framework: Framework, files: TlsFiles, refused: Callable[[str], None]) -> None:
    """Has the framework listen by TLS only, on the port where it would have listened without. Calls `refused` with a text for
    every switch that it refuses, once for each reason. Raises CertificateError."""
    server = _Certificates(files)
    conf = framework.conf
    conf.set_override("ctl_privkey", files.key)
    conf.set_override("ctl_cert", files.cert)
    conf.set_override("ca_certs", files.ca)
    conf.set_override("ofp_ssl_listen_port", conf.ofp_tcp_listen_port)
    controller: Any = importlib.import_module(f"{framework.root}.controller.controller")
    controller.StreamServer = lambda address, handle, **_: _Server(address, handle, server.current, refused)


class _Certificates:
    """The TLS context of the files as they are now, or of their last usable content."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._context, self._stamp = context(files), self._look()

    def current(self) -> ssl.SSLContext:
        if (stamp := self._look()) != self._stamp:
            self._stamp = stamp
            try:
                self._context = context(self._files)
                log.info("the certificate's files were read again")
            except CertificateError as error:
                log.warning("the last good certificate stays: %s", error)
        return self._context

    def _look(self) -> tuple[int, ...]:
        try:
            return tuple(Path(name).stat().st_mtime_ns for name in self._files)
        except OSError:
            return ()


class _Server:
    """Takes the place of the frameworks' StreamServer."""

    def __init__(
        self,
        address: tuple[str, int],
        handle: Callable[[Any, Any], None],
        current: Callable[[], ssl.SSLContext],
        refused: Callable[[str], None],
    ) -> None:
        import eventlet  # patched by the framework first

        self._eventlet: Any = eventlet
        self._listener: Any = eventlet.listen(address)
        self._handle = handle
        self._current = current
        self._tell_refused = refused
        self._refused: dict[str, str] = {}

    def serve_forever(self) -> None:
        while True:
            connection, address = self._listener.accept()
            self._eventlet.spawn(self._serve, connection, address)

    def _serve(self, connection: Any, address: tuple[Any, ...]) -> None:  # noqa: ANN401 -- a green socket
        green: Any = importlib.import_module("eventlet.green.ssl")
        try:
            with self._eventlet.Timeout(HANDSHAKE_S, TimeoutError("no handshake")):
                secure = green.GreenSSLSocket(connection, server_side=True, _context=self._current())
        except OSError as error:  # of which SSLError is one
            reason = getattr(error, "verify_message", "") or getattr(error, "reason", None) or str(error)
            if self._refused.get(address[0]) != reason:  # it connects again every few seconds
                self._refused[address[0]] = reason
                text = f"a switch at {address[0]} is refused: {reason}; see docs/operating.md on certificates"
                log.warning("%s", text)
                self._tell_refused(text)
            connection.close()
            return
        self._refused.pop(address[0], None)
        self._handle(secure, address)
