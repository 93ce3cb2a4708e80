"""The attackers' programs: frames from one host's interface, and clients of the controller's ports. An edge: sockets, a clock.

`python -m bench.siege.floods JSON`; JSON is an object of `frames` or of `clients`. It prints how many of each kind were sent,
as JSON, after a line once it begins. It is as little urgent as a program can be: a real attacker has a processor of its own.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from bench.dashboard.hostile import HOME, Operator
from bench.fuzz.openflow import FEATURES, HELLOS, SEEDS, message
from bench.siege.frames import Scene, frames
from controller.openflow.intake.messages import HELLO
from protocol.auth import Guard
from protocol.keys import host_file
from protocol.link import ControlSocket
from protocol.messages import GateKind, Register, Welcome, encode

READY = "ready"
NICE = 19
TURN_S = 0.01
JOIN_S, ASK_S = 8.0, 0.2
LOCAL = "127.0.1.{}"
"""From where logins with a wrong password come: 200 addresses."""


def paced(rates: Mapping[str, float], until_s: float, send: Callable[[str], None]) -> dict[str, int]:
    """Calls `send(kind)` at these rates (each per second) until `until_s` (monotonic); how many of each kind it was.

    What was missed is made up for within a second, and lost after that.
    """
    sent: Counter[str] = Counter()
    due = dict.fromkeys(rates, time.monotonic())
    while (now_s := time.monotonic()) < until_s:
        for kind, rate in rates.items():
            due[kind] = max(due[kind], now_s - 1)
            while rate > 0 and due[kind] <= now_s:
                due[kind] += 1 / rate
                with contextlib.suppress(OSError):  # a queue is full, or a peer hangs up
                    send(kind)
                    sent[kind] += 1
        time.sleep(TURN_S)
    return dict(sent)


def flood(
    interface: str, rates: Mapping[str, float], until_ns: int, scene: Mapping[str, Any], key: str | None = None, seed: int = 1
) -> dict[str, int]:
    """Sends frames of these kinds by an interface. `scene`: the fields of `Scene` as text; `key`: a host's file."""
    made = scene_of(interface, scene)
    if key is not None:
        host = host_file.load(Path(key))
        made = _joined(interface, replace(made, name=host.name, key=host.at(made.mac)))
    generator = random.Random(seed)
    series = {kind: frames(kind, made, generator) for kind in rates}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as wire:
        wire.bind((interface, 0))
        wire.setblocking(False)
        return paced(rates, until_ns / 1e9, lambda kind: void(wire.send(next(series[kind]))))


def scene_of(interface: str, told: Mapping[str, Any]) -> Scene:
    """The scene of a host with this interface."""
    return Scene(
        mac=bytes.fromhex(Path(f"/sys/class/net/{interface}/address").read_text().strip().replace(":", "")),
        address=IPv4Address(told["address"]),
        other_mac=_octets(told["other_mac"]),
        other_address=IPv4Address(told["other_address"]),
        leader_mac=_octets(told["leader_mac"]),
        victims=[(_octets(mac), IPv4Address(address), node) for mac, address, node in told["victims"]],
        sequence=time.time_ns(),
    )


def _joined(interface: str, scene: Scene) -> Scene:
    """Becomes a member, as an agent does, and so learns epoch and node id; without an answer they stay 0."""
    assert scene.key is not None
    link, guard = ControlSocket(interface), Guard(scene.key, address=scene.mac)
    until = time.monotonic() + JOIN_S
    asked_s, sequence = 0.0, scene.sequence - (1 << 20)
    while (now_s := time.monotonic()) < until:
        if now_s - asked_s > ASK_S:
            asked_s, sequence = now_s, sequence + 1
            register = Register(scene.name, 1, 10**8, (scene.address,), GateKind.TBF, "1")
            link.send(encode(
                register, key=scene.key.to_leader, destination=scene.leader_mac, source=scene.mac, sender=0, epoch=guard.epoch,
                sequence=sequence,
            ))  # fmt: skip
        while (raw := link.receive()) is not None:
            frame = guard.accept(raw)
            if frame is not None and isinstance(frame.message, Welcome):
                return replace(scene, epoch=frame.epoch, node=frame.message.node)
        time.sleep(TURN_S)
    return replace(scene, epoch=guard.epoch)


def clients(
    rates: Mapping[str, float], until_ns: int, openflow: list[Any], web_port: int, held: int, seed: int = 1
) -> dict[str, int]:
    """Connects to the OpenFlow port (half of the connections stay open and silent, at most `held`), and logs in in vain."""
    generator = random.Random(seed)
    kept: deque[socket.socket] = deque()

    def connect(_: str) -> None:
        connection = socket.create_connection((openflow[0], openflow[1]), timeout=1)
        if generator.random() < 0.5:
            kept.append(connection)
            if len(kept) > held:
                kept.popleft().close()
            return
        with connection:
            good = generator.choice(HELLOS) + FEATURES
            connection.sendall(generator.choice((
                message(HELLO, bytes(4)), generator.randbytes(200), good + message(10, generator.randbytes(60)),
                good + generator.choice(SEEDS)[:-4] + bytes(400),
            )))  # fmt: skip

    def log_in(_: str) -> None:
        address = generator.choice((HOME, LOCAL.format(generator.randrange(1, 200))))
        with contextlib.suppress(http.client.HTTPException, ValueError):
            operator = Operator(web_port, address)
            with contextlib.closing(operator.connect()) as connection:
                csrf = json.loads(operator.ask(connection, "GET", "/api/session"))["csrf"]
                with contextlib.suppress(OSError):  # refused, as it must be
                    operator.ask(connection, "POST", "/login", {"user": "ann", "password": "wrong", "csrf_token": csrf})

    calls = {"openflow": connect, "logins": log_in}
    try:
        return paced(rates, until_ns / 1e9, lambda kind: calls[kind](kind))
    finally:
        for connection in kept:
            connection.close()


def void(_: object) -> None:
    """Discards a value."""


def _octets(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def main(arguments: list[str]) -> int:
    """The program."""
    os.nice(NICE)
    told = json.loads(arguments[0])
    print(READY, flush=True)
    made = clients(**told["clients"]) if "clients" in told else flood(**told["frames"])
    print(json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
