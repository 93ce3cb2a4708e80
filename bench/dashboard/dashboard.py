"""The dashboard under a large fabric: page load, the server's processor time, the browser's frames.

Method: a generated feed (bench/dashboard/feed.py, a process of its own: 200 hosts and 1,000 V2V flows by default) is
written into a private Redis ten times a second. The real server (`python -m webui.serve`) serves one page to headless Chromium
(1280 x 800, no GPU: it paints on the processor), which shows the overview, the flows and the schedule, 5 s each.

* `load_ms`: from the navigation to the load event, scripts included, of five first loads, each in a fresh profile of the
  browser whose window has been open for a while; `again_ms`: of the same page loaded again; `empty_ms`: of an empty page, the
  browser's own share; `shown_ms`: until the fabric is drawn the first time. `stolen`: the share of the wanted processor time
  that the machine's host gave to other machines during the loads.
* `server_cpu_percent`: processor time of the server's processes while the page is open, of one core; `idle`: with no page open.
* `views`: per view, times between frames (requestAnimationFrame; 16.7 ms at best), and how long painting the schedule once
  took.

The server runs at the lowest priority, so it is late on a busy machine (`load_1min`). Run this on an otherwise idle machine:
`baton bench dashboard`, or `python -m bench.dashboard.dashboard --hosts 200 --flows 1000`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from bench.dashboard.page import WebServer, browser
from controller.store.private_redis import PrivateRedis
from emulation.files import write_whole
from emulation.measuring.fidelity import CpuTimes
from emulation.measuring.measure import percentile

HOSTS, FLOWS = 200, 1_000
LOADS = 5
SETTLE_MS = 2_000
"""A new Chromium window compiles its own address bar for more than a second, on the processors that load the page."""
VIEW_S = 5.0
DRAWN = "#fabric svg, .gtile"
"""The fabric is drawn: each node, or of a large fabric its groups."""
VIEWS = ("overview", "flows", "schedule")
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
FRAMES = """ms => new Promise(done => {
  const at = [], costs = [], end = performance.now() + ms;
  const frame = now => {
    at.push(now);
    costs.push(window.baton.timeline.costMs ?? 0);
    now < end ? requestAnimationFrame(frame) : done({at, costs});
  };
  requestAnimationFrame(frame);
})"""


def run(hosts: int = HOSTS, flows: int = FLOWS) -> dict[str, Any]:
    """The figures of the module's docstring, as JSON values."""
    with tempfile.TemporaryDirectory(prefix="baton-dashboard-") as name:
        directory = Path(name)
        with PrivateRedis(directory) as redis, WebServer(redis.url, directory) as server:
            command = [sys.executable, "-m", "bench.dashboard.feed", "--store", redis.url]
            feed = subprocess.Popen([*command, "--hosts", str(hosts), "--flows", str(flows)], stdout=subprocess.PIPE)
            try:
                assert feed.stdout is not None
                feed.stdout.readline()  # a line says that the first documents are in the store
                with browser() as chromium:
                    asked = {"hosts": hosts, "flows": flows, "fed_hz": 10}
                    machine = {"cpus": os.cpu_count(), "load_1min": os.getloadavg()[0]}
                    return asked | _measure(server, chromium) | machine
            finally:
                feed.terminate()
                feed.wait()


def _measure(server: WebServer, chromium: Browser) -> dict[str, Any]:
    time.sleep(1)
    idle = _percent(server, lambda: time.sleep(2))
    before = CpuTimes.now()
    loads = [_load(server, chromium) for _ in range(LOADS)]
    stolen = round(CpuTimes.now().stolen_since(before), 3)
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.goto(server.url)
    page.wait_for_selector(DRAWN)
    views: dict[str, Any] = {}
    used = _percent(server, lambda: views.update({view: _frames(page, view) for view in VIEWS}))
    page.close()
    return {
        **{name: _summary([load[name] for load in loads]) for name in ("load_ms", "again_ms", "empty_ms", "shown_ms")},
        "stolen": stolen,
        "server_cpu_percent": {"idle": idle, "one page": used},
        "views": views,
    }


def _percent(server: WebServer, work: Any) -> float:  # noqa: ANN401 -- any callable
    before_s, began = server.cpu_s(), time.monotonic()
    work()
    return round(100 * (server.cpu_s() - before_s) / (time.monotonic() - began), 1)


def _load(server: WebServer, chromium: Browser) -> dict[str, float]:
    """The milliseconds of one fresh profile."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    empty, page = context.new_page(), context.new_page()
    page.wait_for_timeout(SETTLE_MS)
    empty.goto("data:text/html,<p>")
    found = {"empty_ms": empty.evaluate(LOADED)}
    page.goto(server.url)
    page.wait_for_selector(DRAWN)
    found |= {"shown_ms": page.evaluate("performance.now()"), "load_ms": page.evaluate(LOADED)}
    page.reload()
    found["again_ms"] = page.evaluate(LOADED)
    context.close()
    return found


def _frames(page: Page, view: str) -> dict[str, float]:
    page.evaluate("view => { location.hash = view }", view)
    page.wait_for_timeout(300)
    found = page.evaluate(FRAMES, VIEW_S * 1000)
    gaps = [b - a for a, b in zip(found["at"], found["at"][1:], strict=False)]
    return {
        "frames_per_s": round(1000 * len(gaps) / sum(gaps), 1),
        "frame_ms_p50": round(statistics.median(gaps), 1),
        "frame_ms_p99": round(percentile(gaps, 99) or 0.0, 1),
        "frame_ms_max": round(max(gaps), 1),
        "schedule_paint_ms_max": round(max(found["costs"]), 1),
    }


def _summary(values: list[float]) -> dict[str, float]:
    return {"min": round(min(values)), "p50": round(statistics.median(values)), "max": round(max(values))}


def main(arguments: list[str] | None = None) -> int:
    """`python -m bench.dashboard.dashboard`: prints JSON."""
    parser = argparse.ArgumentParser(prog="dashboard", description="Measure the dashboard under a large fabric.")
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--flows", type=int, default=FLOWS)
    parser.add_argument("--json", type=Path, help="write the result to this file, too")
    options = parser.parse_args(arguments)
    text = json.dumps(run(options.hosts, options.flows), indent=1)
    sys.stdout.write(text + "\n")
    if options.json is not None:
        write_whole(options.json, text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
