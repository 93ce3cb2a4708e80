"""What `baton web` says of files and addresses that it can't use."""

from __future__ import annotations

from pathlib import Path

import pytest

from webui import serve
from webui.serve import CannotServe, check
from webui.settings import WebSettings


def test_a_certificate_in_a_directory_of_others_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refused)
    with pytest.raises(CannotServe, match=r"^cert: /root/c\.pem: Permission denied; run this as"):
        check("unix:///no.sock", WebSettings(host="0.0.0.0", cert=Path("/root/c.pem"), key=Path("/root/k.pem")))


@pytest.mark.parametrize("name", ["", " ", "."])
def test_a_blank_name_of_the_server_is_one_line(name: str) -> None:
    with pytest.raises(CannotServe, match=r"^name: one is blank, .*; write the host's name"):
        check("unix:///no.sock", WebSettings(names=("baton.example", name)))


def test_an_address_that_is_no_name_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).touch(mode=0o600)
    monkeypatch.setattr(serve, "_tls", lambda _: None)
    settings = WebSettings(host=f"{'a' * 70}.x", cert=tmp_path / "c.pem", key=tmp_path / "k.pem")
    with pytest.raises(CannotServe, match="no host's name; choose another address"):
        check("unix:///no.sock", settings)
