"""softib up --detach: what its other process is given, and what it says of the engine."""

from __future__ import annotations

import click
import pytest

from softib.api.running.serving import _arguments
from softib.cli.run.status import _engine
from softib.cli.run.up import command
from softib.live.status import ManagerStatus

OPTIONS = [p for p in command.params if isinstance(p, click.Option) and p.name not in ("detach", "name", "help")]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.opts[0])
def test_every_option_is_spelt_as_the_other_process_takes_it(option):
    long = next(o for o in option.opts if o.startswith("--"))
    (flag,) = _arguments({long[2:].replace("-", "_"): True if option.is_flag else "7"})
    assert flag.partition("=")[0] in option.opts


def test_tables_by_another_engine_are_shown():
    assert (
        _engine(ManagerStatus("internal", engine="torus-2QoS", engine_used="minhop")) == "torus-2QoS (tables by minhop)"
    )
