"""Runs the page's own scripts in the Node.js that Playwright brings along."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import playwright

from webui.http.pages import STATIC

NODE = Path(playwright.__file__).parent / "driver" / "node"


def script(name: str) -> str:
    """A module of the page as a classic script: what it imports must be defined before it."""
    return re.sub("^import .*|^export ", "", (STATIC / name).read_text(), flags=re.M)


def found_by(program: str) -> Any:  # noqa: ANN401 -- any JSON
    """What `answer(value)` in the program was last called with."""
    told = subprocess.run(
        [NODE, "-e", f"const answer = (value) => console.log(JSON.stringify(value)); {program}"],
        capture_output=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    return json.loads(told.splitlines()[-1])
