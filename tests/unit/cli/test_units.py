"""systemd units: what they contain, and that systemd itself takes them."""

from __future__ import annotations

import configparser
import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.machine.unit_files import MARK, UnitFile, agent, command, controller, escaped, quoted, users
from cli.main import main
from controller.config.schema import UsersSection
from ebpf.build import RUNNING

BATON = ["/opt/baton/.venv/bin/baton"]
AGENT = agent(BATON, interface="eth1", arguments=["--rate", "10gbit", "--key", "/etc/baton/key"], writable=[Path("/etc/baton")])
CONTROLLER = controller(BATON, config=Path("/etc/baton/baton.yaml"), writable=[Path("/etc/baton")])


def fields(unit: UnitFile) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    parser.read_string(unit.text)
    assert set(parser) == {"DEFAULT", "Unit", "Service", "Install"}
    return parser["Service"]


@pytest.mark.parametrize("unit", [AGENT, CONTROLLER], ids=lambda unit: unit.name)
class TestBoth:
    """What holds for agent and controller."""

    def test_it_is_in_a_sandbox_and_comes_back(self, unit: UnitFile) -> None:
        service = fields(unit)
        for name, value in (
            ("ProtectSystem", "strict"),
            ("NoNewPrivileges", "yes"),
            ("PrivateTmp", "yes"),
            ("Restart", "always"),
            ("LimitMEMLOCK", "infinity"),
            ("RuntimeDirectoryPreserve", "yes"),
        ):
            assert service[name] == value
        assert service["SystemCallFilter"].startswith("@system-service bpf")
        assert "RestartSec" in service
        assert "CAP_SYS_ADMIN" not in service["CapabilityBoundingSet"]

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
    def test_systemd_takes_every_line_of_it(self, unit: UnitFile, tmp_path: Path) -> None:
        text = unit.text.replace(BATON[0], shutil.which("true") or "/bin/true")  # it looks whether the program is there
        (tmp_path / unit.name).write_text(text)
        done = subprocess.run(
            ("systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)), capture_output=True, text=True, check=False
        )
        said = [line for line in done.stderr.splitlines() if str(tmp_path) in line or unit.name in line]
        assert (done.returncode, said) == (0, [])

    def test_it_says_who_made_it(self, unit: UnitFile) -> None:
        assert unit.text.startswith(MARK)


def test_an_agent_sees_no_internet_and_lives_and_dies_with_its_interface() -> None:
    service = fields(AGENT)
    assert service["RestrictAddressFamilies"].split() == ["AF_UNIX", "AF_NETLINK", "AF_PACKET"]
    assert service["IPAddressDeny"] == "any"
    assert "BindsTo=sys-subsystem-net-devices-eth1.device" in AGENT.text
    assert service["ExecStart"] == "/opt/baton/.venv/bin/baton agent --interface eth1 --rate 10gbit --key /etc/baton/key"


def test_more_is_given_only_to_who_needs_it() -> None:
    chooses = agent(BATON, interface="eth1", arguments=["--priorities"], writable=(), priorities=True)
    assert "CAP_SYS_ADMIN" in fields(chooses)["CapabilityBoundingSet"]
    hears = fields(agent(BATON, interface="eth1", arguments=["--priorities", "--guests"], writable=(), guests=True))
    assert hears["RestrictAddressFamilies"].split() == ["AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_INET", "AF_INET6"]
    assert "IPAddressDeny" not in hears
    elsewhere = fields(controller(BATON, config=Path("/b.yaml"), writable=(), netns=True))
    assert "CAP_SYS_ADMIN" in elsewhere["CapabilityBoundingSet"]
    assert elsewhere["RestrictNamespaces"] == "net"


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("plain", "plain"), ("two words", '"two words"'), ("50%", "50%%"), ('a"b', '"a\\"b"'), ("$HOME", "$$HOME"), ("", '""')],
)
def test_a_word_is_what_it_was_after_systemd_has_read_it(word: str, wanted: str) -> None:
    assert command([word]) == wanted


def test_a_name_that_could_begin_another_line_is_refused() -> None:
    with pytest.raises(ValueError, match="can't be in a unit; "):
        quoted("a\nExecStart=b")


@pytest.mark.skipif(shutil.which("systemd-escape") is None, reason="needs systemd-escape")
@pytest.mark.parametrize("name", ["eth1", "br-lan", "enp3s0f1.100", ".x", "a@b", "veth_1", "ü"])
def test_names_are_escaped_as_systemd_escapes_them(name: str) -> None:
    done = subprocess.run(("systemd-escape", "--", name), capture_output=True, text=True, check=True)
    assert escaped(name) == done.stdout.strip()


