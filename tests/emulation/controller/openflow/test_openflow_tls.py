"""OpenFlow over TLS: a real Open vSwitch, certificates made by openssl, Ryu and os-ken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.config.settings import OpenFlowSettings, TlsFiles
from controller.openflow.tls import CertificateError, context
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests.emulation.ovs_private import PrivateNetwork, missing, until

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl (apt-get install openssl)"),
]
ROOT = Path(__file__).parents[4]
PORT = 6653


def openssl(*arguments: str) -> None:
    subprocess.run(("openssl", *arguments), check=True, capture_output=True)


class Authority:
    """A certificate authority in a directory, and what it signs."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self.certificate, self._key = directory / f"{name}.pem", directory / f"{name}.key"
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        self._new = curve
        where = ("-keyout", str(self._key), "-out", str(self.certificate))
        openssl("req", "-x509", *curve, "-subj", f"/CN={name}", "-days", "2", *where)

    def sign(self, name: str) -> tuple[str, str]:
        """The names of a certificate and its key."""
        cert, key, request = (str(self._directory / f"{name}.{end}") for end in ("crt", "key", "csr"))
        openssl("req", *self._new, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        signer = ("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial")
        openssl("x509", "-req", "-in", request, *signer, "-days", "2", "-out", cert)
        return cert, key


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "fabric-ca")


@pytest.fixture
def files(authority: Authority) -> TlsFiles:
    return TlsFiles(*authority.sign("controller"), str(authority.certificate))


@pytest.fixture
def network() -> Iterator[PrivateNetwork]:
    with PrivateNetwork() as made:
        yield made


def start_controller(network: PrivateNetwork, framework: str, files: TlsFiles, store: str = "unix:///none.sock") -> None:
    settings = network.directory / "openflow.json"
    settings.write_text(OpenFlowSettings(framework=framework, tls=files).to_json())
    env = {
        "BATON_SUPERVISED": "1",
        "BATON_CONFIG": str(settings),
        "BATON_REDIS": store,
        "PYTHONPATH": str(ROOT),
    }
    listen = ("--listen-host", "127.0.0.1", "--listen-port", str(PORT))
    command = (sys.executable, "-m", "controller.openflow.framework", framework, *listen)
    network.spawn("controller", "env", "-C", str(ROOT), *command, env=env)


def connected(network: PrivateNetwork, *switches: str) -> bool:
    network.ovs.refresh()
    return all(network.ovs.vsctl("get", "controller", name, "is_connected").strip() == "true" for name in switches)


def told(store: Store) -> list[str]:
    """The events of refused switches."""
    return [event["text"] for event in store.events(100) if event["kind"] == "switch_refused"]


def shown_by_openssl(network: PrivateNetwork, *options: str) -> str:
    """What `openssl s_client` says of the controller's port."""
    command = ("ip", "netns", "exec", network.fabric, "openssl", "s_client", "-connect", f"127.0.0.1:{PORT}", *options)
    done = subprocess.run(command, input="", capture_output=True, text=True, errors="replace", check=False, timeout=10)
    return done.stdout + done.stderr


@pytest.mark.parametrize("framework", ["ryu", "os-ken"])
def test_switches_with_a_certificate_get_in_one_after_the_other_and_others_do_not(
    framework: str, network: PrivateNetwork, authority: Authority, files: TlsFiles, tmp_path: Path
) -> None:
    start_controller(network, framework, files)
    cert, key = authority.sign("switch")
    network.ovs.vsctl("set-ssl", key, cert, str(authority.certificate))
    for number, name in enumerate(("s1", "s2"), 1):  # Ryu's own server lets in one
        network.add_switch(name, number, f"ssl:127.0.0.1:{PORT}")
    until(lambda: connected(network, "s1", "s2"), 20, f"both connected: {network.log('controller')}")
    good = shown_by_openssl(network, "-cert", cert, "-key", key, "-CAfile", str(authority.certificate))
    assert "Verify return code: 0 (ok)" in good
    assert "TLSv1.3" in good or "TLSv1.2" in good

    stranger = Authority(tmp_path, "other-ca")
    cert, key = stranger.sign("stranger")
    # By TLS 1.2: by 1.3 a client is through with its handshake before it hears that it is refused.
    assert "alert unknown ca" in shown_by_openssl(network, "-tls1_2", "-cert", cert, "-key", key)
    assert "alert handshake failure" in shown_by_openssl(network, "-tls1_2")  # without any certificate
    assert "alert" in shown_by_openssl(network, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")

    refused = network.log("controller").count("is refused")
    network.ovs.vsctl("set-ssl", key, cert, str(authority.certificate))
    network.add_switch("s3", 3, f"ssl:127.0.0.1:{PORT}")
    until(lambda: network.log("controller").count("is refused") > refused, 10, "the stranger is refused, and the log says so")
    assert not connected(network, "s3")
    assert connected(network, "s1", "s2")


def test_a_switch_that_trusts_another_authority_does_not_take_our_controller(
    network: PrivateNetwork, authority: Authority, files: TlsFiles, tmp_path: Path
) -> None:
    with PrivateRedis(tmp_path) as redis:
        start_controller(network, "ryu", files, redis.url)
        cert, key = authority.sign("switch")
        network.ovs.vsctl("set-ssl", key, cert, str(Authority(tmp_path, "other-ca").certificate))
        network.add_switch("s1", 1, f"ssl:127.0.0.1:{PORT}")
        store = Store(redis.url)
        until(lambda: bool(told(store)), 20, "it hangs up on us, and that is told")
        assert all(text.startswith("a switch at 127.0.0.1 is refused") for text in told(store))
        assert all(text in network.log("controller") for text in told(store))
        assert not connected(network, "s1")


def test_what_is_wrong_with_the_files_is_one_line_with_the_field(files: TlsFiles, authority: Authority, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").write_text("")
    os.chmod(empty, 0o600)  # noqa: PTH101
    for broken, field in (
        (files._replace(cert=str(tmp_path / "none")), "cert"),
        (files._replace(key=authority.sign("another")[1]), "cert"),
        (files._replace(ca=str(empty)), "ca"),
    ):
        with pytest.raises(CertificateError, match=f"^openflow.tls.{field}: .*; .*$"):
            context(broken)


def test_a_key_that_others_can_read_or_own_is_refused(files: TlsFiles) -> None:
    context(files)
    os.chmod(files.key, 0o640)  # noqa: PTH101
    with pytest.raises(CertificateError, match=r"^openflow\.tls\.key: .* mode 0640 is open to others; chmod 600 it$"):
        context(files)
    os.chmod(files.key, 0o600)  # noqa: PTH101
    os.chown(files.key, 1234, -1)
    with pytest.raises(CertificateError, match=r"^openflow\.tls\.key: .* is owned by uid 1234; chown it to root"):
        context(files)
