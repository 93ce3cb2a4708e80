"""`baton switch-config`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from cli.values import named

Made = TypeVar("Made")


@click.command("switch-config")
@click.option(
    "--platform", type=click.Choice(["sonic", "generic", "openvswitch"]), required=True, help="The switch's platform."
)
@click.option("--port", "ports", multiple=True, required=True, help="A port of the switch, such as Ethernet0; may be repeated.")
@click.option("--rate", default="1Gbit", show_default=True, help="The rate of each port.")
@click.option("--threshold", help="Mark above this size, such as 30KB, or none.")
@click.option("--per-queue", is_flag=True, help="The threshold is each queue's, not the port's.")
@click.option("--buffer", "buffer_packets", type=int, help="Packets that the data queues of a port share, such as 100.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Read what the other options leave out from the section switch_queues of this file.",
)
def switch_config(
    platform: str,
    ports: tuple[str, ...],
    rate: str,
    threshold: str | None,
    per_queue: bool,
    buffer_packets: int | None,
    config: Path | None,
) -> None:
    """Print the configuration with which a hardware switch queues and marks as Baton's own switch ports do.

    It has eight strict priorities by DSCP, one ECN threshold and a finite buffer; Baton's own frames go first, by their 802.1p
    priority. For an Open vSwitch elsewhere it has the queue of those frames. Notes on standard error name what the platform
    can't express.
    """
    from dataclasses import replace

    from controller.config.reading import ConfigError, load
    from controller.switch_queues.hardware import PLATFORMS
    from controller.switch_queues.model import PortQueues, SwitchQueues
    from topology.units import parse_rate, parse_size

    for port in ports:
        if not port or not port.isprintable():
            raise click.BadParameter(f"{port!r} is no port's name; write one such as Ethernet0", param_hint="--port")
    queues = SwitchQueues()
    try:
        if config is not None:
            section = load(config).switch_queues
            if section is None:
                raise click.ClickException(f"{config}: switch_queues: is missing; write one, or leave --config out")
            queues = section.queues()
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    size = None if threshold in (None, "none") else named("--threshold", threshold, parse_size)
    if threshold is not None:
        queues = _with("--threshold", lambda: replace(queues, marking_threshold_bytes=size))
    if buffer_packets is not None:
        queues = _with("--buffer", lambda: replace(queues, buffer_packets=buffer_packets))
    if per_queue:
        queues = replace(queues, per_queue=True)
    rate_bps = named("--rate", rate, parse_rate) or 0
    shown = PLATFORMS[platform](ports, _with("--rate", lambda: PortQueues(rate_bps, queues)))
    click.echo(shown.text)
    for note in shown.notes:
        click.echo(f"note: {note}", err=True)


def _with(option: str, make: Callable[[], Made]) -> Made:
    """What `make` makes; ends the command with an error that names the option and not the field that it sets."""
    try:
        return make()
    except ValueError as error:
        field, _, says = str(error).partition(": ")
        raise click.BadParameter(says or field, param_hint=option) from None
