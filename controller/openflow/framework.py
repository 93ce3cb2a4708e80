"""Chooses between Ryu and os-ken, and starts either.

Both have the same modules under different roots: `load()` gives the modules of the chosen root that
`controller/app.py` and `controller/openflow/codec.py` use. Run `ryu-manager controller/app.py` for Ryu 4.34, or
`python -m controller.openflow.framework os-ken` for os-ken 4, which has no manager command of its own.

os-ken 4 runs on native threads by default, but then it never notices that a switch has left (its threads cannot be ended, and
Datapath.serve() waits for them). Therefore both frameworks run on eventlet.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from controller.openflow.intake import entries

RYU, OS_KEN = "ryu", "os_ken"
APP = "controller.app"
ECHO_S, ECHOES = 15.0, 5
"""How often a switch is asked for a sign of life, and how many of these may go unanswered: some need a minute to put
thousands of flows into hardware, and answer then."""


@dataclass(frozen=True)
class Framework:
    """The modules of the chosen framework. The frameworks publish no types, so the modules are Any."""

    root: str
    base: type
    app_manager: Any
    hub: Any
    handler: Any
    ofp_event: Any
    packet: ModuleType
    conf: Any


def chosen() -> str:
    """The framework whose manager is running in this process; Ryu if neither is."""
    return OS_KEN if f"{OS_KEN}.base.app_manager" in sys.modules else RYU


def load() -> Framework:
    """The chosen framework."""
    root = chosen()
    if root == RYU:
        _mend_eventlet()

    def module(name: str) -> Any:  # noqa: ANN401 -- of a package without types
        return importlib.import_module(f"{root}.{name}")

    app_manager, conf = module("base.app_manager"), module("cfg").CONF
    module("controller.controller")  # registers the options of where to listen
    entries.keep_raw(module("ofproto.ofproto_v1_3_parser"))
    for name in ("ethernet", "arp", "ipv4"):
        module(f"lib.packet.{name}")
    return Framework(
        root=root,
        base=app_manager.RyuApp if root == RYU else app_manager.OSKenApp,
        app_manager=app_manager,
        hub=module("lib.hub"),
        handler=module("controller.handler"),
        ofp_event=module("controller.ofp_event"),
        packet=module("lib.packet"),
        conf=conf,
    )


def listen_by_default(framework: Framework, host: str, port: int | None = None) -> None:
    """Sets where to listen for switches, unless the command line says otherwise. `port` None: where the framework does."""
    framework.conf.set_default("ofp_listen_host", host)
    if port is not None:
        framework.conf.set_default("ofp_tcp_listen_port", port)


def expect_answers(framework: Framework) -> None:
    """Has the framework end the connection of a switch that owes more than ECHOES answers, unless the command line says
    otherwise. By itself it would ask for none, and wait for TCP: a quarter of an hour."""
    framework.conf.set_default("echo_request_interval", ECHO_S)
    framework.conf.set_default("maximum_unreplied_echo_requests", ECHOES)


def aside(work: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 -- whatever `work` returns
    """Has a native thread do long work, while the green threads go on; returns what it returns. The work touches nothing that
    they change."""
    return importlib.import_module("eventlet.tpool").execute(work, *arguments)


def _mend_eventlet() -> None:
    """Adds the name that Ryu's wsgi module imports and eventlet dropped in 0.30.3; without HTTP routes Ryu never uses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eventlet warns of its own deprecation at import
        wsgi = importlib.import_module("eventlet.wsgi")
    if not hasattr(wsgi, "ALREADY_HANDLED"):
        wsgi.ALREADY_HANDLED = object()  # type: ignore[attr-defined]  # added to a module that lacks it


def _end_at_once() -> None:
    """Has Ctrl-C end the process as SIGTERM does: with their own handlers both frameworks wait without end for the threads of
    their discovery. Nothing is lost: switches keep their tables, and child processes end with this one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ryu_manager() -> None:
    """The `ryu-manager` command: Ryu's own, made to work with current eventlet."""
    _end_at_once()
    _mend_eventlet()
    importlib.import_module("ryu.cmd.manager").main()


def run_os_ken(listen_host: str = "127.0.0.1", listen_port: int = 6653, app: str = APP) -> None:
    """Runs the application under os-ken until it is stopped. Call it first in the process: it patches the standard library, as
    Ryu's manager does, so that only the green thread that asks the store waits for its answer."""
    _end_at_once()
    os.environ["OSKEN_HUB_TYPE"] = "eventlet"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hub = importlib.import_module("os_ken.lib.hub")
    hub.patch(thread=False)  # eventlet takes thread=True for: nothing but threads
    conf = importlib.import_module("os_ken.cfg").CONF
    app_manager = importlib.import_module("os_ken.base.app_manager")
    importlib.import_module("os_ken.controller.controller")  # registers options, which must come before os-ken parses them
    log = importlib.import_module("os_ken.log")
    log.early_init_log()
    conf(args=[], project="os_ken", default_config_files=[])
    log.init_log()
    conf.set_override("ofp_listen_host", listen_host)
    conf.set_override("ofp_tcp_listen_port", listen_port)
    app_manager.AppManager.run_apps([app])


def main(argv: list[str] | None = None) -> None:
    """`python -m controller.openflow.framework {ryu,os-ken} [--listen-host H] [--listen-port N]`."""
    parser = argparse.ArgumentParser(prog="python -m controller.openflow.framework", description=main.__doc__)
    parser.add_argument("framework", choices=("ryu", "os-ken"))
    parser.add_argument("--listen-host", default="127.0.0.1")
    parser.add_argument("--listen-port", type=int, default=6653)
    options = parser.parse_args(argv)
    if options.framework == "os-ken":
        run_os_ken(options.listen_host, options.listen_port)
        return
    host, port = options.listen_host, options.listen_port
    sys.argv = ["ryu-manager", "--ofp-listen-host", host, "--ofp-tcp-listen-port", str(port), APP]
    ryu_manager()


if __name__ == "__main__":
    main()
