"""softib up --detach: what its other process is given, and what it says of the engine."""

from __future__ import annotations

import click
import pytest

from softib.api.running.starting import _arguments
from softib.cli.status import _engine
from softib.cli.up import command, print_fallback

OPTIONS = [p for p in command.params if isinstance(p, click.Option) and p.name not in ("detach", "name", "help")]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.opts[0])
def test_every_option_is_spelt_as_the_other_process_takes_it(option):
    long = next(o for o in option.opts if o.startswith("--"))
    (flag,) = _arguments({long[2:].replace("-", "_"): True if option.is_flag else "7"})
    assert flag.partition("=")[0] in option.opts


def test_tables_by_another_engine_are_told(capsys):
    sm = {
        "engine": "torus-2QoS",
        "engine_used": "minhop",
        "report": {"notes": ["LMC 0", "torus-2QoS: no torus-2QoS.conf is given"]},
    }
    print_fallback(sm)
    told = capsys.readouterr().err
    assert "tables by minhop, not by torus-2QoS (torus-2QoS: no torus-2QoS.conf is given)" in told
    assert _engine(sm) == "torus-2QoS (tables by minhop)"


@pytest.mark.parametrize(("engine", "used"), [("updn", "updn"), ("ftree,updn", "updn"), ("ftree,updn", "")])
def test_an_engine_of_the_list_is_no_surprise(capsys, engine, used):
    print_fallback({"engine": engine, "engine_used": used, "report": {"notes": []}})
    assert capsys.readouterr().err == ""
