"""Terminals that know no UTF-8: no crash, no garbage; ``python -m softib``; names as people say them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

from softib.cli.main import VERBS
from softib.cli.shared.plain_text import PLAIN, wants_ascii
from softib.errors import UnknownName, nearest
from tests.cli.run import softib

FAULTY = "name: t\ntopology: {kind: fat-tree, radix: 8, levels: 2}\nfaults: [{kind: slow-link, cable: 'leaf-1[5]', speed: EDR}]\n"


BARE = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHONIO", "PYTHONUTF8"))}
SLOW = [{"LC_ALL": "POSIX"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}]


@pytest.mark.parametrize("told", [{"LANG": "C"}, *(pytest.param(t, marks=pytest.mark.slow) for t in SLOW)], ids=str)
def test_every_octet_can_be_shown(tmp_path, told):
    (tmp_path / "t.yaml").write_text(FAULTY)
    ran = subprocess.run(
        [sys.executable, "-m", "softib", "check", "t.yaml"],
        env={**BARE, **told},
        cwd=tmp_path,
        capture_output=True,
        timeout=400,
    )
    assert ran.returncode == 1, ran.stderr
    said = ran.stdout + ran.stderr
    assert b"link-slow" in said and b"<->" in said and b"\\u" not in said
    if told != {"PYTHONIOENCODING": "latin-1"}:
        said.decode("ascii")
    assert b"Traceback" not in said


@pytest.mark.parametrize("told", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}], ids=str)
def test_the_help_and_errors_too(tmp_path, told):
    for words in (["--help"], ["generate", "--list"], ["check", str(tmp_path / "é…")]):
        ran = subprocess.run(
            [sys.executable, "-m", "softib", *words], env={**BARE, **told}, capture_output=True, timeout=100
        )
        (ran.stdout + ran.stderr).decode("ascii")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"LANG": "C"}, True),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # the second is Python's own (PEP 538)
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, False),
        ({"LANG": "C", "PYTHONIOENCODING": "utf-8"}, False),
        ({"LANG": "C", "PYTHONUTF8": "1"}, False),
    ],
)
def test_who_asks_for_ascii(environment, expected):
    assert wants_ascii(environment) is expected


def test_what_replaces_a_character_is_ascii():
    assert all(v.isascii() and v for v in PLAIN.values())


def test_python_m_softib_is_the_program():
    ran = subprocess.run([sys.executable, "-m", "softib", "--version"], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0 and ran.stdout.startswith("softib, version ")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("host-2", "host-0002"),
        ("HOST-0002", "host-0002"),
        ("host_12", "host-0012"),
        ("node-1 mlx5_3", "node-001 mlx5_3"),
    ],
)
def test_a_name_as_people_say_it_suggests_the_real_one_alone(said, meant):
    names = [f"host-{i:04}" for i in range(1, 3000)] + [f"node-{i:03} mlx5_{j}" for i in range(1, 5) for j in range(8)]
    assert nearest(said, names) == [meant]
    assert str(UnknownName("node", said, names)).endswith(f"did you mean {meant}?")


def test_zeros_within_a_number_and_other_numbers_are_not_the_same():
    assert nearest("host-10", ["host-0100", "host-0001"]) != ["host-0100"]
    assert nearest("host-0", ["host-0000", "host-0001"]) == ["host-0000"]


def test_other_words_are_not_misspellings():
    """The expected names are those of people: ``tpo`` is top, ``ping`` is another program."""
    for word, verb in (("tpo", "top"), ("wyh", "why"), ("dwon", "down"), ("plna", "plan"), ("reprot", "report")):
        assert nearest(word, VERBS)[0] == verb
    assert nearest("node", VERBS) == ["node-check"] and nearest("plan", ["route", "plan_design"]) == ["plan_design"]
    for word in ("ping", "iblinkinfo", "perfquery", "cabling", "xy"):
        assert nearest(word, VERBS) == []
    assert softib("ping").err == "softib: no command 'ping'; run 'softib --help' for all\n"
    with pytest.raises(AttributeError, match=r"^module 'softib' has no attribute 'path'$"):
        importlib.import_module("softib").__getattr__("path")


def test_down_all_with_a_name_is_usage(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert softib("down", "--all", "x").code == 2
    ran = softib("down", "--all")
    assert (ran.code, ran.err) == (0, "softib: no fabric is running\n")


def test_a_name_that_several_nodes_bear_is_listed_once():
    """Netlists of ibsim name nodes and adapters alike; the list of names has room for twenty."""
    assert str(UnknownName("node", "x", ["Hca1", "Hca2", "Hca1"])) == "no node named 'x'; known: Hca1, Hca2"


def test_lines_of_a_pipe_are_not_wrapped(tmp_path, monkeypatch):
    """A finding is one line, however long, and no line ends in spaces; with COLUMNS it is wrapped as on a terminal of that width."""
    (tmp_path / "t.yaml").write_text(FAULTY)
    monkeypatch.delenv("COLUMNS", raising=False)
    message = next(
        f["message"]
        for f in softib("check", tmp_path / "t.yaml", "--json").json()["findings"]
        if f["code"] == "link-slow"
    )
    ran = softib("check", tmp_path / "t.yaml")
    assert any(message in line for line in ran.out.splitlines()) and not any(
        line.endswith(" ") for line in ran.out.splitlines()
    )
    assert "1 warning" in ran.out
    monkeypatch.setenv("COLUMNS", "60")
    assert all(len(line) <= 60 for line in softib("check", tmp_path / "t.yaml").out.splitlines())


def test_accept_of_a_file_needs_a_launcher(tmp_path, monkeypatch):
    """``accept FILE`` starts no ssh: one that would be found on PATH leaves a mark."""
    mark, program = tmp_path / "started", tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "t.yaml").write_text(FAULTY)
    ran = softib("accept", tmp_path / "t.yaml")
    assert ran.code == 2 and "32 hosts; use --launcher ssh" in ran.err and not mark.exists()
    assert "bring-up" not in ran.err, "an option that is missing is an error before the work"


def test_numbers_agree_with_their_nouns(tmp_path):
    (tmp_path / "t.yaml").write_text(FAULTY.replace("}]", "}, {kind: slow-link, cable: 'leaf-2[6]', speed: HDR}]"))
    assert "2 warnings" in softib("check", tmp_path / "t.yaml").out
    assert "(read as fabric.yaml; 1 change," in softib("convert", tmp_path / "t.yaml", tmp_path / "t.topo").out
    (tmp_path / "star.yaml").write_text("topology: {kind: fat-tree, radix: 4, levels: 1, hosts: 2}\n")
    star = softib("check", tmp_path / "star.yaml").out
    assert "1 switch, 2 channel adapters, 2 links" in star and "the only cut" in star
    assert "# 1 switch, 1 adapter, 1 cable" in softib("generate", "fat-tree", "--hosts", "1").out
