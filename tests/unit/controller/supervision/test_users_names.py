"""Users and the group of a configuration are looked up apart, whatever names they share."""

from __future__ import annotations

import grp
import os
import pwd
from types import SimpleNamespace

import pytest

from controller.config.schema import UsersSection
from controller.supervision.users import FIRST_ID, NoUsers, resolve

DEFAULT = UsersSection()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine's users and groups by name; this process is root's there."""
    known = SimpleNamespace(users={}, groups={})

    def user_of(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", lambda name: SimpleNamespace(pw_uid=known.users[name]))
    monkeypatch.setattr(pwd, "getpwuid", user_of)
    monkeypatch.setattr(grp, "getgrnam", lambda name: SimpleNamespace(gr_gid=known.groups[name]))
    return known


def test_a_user_with_the_name_of_a_missing_group_is_there(machine: SimpleNamespace) -> None:
    machine.users[DEFAULT.group] = 5000
    found = resolve(UsersSection(store=DEFAULT.group))
    assert found is not None and found.uids["store"] == 5000 and found.group == FIRST_ID


def test_a_group_with_the_name_of_a_missing_user_is_there(machine: SimpleNamespace) -> None:
    machine.groups[DEFAULT.web] = 6000
    found = resolve(UsersSection(group=DEFAULT.web))
    assert found is not None and found.group == 6000 and found.missing == (
        DEFAULT.store, DEFAULT.openflow, DEFAULT.coordinator, DEFAULT.web
    )  # fmt: skip


@pytest.mark.parametrize("field", ["group", "store", "web"])
def test_a_name_that_is_not_the_default_must_be_known(machine: SimpleNamespace, field: str) -> None:
    with pytest.raises(NoUsers, match=f"^users.{field}: there is no (user|group) nobody-here; "):
        resolve(UsersSection(**{field: "nobody-here"}))
