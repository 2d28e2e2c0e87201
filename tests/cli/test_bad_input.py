"""Bad input: one line that says what is wrong and what would be right, exit 2, never a traceback."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import one_line, softib

READING = (("report",), ("check",), ("route", "--engine", "minhop"))


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A netlist of one switch and two hosts."""
    path = tmp_path / "small.net"
    path.write_text('Switch 4 "S1"\n[1] "H1"[1]\n[2] "H2"[1]\n\nHca 1 "H1"\n[1] "S1"[1]\n\nHca 1 "H2"\n[1] "S1"[2]\n')
    return path


def bad_sources(tmp_path: Path) -> dict[str, tuple[str, str]]:
    """What it is → (argument, a word of the line)."""
    made = {
        "empty": b"",
        "blank": b" \n\n\t\n",
        "random": random.Random(1).randbytes(4096),
        "prose": b"Hello all,\nplease find attached the fabric.\n",
        "one-line": b"x" * 2_000_000,
        "unfinished.yaml": b"topology: {kind: fat-tree, radix:",
        "list.yaml": b"- 1\n- 2\n",
        "impossible.yaml": b"topology: {kind: rail-optimized, nodes: 4, radix: 7, rails: 8}\n",
        "kind.yaml": b"topology: {kind: fat-tre, radix: 8}\n",
        "list-kind.yaml": b"topology: {kind: [fat-tree], radix: 8}\n",
        "fault.yaml": (
            b'topology: {kind: fat-tree, radix: 8, levels: 2}\nfaults: [{cable: "nowhere[1]", remove: true}]\n'
        ),
        "huge.yaml": b"topology: {kind: fat-tree, radix: 9999, levels: 3}\n",
    }
    out = {}
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
        out[name] = (str(tmp_path / name), name)
    out["missing"] = (str(tmp_path / "no" / "such.net"), "no such file")
    out["no name"] = ("", "SOURCE is empty")
    out["missing name"] = ("pod-7", "running")
    out["directory"] = (str(tmp_path), "directory")
    out["live"] = ("umad:mlx9_9", "no umad device")
    return out


NAMES = ("empty", "blank", "random", "prose", "one-line", "unfinished.yaml", "list.yaml", "impossible.yaml", "kind.yaml",
         "list-kind.yaml", "fault.yaml", "huge.yaml", "no name", "missing", "missing name", "directory", "live")  # fmt: skip # a packed list of short values


@pytest.mark.parametrize("verb", READING, ids=lambda v: v[0])
@pytest.mark.parametrize("name", NAMES)
def test_a_bad_source_is_one_line(tmp_path, name, verb):
    argument, word = bad_sources(tmp_path)[name]
    assert word in one_line(softib(verb[0], argument, *verb[1:]))


@pytest.mark.parametrize("name", NAMES)
def test_convert_and_diff_say_the_same(tmp_path, name, net):
    argument, word = bad_sources(tmp_path)[name]
    assert word in one_line(softib("convert", argument, tmp_path / "out.net"))
    assert not (tmp_path / "out.net").exists()
    assert word in one_line(softib("diff", net, argument))


def test_a_misspelt_file_names_its_neighbour(net):
    assert str(net) in one_line(softib("check", net.with_name("smal.net")))  # codespell:ignore smal


@pytest.mark.parametrize("verb", ["report", "route"])
def test_an_unknown_engine_names_the_near_ones_before_any_work(verb, tmp_path):
    line = one_line(softib(verb, tmp_path / "absent", "--engine", "min-hop"))
    assert "minhop" in line


def test_an_impossible_topology_says_what_would_be_right(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("topology: {kind: rail-optimized, nodes: 4, radix: 7, rails: 8}\n")
    line = one_line(softib("report", path))
    assert f"{path}:1:" in line
    assert "radix" in line or "rails" in line


def test_engine_and_lfts_exclude_each_other(net):
    assert "one of the two" in one_line(softib("route", net, "--engine", "minhop", "--lfts", net))


def test_tables_need_addresses(net):
    assert "LID" in one_line(softib("route", net, "--lfts", net))


@pytest.mark.parametrize("option", ["--plan", "--html"])
def test_files_beside_the_source_are_checked_too(net, tmp_path, option):
    given = tmp_path if option == "--html" else tmp_path / "absent.csv"
    assert str(given) in one_line(softib("report", net, option, given))


def test_convert_to_nowhere_and_to_nothing(net, tmp_path):
    assert "no-such-dir" in one_line(softib("convert", net, tmp_path / "no-such-dir" / "x.net"))
    assert "suffix" in one_line(softib("convert", net, tmp_path / "x.unknown"))
    assert "ibsim" in one_line(softib("convert", net, tmp_path / "x", "--to", "ibsm"))


@pytest.mark.parametrize(
    "args", [(), ("--nope",), ("reportt", "x"), ("report",), ("diff", "a"), ("report", "x", "--seed", "-1")]
)
def test_usage_is_exit_2_without_a_traceback(args):
    ran = softib(*args)
    assert ran.code in (0, 2) if not args else ran.code == 2
    assert "Traceback" not in ran.err + ran.out


def test_a_misspelt_verb_names_the_near_one():
    assert "report" in one_line(softib("reportt", "x"))


def test_a_closed_pipe_is_no_error(net):
    """``softib check … | head -0``: the reader leaves, nobody complains."""
    code = f"{sys.executable} -m softib.cli.main check {net} --json | head -c 1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", code], capture_output=True, text=True, timeout=400)
    assert "Traceback" not in ran.stderr
    assert "Broken" not in ran.stderr


def test_a_missing_choice_is_one_line_too():
    assert "link-down" in one_line(softib("fault"))


def test_random_bytes_after_a_good_head_are_kept_apart(net, tmp_path):
    data = net.read_bytes()
    noise = random.Random(2).randbytes(300)
    path = tmp_path / "half.net"
    path.write_bytes(data + noise)
    ran = softib("check", path, "--json")
    assert ran.code == 1
    found = ran.json()
    assert found["fabric"]["switches"] == 1
    assert found["problems"]
    assert all(set(p) == {"file", "line", "reason"} for p in found["problems"])


def run_apart(*args: str, stdout: int) -> subprocess.CompletedProcess[str]:
    """``softib ARGS`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "softib.cli.main", *args], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["--help"], ["convert"], ["check", "--json"], ["check"]])
def test_a_full_disk_under_stdout_is_one_line(args: list[str], net: Path, tmp_path: Path):
    more = [] if args == ["--help"] else [str(net), *([str(tmp_path / "out.net")] if args == ["convert"] else [])]
    with open("/dev/full", "w") as full:
        ran = run_apart(*args, *more, stdout=full.fileno())
    assert ran.returncode == 2
    assert (
        ran.stderr.splitlines()[-1]
        == "softib: stdout: No space left on device; free space on this file system or enlarge it"
    )
    assert "Traceback" not in ran.stderr and "Exception ignored" not in ran.stderr


@pytest.mark.parametrize("args", [["--help"], ["convert"], ["check", "--json"], ["check"]])
def test_a_reader_that_left_ends_it_quietly(args: list[str], net: Path, tmp_path: Path):
    """As ``| head`` does; exit 1 would say that the answer is bad news."""
    more = [] if args == ["--help"] else [str(net), *([str(tmp_path / "out.net")] if args == ["convert"] else [])]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = run_apart(*args, *more, stdout=writer)
    finally:
        os.close(writer)
    assert ran.returncode == 141
    assert [line for line in ran.stderr.splitlines() if not line.endswith(" s")] == []