class TestUsers:
    """The users of the controller's processes."""

    @pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="needs systemd-sysusers")
    def test_systemd_makes_them_and_their_group_without_a_password_or_a_shell(self, tmp_path: Path) -> None:
        (tmp_path / "etc").mkdir()
        (tmp_path / "baton.conf").write_text(users().text)
        command = ["systemd-sysusers", f"--root={tmp_path}", str(tmp_path / "baton.conf")]
        subprocess.run(command, check=True, capture_output=True)
        made = [line.split(":") for line in (tmp_path / "etc" / "passwd").read_text().splitlines()]
        groups = dict(line.split(":")[0:3:2] for line in (tmp_path / "etc" / "group").read_text().splitlines())
        group = groups["baton"]
        section = UsersSection.model_validate({})
        assert {one[0] for one in made} == {section.store, section.openflow, section.coordinator, section.web}
        assert all(one[3] == group and one[6].endswith("nologin") for one in made)


class TestTheCommand:
    """`baton install-units`."""

    def test_a_dry_run_prints_both_and_writes_nothing(self, tmp_path: Path) -> None:
        words = ["install-units", "--interface", "eth1", "--rate", "10gbit", "--dry-run", "--directory", str(tmp_path)]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
        assert "baton-agent@eth1.service" in done.output
        assert "baton-controller.service" in done.output
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(("words", "unit"), [((), "eth0"), (("--interface", "ens3"), "ens3")])
    def test_a_dry_run_needs_no_interface_and_says_what_stands_for_it(self, words: tuple[str, ...], unit: str) -> None:
        done = CliRunner().invoke(main, ["install-units", "--dry-run", *words])
        assert done.exit_code == 0, done.output
        assert "To be read only" in done.output and f"baton-agent@{unit}.service" in done.output

    def test_it_writes_and_writes_again_but_never_over_a_strangers_file(self, tmp_path: Path) -> None:
        words = ["install-units", "--role", "controller", "--directory", str(tmp_path)]
        for _ in range(2):
            done = CliRunner().invoke(main, words)
            assert done.exit_code == 0, done.output
        assert f"systemd-sysusers {tmp_path / 'baton.conf'} && systemctl daemon-reload" in done.output
        assert f"systemctl enable --now '{tmp_path / 'baton-controller.service'}'" in done.output  # by its name it is not found
        path = tmp_path / "baton-controller.service"
        assert path.stat().st_mode & 0o777 == 0o644
        for others in (b"[Service]\n", b"\xff\xfe"):
            path.write_bytes(others)
            done = CliRunner().invoke(main, words)
            assert done.exit_code == 1
            assert "was not made by this command; " in done.output
            assert path.read_bytes() == others

    def test_where_one_file_is_a_strangers_none_is_written(self, tmp_path: Path) -> None:
        stranger = tmp_path / "baton-controller.service"
        stranger.write_text("[Service]\n")
        words = ["install-units", "--interface", "e", "--rate", "10gbit", "--directory", str(tmp_path)]
        done = CliRunner().invoke(main, [*words, "--", "--run-dir", f"{tmp_path}/run"])
        assert done.exit_code == 1 and f"{stranger}: was not made by this command" in done.output
        assert list(tmp_path.iterdir()) == [stranger]

    def test_where_it_cannot_write_it_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "replace", full)
        done = CliRunner().invoke(main, ["install-units", "--role", "controller", "--directory", str(tmp_path)])
        assert done.exit_code == 1 and "No space left on device; " in done.output
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ((), "--interface is missing"),
            (("--interface", "e"), "--rate is missing"),
            (("--interface", "e", "--rate", "x"), "--rate: rate 'x'"),
            (("--interface", "e", "--rate", "10MB"), "--rate"),
            (("--interface", "two words", "--rate", "10gbit"), "--interface: 'two words' is no interface's name; "),
            (("--interface", "sixteen-letters-", "--rate", "10gbit"), "--interface"),
            (("--interface", "e", "--rate", "10gbit", "--", "--prioritties"), "'--prioritties'"),
            (("--interface", "e", "--rate", "10gbit", "--", "--gate", "red"), "'--gate'"),
            (("--interface", "e", "--rate", "10gbit", "--", "more"), "more"),
            (("--interface", "e", "--rate", "10gbit", "--", "--interface", "f"), "--interface is given twice"),
            (("--interface", "e", "--rate", "10gbit", "--", "--rate", "1gbit"), "--rate is given twice"),
            (("--interface", "e", "--rate", "10gbit", "--", "--key", "/k/h1"), "--key is given twice"),
            (("--interface", "e", "--rate", "10gbit", "--", "--guests"), "--guests: needs --priorities"),
            (("--interface", "e", "--rate", "10gbit", "--", "--address", "h1"), "--address: 'h1'"),
        ],
    )
    def test_what_an_agent_needs_is_asked_for(self, words: tuple[str, ...], says: str, tmp_path: Path) -> None:
        done = CliRunner().invoke(main, ["install-units", "--directory", str(tmp_path), *words])
        assert done.exit_code != 0
        assert says in done.output
        assert not list(tmp_path.iterdir())

    def test_a_run_directory_or_a_key_elsewhere_is_made_and_writable(self, tmp_path: Path) -> None:
        config = tmp_path / "etc" / "baton.yaml"
        config.parent.mkdir()
        config.write_text(
            f"run_dir: {tmp_path}/run\ncoordinator: {{interface: c0, attachment: 's1:5', key_file: ../keys/key}}\n"
        )
        words = ["install-units", "--role", "controller", "--config", str(config), "--directory", str(tmp_path / "units")]
        assert writable(words, tmp_path / "units" / "baton-controller.service") >= {
            f"-{tmp_path}/{name}" for name in ("etc", "run", "keys")
        }
        assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700

    def test_so_is_what_an_agents_arguments_name(self, tmp_path: Path) -> None:
        words = ["install-units", "--role", "agent", "--interface", "e", "--rate", "10gbit", "--directory", str(tmp_path)]
        words += ["--", "--run-dir", f"{tmp_path}/agent", "--statistics", f"{tmp_path}/agent/../log/a.json"]
        found = writable(words, tmp_path / "baton-agent@e.service")
        assert found >= {"-/etc/baton", f"-{tmp_path}/agent", f"-{tmp_path}/log"}
        assert (tmp_path / "agent").is_dir()

    @pytest.mark.parametrize(
        ("words", "hears"),
        [
            (("--guests",), True), (("--guests=7000",), True), (("--guests", "0", "--guests", "7000"), True),
            (("--guests", "0"), False), (("--guests=0",), False), ((), False),
        ],
    )  # fmt: skip
    def test_an_agent_that_hears_guests_sees_the_internet(self, words: tuple[str, ...], hears: bool) -> None:
        words = ("--role", "agent", "--interface", "e", "--rate", "10gbit", "--dry-run", "--", "--priorities", *words)
        done = CliRunner().invoke(main, ["install-units", *words])
        assert done.exit_code == 0 and ("IPAddressDeny" in done.output) is not hears, done.output

    def test_nothing_more_is_writable_than_that(self, tmp_path: Path) -> None:
        words = ["install-units", "--role", "both", "--interface", "e", "--rate", "10gbit", "--directory", str(tmp_path)]
        words += ["--config", "/etc/baton/there-is-none.yaml"]
        for unit in ("baton-agent@e.service", "baton-controller.service"):
            assert writable(words, tmp_path / unit) == {"-/etc/baton", f"-{RUNNING.directory.parent}"}

    def test_a_run_directory_that_is_gone_when_the_machine_starts_is_made_by_systemd(self, tmp_path: Path) -> None:
        command = ["install-units", "--role", "agent", "--interface", "e", "--rate", "10gbit", "--dry-run"]
        for run_dir, made in (("/run/baton-e", "baton baton-e"), ("/run/baton", "baton"), (f"{tmp_path}/run", "baton")):
            done = CliRunner().invoke(main, [*command, "--", "--run-dir", run_dir])
            assert f"\nRuntimeDirectory={made}\n" in done.output, done.output

    @pytest.mark.parametrize("words", [("--run-dir", "agent"), ("--statistics", "a.json"), ("--statistics", "/a.json")])
    def test_a_place_that_would_open_the_whole_machine_is_refused(self, words: tuple[str, ...], tmp_path: Path) -> None:
        command = ["install-units", "--role", "agent", "--interface", "e", "--rate", "10gbit", "--directory", str(tmp_path)]
        done = CliRunner().invoke(main, [*command, "--", *words])
        assert done.exit_code == 2 and f"{words[0]}: " in done.output
        assert not list(tmp_path.iterdir())


def writable(words: list[str], unit: Path) -> set[str]:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return set(fields(UnitFile(unit.name, unit.read_text()))["ReadWritePaths"].split())
