"""The `baton` command: quick help, one-line errors, and what each command checks before it acts."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agents.config import REALTIME, AgentConfig
from bench.dashboard import dashboard
from cli import simulate
from cli.experiment_time import LEAST_SLICE_NS, MOST_SLICE_NS, Delay, make_room
from cli.experiments import make_console
from cli.main import COMMANDS, main
from controller.config.coordinator import CoordinatorSection


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


class TestHelp:
    """Help names every command without importing any."""

    def test_help_lists_every_command(self) -> None:
        code, text = run("--help")
        assert code == 0
        for name, entry in COMMANDS.items():
            assert name in text and entry.help[:30] in text

    def test_help_imports_none_of_the_heavy_libraries(self) -> None:
        program = (
            "import sys, contextlib\n"
            "from cli.main import main\n"
            "with contextlib.suppress(SystemExit): main(['--help'])\n"
            "heavy = {'redis', 'pydantic', 'rich', 'networkx', 'matplotlib', 'yaml', 'pyroute2'}\n"
            "sys.exit(' '.join(heavy & set(sys.modules)) or 0)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize("name", ["up", "down", "status", "free", "coordinate", "check", "agent", "key", "doctor"])
    def test_every_command_has_a_help_with_its_usage(self, name: str) -> None:
        code, text = run(name, "--help")
        assert code == 0 and "Usage: " in text

    def test_an_unknown_command_is_an_error_of_usage(self) -> None:
        code, text = run("upp")
        assert code == 2 and "No such command" in text


class TestOutput:
    """Where a command prints to may be full, or closed: one line, and no success."""

    @pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
    @pytest.mark.parametrize("unbuffered", ["", "1"])
    @pytest.mark.parametrize("words", [("--help",), ("bench", "figures", "--list"), ("check", "--json", "none")])
    def test_a_full_disk_is_told_in_a_line(self, words: tuple[str, ...], unbuffered: str) -> None:
        command = (sys.executable, "-m", "cli.main", *words)
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
        assert done.stderr == "Error: the output: No space left on device; make room, or write it elsewhere\n"
        assert done.returncode == 1

    def test_closed_output_is_no_error_of_its_own(self) -> None:
        command = ("bash", "-c", 'exec "$@" >&-', "bash", sys.executable, "-m", "cli.main", "check", "none")
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, "")


class TestCheck:
    """`baton check` tells configurations and fabrics apart, and ends with 1 when something is to be
    mended."""

    def test_a_good_configuration_is_called_one_and_ends_with_0(self, tmp_path: Path) -> None:
        path = tmp_path / "c.yaml"
        path.write_text("openflow: {poll: 1s}\n")
        code, text = run("check", str(path))
        assert (code, text) == (0, f"{path}: a good configuration\n")

    def test_a_good_fabric_is_called_one_and_ends_with_0(self, tmp_path: Path) -> None:
        path = tmp_path / "f.yaml"
        path.write_text("switches: [s1]\nhosts: [h1]\nlinks: [{a: h1, b: s1, rate: 1G}]\n")
        code, text = run("check", str(path))
        assert (code, text) == (0, f"{path}: a good fabric\n")

    @pytest.mark.parametrize(
        ("text", "line", "field"),
        [
            ("openflow:\n  pol: 1s\n", 2, "openflow.pol"),
            ("switches: [s1]\nhosts: [h1]\nlinks:\n  - {a: h1, b: s1}\n", 4, "links[0].rate"),
        ],
    )
    def test_a_mistake_is_shown_with_line_field_and_remedy(self, tmp_path: Path, text: str, line: int, field: str) -> None:
        path = tmp_path / "x.yaml"
        path.write_text(text)
        code, output = run("check", "--json", str(path))
        (problem,) = json.loads(output)["problems"]
        assert code == 1
        assert (problem["line"], problem["field"]) == (line, field)
        assert problem["message"] and problem["remedy"]
        code, table = run("check", str(path))
        assert code == 1 and field in table and str(line) in table

    def test_markup_in_a_file_is_shown_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "x.yaml"
        path.write_text('"[red]x[/]": 1\n')
        code, table = run("check", str(path))
        assert code == 1 and "[red]x[/]" in table

    def test_markup_in_its_name_is_shown_as_it_is(self) -> None:
        code, table = run("check", "[/b]")
        assert code == 1 and "[/b]: 1 to correct" in table

    def test_a_missing_file_is_no_traceback(self, tmp_path: Path) -> None:
        code, text = run("check", str(tmp_path / "none"))
        assert code == 1 and "can't be read" in text


class TestKey:
    """A key is made once, for its owner only."""

    def test_a_key_is_made_for_its_owner_only_and_never_overwritten(self, tmp_path: Path) -> None:
        path = tmp_path / "etc" / "key"
        assert run("key", "generate", str(path))[0] == 0
        assert path.stat().st_mode & 0o777 == 0o600
        before = path.read_text()
        code, text = run("key", "generate", str(path))
        assert code == 1 and "exists" in text
        assert path.read_text() == before


class TestOddNames:
    """Whatever a name on the command line is, the answer is a result or one line."""

    @pytest.mark.parametrize(
        "words",
        [
            ("host", "list", "--key", ""),
            ("host", "enroll", "h1", "--key", ""),
            ("host", "revoke", "h1", "--key", ""),
            ("key", "generate", ""),
            ("key", "rotate", ""),
            ("check", ""),
            ("status", "--run-dir", "x" * 256),
            ("down", "--run-dir", "x" * 256),
            ("free", "--run-dir", "x" * 256),
        ],
    )
    def test_an_empty_or_a_long_one_is_one_line(self, words: tuple[str, ...]) -> None:
        code, text = run(*words)
        assert code != 0 and (text.count("\n") == 1 or words[0] == "check"), text

    @pytest.mark.parametrize(
        ("words", "code"),
        [((b"key", b"generate", b"\xff"), 0), ((b"check", b"\xff"), 1), ((b"host", b"revoke", b"\xff", b"--key", b"key"), 1)],
    )
    def test_one_that_is_not_utf8_is_no_traceback(self, words: tuple[bytes, ...], code: int, tmp_path: Path) -> None:
        (tmp_path / "key").write_text("0" * 64)
        (tmp_path / "key").chmod(0o600)
        environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *words], cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr
        assert b"\\udcff" in done.stdout + done.stderr


@pytest.mark.parametrize(("group", "says"), [("user", "no user: `baton user add"), ("token", "no token: `baton token create")])
def test_a_list_without_accounts_says_so_and_names_the_file(tmp_path: Path, group: str, says: str) -> None:
    file = f"{tmp_path}/users.json"
    code, text = run(group, "list", "--file", file)
    assert code == 0 and f"{file} has {says} NAME --file {file}` " in text


class TestNothingUp:
    """Commands for what runs say what to do when nothing does."""

    @pytest.mark.parametrize("command", ["status", "free", "coordinate", "down"])
    def test_the_error_is_one_line_with_the_remedy(self, tmp_path: Path, command: str) -> None:
        code, text = run(command, "--run-dir", str(tmp_path))
        assert code == 1
        assert text == f"Error: nothing is up in {tmp_path}: start it with `baton up`, or name its --run-dir\n"

    def test_a_damaged_record_is_told_and_kept(self, tmp_path: Path) -> None:
        (tmp_path / "up.json").write_text('{"supervisor": 3}')
        code, text = run("down", "--run-dir", str(tmp_path))
        assert code == 1 and "is damaged" in text
        assert (tmp_path / "up.json").exists()

    def test_a_store_that_is_not_there_is_one_line(self, tmp_path: Path) -> None:
        code, text = run("status", "--store", f"unix://{tmp_path}/none.sock")
        assert code == 1 and text.startswith("Error: store unix://") and len(text.splitlines()) == 1


class TestUp:
    """`baton up` refuses a bad file before it starts anything."""

    def test_a_bad_configuration_starts_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "c.yaml"
        path.write_text(f"run_dir: {tmp_path}/run\nopnflow: {{}}\n")
        code, text = run("up", "--config", str(path))
        assert code == 1 and "line 2: opnflow" in text and len(text.splitlines()) == 1
        assert not (tmp_path / "run").exists()


class TestAgent:
    """The agent's options are checked before it touches an interface."""

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["--rate", "fast"], "--rate"),
            (["--rate", "10"], "not from 1Mbit to 1Tbit"),
            (["--rate", "100mbit", "--address", "10.0.0"], "--address"),
            *(
                (["--rate", "100mbit", "--address", text], f"--address: {text} is not the address of one host")
                for text in ("0.0.0.0", "224.0.0.1", "255.255.255.255", "127.0.0.1", "::", "::1", "ff02::1", "fe80::1")
            ),
            (["--rate", "100mbit", "--statistics", "/nonexistent/counters.json"], "--statistics"),
            (["--rate", "100mbit", "--cgroup", "/tmp"], "--cgroup: needs --priorities"),
            (["--rate", "100mbit", "--priorities", "--cgroup", "/tmp"], "--cgroup: /tmp is no cgroup"),
        ],
    )
    def test_a_bad_value_names_its_option(self, tmp_path: Path, words: list[str], says: str) -> None:
        code, text = run("agent", "--interface", "none0", "--key", str(tmp_path / "k"), *words)
        assert code == 2 and says in text

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root: who else is told to be root")
    @pytest.mark.parametrize(("option", "file"), [("--run-dir", ""), ("--statistics", "/counters.json")])
    def test_a_directory_where_nothing_could_be_written_at_the_end_is_refused(
        self, tmp_path: Path, option: str, file: str
    ) -> None:
        os.chown(tmp_path, 65534, 65534)
        words = ("--interface", "none0", "--key", "k", "--rate", "1gbit", "--run-dir", "/run/baton")
        code, text = run("agent", *words, option, f"{tmp_path}{file}")
        assert code == 2 and option in text and "chown root" in text

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root: who else is told to be root")
    def test_nobodys_home_is_to_be_given_to_root(self, tmp_path: Path) -> None:
        os.chown(tmp_path, 65534, 65534)
        tmp_path.chmod(0o750)
        words = ("--interface", "none0", "--key", "k", "--rate", "1gbit", "--run-dir", f"{tmp_path}/run")
        code, text = run("agent", *words)
        assert code == 2 and "name a directory of root's" in text and "chown" not in text

    @pytest.mark.parametrize(
        ("interface", "says"),
        [("lo", "--rate 100mbit"), ("none0", "no interface with this name; name one that `ip link` shows")],
    )
    def test_a_rate_that_neither_option_nor_link_tells_is_asked_for_in_one_line(
        self, tmp_path: Path, interface: str, says: str
    ) -> None:
        code, text = run("agent", "--interface", interface, "--key", str(tmp_path / "k"))
        assert code == 1 and says in text and len(text.splitlines()) == 1


