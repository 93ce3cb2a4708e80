"""What is looked at before a start, and before a changed configuration is taken over, ends nothing by itself."""

from __future__ import annotations

import pytest

from controller.supervision.preflight import cannot_listen


@pytest.mark.parametrize("host", ["a..example", "a" * 64 + ".example", "192.0.2.1"])
def test_an_address_at_which_nobody_can_listen_is_told_and_no_name_is_too_wrong_for_that(host: str) -> None:
    assert cannot_listen(host, 8080).startswith(f"{host}:8080: ")
