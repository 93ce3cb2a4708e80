"""What is looked at before a start, and before a changed configuration is taken over, ends nothing by itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from controller.config.reading import load
from controller.supervision import runstate
from controller.supervision.preflight import CannotStart, cannot_listen, check_coordinator, check_secrets, claim_run_dir
from protocol.auth import Key


@pytest.mark.parametrize("host", ["a..example", "a" * 64 + ".example", "192.0.2.1"])
def test_an_address_at_which_nobody_can_listen_is_told_and_no_name_is_too_wrong_for_that(host: str) -> None:
    assert cannot_listen(host, 8080).startswith(f"{host}:8080: ")


def test_the_loopback_interface_is_none_of_a_coordinator(tmp_path: Path) -> None:
    Key.generate(tmp_path / "key")
    file = tmp_path / "baton.yaml"
    file.write_text('coordinator: {interface: lo, attachment: "s1:s1-eth9", key_file: key}\n')
    with pytest.raises(CannotStart, match=r"coordinator\.interface: lo has no MAC address; name an Ethernet interface"):
        check_coordinator(load(file))


def test_a_damaged_record_of_what_runs_is_named_as_such(tmp_path: Path) -> None:
    for name in (runstate.STATE, "config.json"):
        (tmp_path / name).write_text("{")
    with pytest.raises(CannotStart, match=r"up.json is damaged .*send the supervisor SIGTERM .*then remove "):
        claim_run_dir(tmp_path, None)


def test_a_key_of_the_dashboard_that_has_a_pass_phrase_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    names = "-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")
    words = "openssl", "req", "-x509", "-newkey", "rsa:2048", *names, "-passout", "pass:secret", "-subj", "/CN=x"
    subprocess.run(words, check=True, capture_output=True)
    (tmp_path / "key.pem").chmod(0o600)
    file = tmp_path / "baton.yaml"
    file.write_text('web: {listen: "127.0.0.1:8443", cert: cert.pem, key: key.pem}\n')
    with pytest.raises(CannotStart, match=r"^web\.key: .*key\.pem has a pass phrase; "):
        check_secrets(load(file), None)
