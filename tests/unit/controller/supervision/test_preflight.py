"""What is looked at before a start, and before a changed configuration is taken over, ends nothing by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.config.reading import load
from controller.supervision.preflight import CannotStart, cannot_listen, check_coordinator
from protocol.auth import Key


@pytest.mark.parametrize("host", ["a..example", "a" * 64 + ".example", "192.0.2.1"])
def test_an_address_at_which_nobody_can_listen_is_told_and_no_name_is_too_wrong_for_that(host: str) -> None:
    assert cannot_listen(host, 8080).startswith(f"{host}:8080: ")


def test_the_loopback_interface_is_none_of_a_coordinator(tmp_path: Path) -> None:
    Key.generate(tmp_path / "key")
    file = tmp_path / "baton.yaml"
    file.write_text('coordinator: {interface: lo, attachment: "s1:s1-eth9", key_file: key}\n')
    with pytest.raises(CannotStart, match="coordinator.interface: lo has no MAC address; name an Ethernet interface"):
        check_coordinator(load(file))
