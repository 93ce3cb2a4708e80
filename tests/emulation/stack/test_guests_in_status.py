"""Marks of guests' flows, from an agent by the leader and the store to `baton status`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from emulation.stack.star import RECEIVER, SENDERS, star

ROOT = Path(__file__).parents[3]


def test_what_a_host_holds_and_refuses_is_in_the_status(priority_options: tuple[str, ...]) -> None:
    with star(agents=False, priorities={"enabled": True}) as made:
        made.baton.start_agents(options=(*priority_options, "--guests"))
        host, run_dir = SENDERS[0], str(made.baton.directory / "run")
        target = str(made.emulated.endpoints()[RECEIVER])
        flow = (sys.executable, "-m", "cli.main", "flow", "mark", "--to", target, "--size", "1KB", "--for", "5min")
        where = ("--run-dir", run_dir, "--interface", made.emulated.interface(host))
        marked = made.emulated.run_in(host, *flow, "--from", "10.99.0.5", *where)
        assert f"10.99.0.5 -> {target}: size 1,000 bytes" in marked
        refused = made.emulated.popen(host, [*flow, *where], stderr=subprocess.PIPE)
        assert b"from: missing" in refused.communicate(timeout=20)[1]

        def told() -> dict[str, Any]:
            members = {member["name"]: member for member in made.baton.store.members().values()}
            return {name: member.get("guest_marks", {}).get("held") for name, member in members.items()}

        made.baton.wait(lambda: told() == {**dict.fromkeys((*SENDERS, RECEIVER), 0), host: 1}, "every host's marks")
        status = (sys.executable, "-m", "cli.main", "status", "--store", made.baton.store.url)
        done = subprocess.run(status, capture_output=True, text=True, check=False, cwd=ROOT)
        assert f"{host}: 1 marks held, 0 expired, 0 removed, 1 requests refused" in " ".join(done.stdout.split())
        made.baton.stop_agents()
