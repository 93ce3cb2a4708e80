"""Seeds that some generator would refuse are refused by every command, before it measures."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from cli.main import main


def seeds(command: click.Command, name: str = "baton") -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from seeds(found, f"{name} {sub}")
    yield from ((name, option) for option in command.params if "--seed" in option.opts)


SEEDS = dict(seeds(main))


def test_there_are_commands_with_seeds() -> None:
    some = {"virtual run", "simulate", "bench scale", "bench karuna", "bench coflow"}
    assert {f"baton {name}" for name in some} <= SEEDS.keys()


@pytest.mark.parametrize("name", SEEDS)
@pytest.mark.parametrize("seed", ["-1", str(2**32)])
def test_a_seed_out_of_range_is_refused(name: str, seed: str) -> None:
    with pytest.raises(click.BadParameter, match="range"):
        SEEDS[name].type.convert(seed, SEEDS[name], None)


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_in_range_is_taken(name: str) -> None:
    assert SEEDS[name].type.convert("4294967295", SEEDS[name], None) == 2**32 - 1
