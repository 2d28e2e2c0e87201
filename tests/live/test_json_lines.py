"""``--json`` of verbs about running fabrics: each document against its schema; verbs that go on print one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from softib.cli.main import VERBS, cli
from tests.cli.documents import check
from tests.live.lab import said

DOCS = Path(__file__).resolve().parents[2] / "docs"
WITHOUT = {"run": "the program's", "shell": "the program's", "completion": "a script"}
"""Verbs without --json → what they print, as docs/cli.md says."""


def leaves(command: click.Command, name: str):
    if isinstance(command, click.Group):
        for part in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), part)
            assert found is not None
            yield from leaves(found, f"{name} {part}")
    if command.params or not isinstance(command, click.Group):
        yield name, {option for p in command.params for option in p.opts}


def test_every_verb_that_prints_has_json():
    commands = [row for verb in VERBS for row in leaves(cli.get_command(None, verb), verb)]
    assert {name for name, options in commands if "--json" not in options} == set(WITHOUT)
    text = " ".join((DOCS / "cli.md").read_text().split())
    assert (
        "Three verbs have no `--json`: the output of `run` and `shell` is the program's, and `completion` prints a script"
        in text
    )


@pytest.mark.slow
def test_a_fabric_from_up_to_down(softib):
    (one,) = check("status", said(softib, "up", "one.yaml", "--detach"))["fabrics"]
    assert one["ready"] and one["name"] == "one" and one["links"] == softib.status()[0]["links"]
    seen = check("top", said(softib, "top", "one", "--every", "0.2"))
    assert seen["ports_read"] == seen["ports_answered"] > 0 and seen["managers"][0]["state"] == "MASTER"
    kept = check("baseline-record", said(softib, "baseline", "record", "b.json", "one"))
    assert kept["nodes"] == one["nodes"] and (softib.folder / "b.json").exists()
    assert check("down", said(softib, "down", "--all"))["stopped"] == ["one"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["exporter", "serve"])
def test_a_server_says_where_it_listens(verb, softib):
    import urllib.request

    pytest.importorskip("prometheus_client" if verb == "exporter" else "fastapi")
    softib("up", "one.yaml", "--detach")
    command = [sys.executable, "-m", "softib", verb, "one", "--port", "0", "--json"]
    with subprocess.Popen(
        command, env=softib.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            found = check("listening", json.loads(server.stdout.readline()))
            assert (found["verb"], found["source"], found["pid"]) == (verb, "one", server.pid)
            with urllib.request.urlopen(found["url"], timeout=30) as answer:
                assert answer.status == 200
        finally:
            server.terminate()
