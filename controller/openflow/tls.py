"""OpenFlow over TLS: admits switches by their certificate, and shows them ours. An edge: sockets, certificates' files.

Both frameworks have options for TLS (ctl-privkey, ctl-cert, ca-certs), which are set here; but Ryu's server forgets its
certificate after the first switch that connects, and neither server bounds a handshake. Our own
(controller/openflow/intake/server.py) serves each switch alike and tells each refusal. The files are read again when they have
changed: a certificate can be renewed without a restart.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path

from controller.config.settings import TlsFiles
from controller.openflow.framework import Framework
from protocol.key import open_to_others

log = logging.getLogger("baton.openflow")


class CertificateError(ValueError):
    """A file of `openflow.tls`, or of `web`, that can't be used: one line with the field and the remedy."""


def context(files: TlsFiles) -> ssl.SSLContext:
    """A server's TLS context: TLS 1.2 or newer, our certificate, and only clients with a certificate of this authority.

    Raises:
        CertificateError: a file is missing, is not what it should be, or is the key and others can read or own it.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_mode = ssl.CERT_REQUIRED
    load_pair(made, "openflow.tls", files.cert, files.key, os.geteuid())
    _read("openflow.tls.ca", files.ca)
    try:
        made.load_verify_locations(files.ca)
    except ssl.SSLError:
        raise CertificateError(f"openflow.tls.ca: {files.ca} holds no certificate in PEM; name the authority's") from None
    return made


def load_pair(made: ssl.SSLContext, section: str, cert: str, key: str, user: int) -> None:
    """Gives a context the certificate and the key that this section of the configuration names, for a process of this user.

    Raises:
        CertificateError: as `context`.
    """
    for field, name in (("cert", cert), ("key", key)):
        status = _read(f"{section}.{field}", name)
        if field == "key" and (complaint := open_to_others(status, user=user)):
            raise CertificateError(f"{section}.{field}: {name} {complaint}")

    def refuse() -> str:  # else OpenSSL asks at the terminal, and nobody is served until somebody answers
        raise CertificateError(f"{section}.key: {key} has a pass phrase; write it without one by openssl pkey")

    try:
        made.load_cert_chain(cert, key, refuse)
    except ssl.SSLError as error:
        text = f"{cert} and {key} are no pair of certificate and key in PEM ({error.reason}); make them anew"
        raise CertificateError(f"{section}.cert: {text}") from None


def _read(field: str, name: str) -> os.stat_result:
    """The status of a file that can be read. Raises CertificateError."""
    try:
        Path(name).read_bytes()
        return Path(name).stat()
    except OSError as error:
        raise CertificateError(f"{field}: {name} can't be read ({error.strerror}); name a PEM file") from None


def demand(framework: Framework, files: TlsFiles) -> Callable[[], ssl.SSLContext]:
    """Has the framework listen by TLS, on the port where it would have listened without. Returns what gives the TLS context for
    each connection. Raises CertificateError."""
    certificates = _Certificates(files)
    conf = framework.conf
    conf.set_override("ctl_privkey", files.key)
    conf.set_override("ctl_cert", files.cert)
    conf.set_override("ca_certs", files.ca)
    conf.set_override("ofp_ssl_listen_port", conf.ofp_tcp_listen_port)
    return certificates.current


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
