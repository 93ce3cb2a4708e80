"""A file of users, and an application that they log in to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.webui.access.auth_site import PASSWORD, Site
from webui.access.accounts import Accounts


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "users.json"
    Accounts(file).set_user("ann", PASSWORD, now_s=1)
    return file


@pytest.fixture
def site(users: Path) -> Site:
    return Site(users)