@pytest.mark.parametrize("text", ["0ms", "0.5ms", "2s", "soon"])
def test_a_demo_with_an_impossible_slice_is_refused_before_anything_is_made(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("emulation.box.inside", lambda: pytest.fail("it went on"))
    code, output = run("demo", "--slice", text)
    assert code == 2 and "--slice" in output and "write" in output


def test_a_demos_slices_are_those_that_the_configuration_takes() -> None:
    at_most = [rule.le for rule in CoordinatorSection.model_fields["slice_ns"].metadata if hasattr(rule, "le")]
    assert at_most == [MOST_SLICE_NS] and CoordinatorSection.model_fields["minimum_active_ns"].default == LEAST_SLICE_NS


class TestTheTimeOfAnExperiment:
    """`--virtual`, `--rate` and the delays: what cannot be had is said in a line, before anything is made."""

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (("demo", "--rate", "1gbit"), "1gbit needs --virtual"),
            (("demo", "--rate", "200gbit", "--virtual"), "200gbit is no rate for an emulated link"),
            (("demo", "--rate", "quick", "--virtual"), "--rate"),
            (("demo", "--keep", "--virtual"), "--keep has no prompt in virtual time"),
            (("demo", "--agent-delay", "30us"), "a delay needs --virtual"),
            (("demo", "--agent-delay", "soon", "--virtual"), "neither a duration, such as 30us, nor a file"),
            (("bench", "loss", "--controller-delay", "FILE", "--virtual"), "holds no samples of the controller"),
            (("demo", "--cpu-shares", "9999"), "9999 is no share of this machine's"),
            (("bench", "loss", "--cpu-shares", "0"), "0 is no share of this machine's"),
            (("demo", "--cpu-shares", "0.2", "--virtual"), "--cpu-shares needs real time"),
            (("demo", "--json", "/proc/none/record.json"), "/proc/none/record.json cannot be written"),
            (("bench", "xco", "mix", "--virtual", "--plot", "/proc/none/mix.png"), "/proc/none/mix.png cannot be written"),
            *(
                (("bench", *words, "/proc/none/record"), "/proc/none/record cannot be written")
                for words in (
                    *((name, "--json") for name in ("siege", "swarm", "agent", "switches", "scale", "fuzz", "dashboard")),
                    *((name, "--json") for name in ("host-control", "protocol", "hostile")),
                )
            ),
            (("bench", "host-control", "--plot", "/proc/none"), "/proc/none/off.png cannot be written"),
            (("simulate", "--xco", "23", "--json", "/proc/none/record"), "/proc/none/record cannot be written"),
            (("simulate", "--flows", "1", "--plot", "/proc/none/all.png"), "/proc/none/all.png cannot be written"),
            (("bench", "karuna", "fct", "--virtual", "--rate", "10gbit"), "fct cannot have 10gbit; write 100mbit or 1gbit"),
            (("bench", "karuna", "none"), "'none' is not one of"),
            (("bench", "xco", "none"), "'none' is not one of"),
            (("bench", "figures", "none"), "there is no figure 'none'; name some of demo"),
            (("bench", "figures", "--into", "/proc/none"), "/proc/none cannot be made"),
            (("virtual", "run", "--memory", "few", "true"), "--memory"),
            (("virtual", "run", "--writable", "/none", "true"), "/none"),
            (("virtual", "run"), "Missing argument"),
            (("key", "rotate", "--wait", "nan"), "nan is no number to count with"),
            (("bench", "siege", "--seconds", "inf"), "inf is no number to count with"),
            (("none",), "No such command 'none'"),
        ],
    )
    def test_a_mistake_names_the_option_and_the_remedy(self, tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
        file = tmp_path / "record.json"
        file.write_text("{}")
        done = CliRunner().invoke(main, [str(file) if word == "FILE" else word for word in words])
        assert done.exit_code == 2 and problem in done.output and done.output.count("\n") == 1

    def test_a_text_too_long_for_a_file_name_is_no_delay(self) -> None:
        done = CliRunner().invoke(main, ["demo", "--agent-delay", "x" * 5_000, "--virtual"])
        assert done.exit_code == 2 and "neither a duration, such as 30us, nor a file" in done.output
        assert done.output.count("\n") == 1 and len(done.output) < 300

    @pytest.mark.parametrize("sample", ["1e400", "NaN", "[]"])
    def test_an_endless_delay_is_none(self, tmp_path: Path, sample: str) -> None:
        file = tmp_path / "latency.json"
        file.write_text(f'{{"samples_us": {{"agent": [{sample}]}}}}')
        done = CliRunner().invoke(main, ["demo", "--agent-delay", str(file), "--virtual"])
        assert done.exit_code == 2 and "holds no samples of the agent" in done.output and done.output.count("\n") == 1

    def test_a_delay_may_be_a_file_of_measured_samples(self, tmp_path: Path) -> None:
        file = tmp_path / "latency.json"
        file.write_text('{"samples_us": {"agent": [20.5, 31], "controller": [250]}}')
        assert Delay("agent").convert(str(file), None, None) == (20_500, 31_000)
        assert Delay("controller").convert("250us", None, None) == (250_000,)

    @pytest.mark.parametrize("words", ["demo", "bench latency", "bench karuna", "bench both", "bench coflow"])
    def test_every_emulated_experiment_has_it(self, words: str) -> None:
        said = CliRunner().invoke(main, [*words.split(), "--help"]).output
        assert "--virtual" in said and "--cpu-shares" in said


@pytest.mark.parametrize("text", ["1ns", "0", "soon"])
def test_bench_scale_names_the_slice_that_it_cannot_take(text: str) -> None:
    code, output = run("bench", "scale", "--slice", text)
    assert code == 2
    assert "--slice" in output and "write" in output


@pytest.mark.parametrize("command", ["swarm", "agent"])
@pytest.mark.parametrize("text", ["0", "1us", "2s", "soon"])
def test_a_swarm_names_the_slice_that_no_coordinator_takes_before_it_makes_a_box(command: str, text: str) -> None:
    code, output = run("bench", command, "--slice", text)
    assert code == 2
    assert "--slice" in output and "write" in output


@pytest.mark.parametrize("command", ["fabrics", "random-flows"])
@pytest.mark.parametrize("text", ["0", "500us", "2s", "soon"])
def test_an_emulation_names_the_slice_that_no_coordinator_takes_before_it_begins(
    command: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fabrics", "random_flows"):
        monkeypatch.setattr(f"cli.bench.{name}.enter", lambda *_, **__: pytest.fail("it begins to measure"))
    code, output = run("bench", command, "--slice", text)
    assert code == 2
    assert "--slice" in output and "write" in output


def test_random_flows_have_a_load_that_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.bench.random_flows.enter", lambda *_, **__: pytest.fail("it begins to measure"))
    code, output = run("bench", "random-flows", "--load", "nan")
    assert code == 2 and "--load" in output


def test_one_agent_in_a_swarm_names_its_rate() -> None:
    code, output = run("bench", "agent", "--rate", "10MB")
    assert code == 2 and "--rate" in output


@pytest.mark.parametrize(("words", "processors", "wanted"), [((), 2, None), ((), 8, REALTIME), (("--realtime", "7"), 2, 7)])
def test_an_agent_takes_the_usual_priority_for_its_processors_unless_told(
    words: tuple[str, ...], processors: int, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[AgentConfig] = []
    monkeypatch.setattr("agents.run.run", lambda config: started.append(config) or 0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    code, output = run("agent", "--interface", "eth9", "--rate", "100mbit", "--key", "/nonexistent", *words)
    assert code == 0, output
    assert started[0].realtime == wanted


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("mark", "--deadline", "20", "--", "true"), "--deadline"),
        (("mark", "--size", "-5MB", "--", "true"), "--size"),
        (("mark", "--deadline", "5s", "--", "true"), "--deadline (ms) is 5000"),
        (("mark", "--size", "0", "--", "true"), "--size (bytes) must be above 0"),
        (("flow", "mark", "--to", "10.0.0.1", "--deadline", "5"), "--deadline"),
        (("flow", "mark", "--to", "10.0.0.1", "--size", "5kb"), "--size"),
        (("flow", "mark", "--to", "10.0.0.1", "--size", "5KB", "--for", "3"), "--for"),
        (("coflow", "open", "--deadline", "5"), "--deadline"),
        (("queue", "add", "--host", "h1", "--rate", "5"), "write the unit, such as 5Mbit"),
        (("queue", "add", "--host", "h1", "--from", "5"), "--from"),
        (("host", "enroll", "../x"), "has a slash, a '>' or white space"),
        (("host", "enroll", "a b"), "has a slash, a '>' or white space"),
        (("host", "enroll", "a>b"), "has a slash, a '>' or white space"),
    ],
)
def test_a_value_that_makes_no_sense_names_its_option(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    code, text = run(*words, *(("--key", str(tmp_path / "key")) if words[0] == "host" else ()))
    assert code and says in text and "Traceback" not in text


def test_a_full_disk_is_told_before_anything_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(click.BadParameter, match=r"record\.json cannot be written: No space left on device; name another file"):
        make_room(tmp_path / "new" / "record.json")
    with pytest.raises(click.BadParameter, match="it is a directory; name another file"):
        make_room(Path())
    make_room(Path("/dev/null"))  # nor a pipe, such as a shell's >(program)


def test_results_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is interrupted while it writes leaves the result that was there."""
    file = tmp_path / "result.json"
    file.write_text("the last result")
    monkeypatch.setattr("emulation.files.Path.replace", lambda *_: None)
    simulate._write(make_console(), {"figure": 23}, file)
    assert file.read_text() == "the last result"
    monkeypatch.setattr("bench.dashboard.dashboard.run", lambda *_: {"load_ms": 1})
    assert dashboard.main(["--json", str(file)]) == 0
    assert file.read_text() == "the last result"


def test_a_file_without_an_end_is_no_configuration() -> None:
    for words in (("check", "/dev/zero"), ("up", "--config", "/dev/zero")):
        code, text = run(*words)
        assert code == 1 and "is longer than 64 MiB" in " ".join(text.split()), text


def test_doctor_finds_administrators_programs_for_every_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's PATH on Debian has no sbin: tc would be called missing where it is installed."""
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")

    def probed() -> list[object]:
        assert "/usr/sbin" in os.environ["PATH"].split(":")
        return []

    monkeypatch.setattr("agents.kernel.probe.probe", probed)
    monkeypatch.setattr("cli.machine.doctor.collect", lambda _: [])
    assert run("doctor", "--json") == (0, "[]\n")


def test_doctor_refuses_options_that_only_a_comparison_of_hosts_reads() -> None:
    for words in (("--store", "redis://127.0.0.1:1"), ("--run-dir", "/run/other")):
        code, text = run("doctor", *words)
        assert code == 2 and words[0] in text and "without --hosts" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--xco", "23", "--plot", "figure.png"), "--plot"),
        (("--xco", "23", "--seed", "2"), "--seed"),
        (("--validate", "--plot", "figure.png"), "--plot"),
        (("--validate", "--xco", "23"), "--xco"),
        (("--validate", "--control-delay", "1ms"), "--control-delay"),
        (("--control-delay", "1ms"), "--control-delay"),
        (("--admit", "0"), "--admit"),
        (("--admit-from", "2MB"), "--admit-from"),
        (("--admit-delay", "2ms"), "--admit-delay"),
        (("--deadline-reserved", "0"), "--deadline-reserved"),
        (("--deadline-reserved", "1e-300"), "--deadline-reserved"),
        (("--deadline-reserved", "0.75", "--deadline-mean", "1ms"), "--deadline-mean has no meaning"),
        (("--deadline-mean", "0"), "--deadline-mean"),
        (("--deadline-least", "0"), "--deadline-least"),
        (("--deadline-most", "0"), "--deadline-most"),
        (("--scheduler", "tcp://127.0.0.1:1", "--jobs", "2"), "--jobs has no meaning"),
        (("--slack", "nan"), "--slack"),
        (("--slack", "inf"), "--slack"),
        (("--seed", "-1"), "--seed"),
        (("--leaves", "0"), "--leaves"),
        (("--spines", "99999999"), "--spines"),
        (("--hosts-per-leaf", "100000000"), "--hosts-per-leaf"),
        (("--flows", "99999999999999999999"), "--flows"),
    ],
)
def test_simulate_refuses_what_it_would_ignore_or_cannot_count_with(
    words: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("simulation.toolchain.why_missing", lambda: "nothing is simulated here")
    found = CliRunner().invoke(main, ["simulate", *words])
    assert found.exit_code == 2 and says in found.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("swarm", "--figure27", "--hosts", "800"), "--hosts"),
        (("swarm", "--figure27", "--uncoordinated"), "--uncoordinated"),
        (("swarm", "--figure27", "--policy", "auto"), "--policy"),
        (("swarm", "--uncoordinated", "--policy", "auto"), "--policy"),
        (("swarm", "--uncoordinated", "--slice", "2ms"), "--slice"),
        (("swarm", "--uncoordinated", "--mode", "always"), "--mode"),
        (("swarm", "--uncoordinated", "--lose", "0.2"), "--lose"),
        (("swarm", "--uncoordinated", "--kill-coordinator"), "--kill-coordinator"),
        (("swarm", "--uncoordinated", "--change-tree"), "--change-tree"),
        (("swarm", "--out", "swarm.png"), "--out"),
        (("swarm", "--most", "1600"), "--most"),
        (("fabrics", "--clients", "--pattern", "one-receiver"), "--pattern"),
        (("fabrics", "--clients", "--trace"), "--trace"),
        (("fabrics", "--clients", "--virtual", "--rtt", "0", "--rtt", "500us"), "one round trip"),
        (("xco", "mix", "--prompt", "--json", "mix.json"), "--json"),
        (("scale", "--matching", "--shape", "rows"), "--shape"),
        (("scale", "--matching", "--slice", "1ms"), "--slice"),
        (("scale", "--window", "4"), "--window"),
        (("siege", "--quick", "--seconds", "30"), "--seconds"),
    ],
)
def test_a_benchmark_refuses_what_it_would_ignore(
    words: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*_: object, **__: object) -> None:
        raise AssertionError("it begins to measure")

    monkeypatch.chdir(tmp_path)
    for name in ("swarm.require_root", "swarm.enter_box", "fabrics.enter", "xco.enter", "siege.require_root"):
        monkeypatch.setattr(f"cli.bench.{name}", measured)
    for name in ("bench.swarm.figure27.measure", "bench.swarm.swarm.run", "bench.computing.scale.run"):
        monkeypatch.setattr(name, measured)
    found = CliRunner().invoke(main, ["bench", *words])
    assert found.exit_code == 2 and says in found.output


def test_a_swarm_that_does_not_come_up_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.swarm.swarm import NotReady

    def run(*_: object) -> None:
        raise NotReady("not within 60 s: the coordinator leads")

    monkeypatch.setattr("bench.swarm.swarm.run", run)
    found = CliRunner().invoke(main, ["bench", "swarm", "--uncoordinated"])
    assert found.exit_code == 1 and "the coordinator leads" in found.output


@pytest.mark.parametrize(
    "words", [("--xco", "23", "--control-delay", "1ms", "--json", "x"), ("--validate", "--flows", "9"), ("--plot", "x.png")]
)
def test_simulate_takes_the_options_of_its_mode(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.toolchain.why_missing", lambda: "nothing is simulated here")
    found = CliRunner().invoke(main, ["simulate", *words])
    assert found.exit_code == 1 and "nothing is simulated here" in found.output


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--host-rate", "fast"), ("--uplink-rate", "0"), ("--host-delay", "-1us"), ("--deadline-mean", "long"),
        ("--deadline-least", "short"), ("--deadline-most", "much"),
    ],
)  # fmt: skip
def test_simulate_names_the_option_whose_value_it_cannot_read(option: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.toolchain.why_missing", lambda: "")
    found = CliRunner().invoke(main, ["simulate", option, value])
    assert found.exit_code == 2 and f"{option}: " in found.output and "write" in found.output
    found = CliRunner().invoke(main, ["simulate", "--xco", "23", "--control-delay", "now"])
    assert found.exit_code == 2 and "--control-delay: " in found.output


@pytest.mark.parametrize(
    ("option", "value"),
    [("--host-rate", "1"), ("--uplink-rate", "500G"), ("--host-delay", "2s"), ("--deadline-mean", "0ms"), ("--spines", "0")],
)
def test_simulate_names_the_option_whose_value_no_fabric_has(option: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.toolchain.why_missing", lambda: "nothing is simulated here")
    found = CliRunner().invoke(main, ["simulate", option, value])
    assert found.exit_code == 2 and f"Invalid value for {option}: " in found.output, found.output


def test_simulate_says_that_its_folder_cannot_be_written_before_it_simulates(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulated(*_: object) -> None:
        raise AssertionError("it begins to simulate")

    monkeypatch.setattr("simulation.toolchain.why_missing", lambda: "")
    monkeypatch.setattr("simulation.sweep._here", simulated)
    monkeypatch.setattr("simulation.sweep._on_cluster", simulated)
    for more in ((), ("--scheduler", "tcp://127.0.0.1:1")):
        found = CliRunner().invoke(main, ["simulate", "--flows", "1", "--folder", "/proc/none", *more])
        assert found.exit_code == 2 and "--folder: /proc/none cannot be written: " in found.output, found.output
        assert "name another folder" in found.output


@pytest.mark.parametrize(
    "words",
    [
        ("demo", "--plot"),
        ("simulate", "--plot"),
        ("bench", "swarm", "--figure27", "--out"),
        ("bench", "karuna", "fct", "--plot"),
        ("bench", "xco", "mix", "--plot"),
        ("bench", "fabrics", "--plot"),
    ],
    ids=" ".join,
)
def test_a_picture_of_no_known_format_is_told_before_anything_is_measured(words: tuple[str, ...], tmp_path: Path) -> None:
    found = CliRunner().invoke(main, [*words, str(tmp_path / "new" / "picture.txt")])
    assert found.exit_code == 2 and words[-1] in found.output and ".svg" in found.output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--role", "controller", "--rate", "rubbish"), "--rate is the agent's"),
        (("--role", "agent", "--interface", "eth0", "--rate", "1gbit", "--config", "x"), "--config is the controller's"),
        (("--role", "controller", "--", "--no-such"), "-- is the agent's"),
    ],
)
def test_units_refuse_what_the_role_has_no_use_for(words: tuple[str, ...], says: str) -> None:
    code, text = run("install-units", "--dry-run", *words)
    assert code == 2 and says in text and text.count("\n") == 1
