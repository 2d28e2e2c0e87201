"""``softib generate``: every kind of the registry as a file that the other verbs read."""

from __future__ import annotations

import pytest
import yaml

from softib.fabric.diff import diff
from softib.fabric.topologies.registry import KINDS, generate
from softib.fabric.topologies.spec import load_fabric_yaml
from tests.cli.run import one_line, softib

SMALL = {
    "fat-tree": (
        {"radix": 8, "levels": 2, "oversubscription": "3:1"},
        ["--radix", "8", "--levels=2", "--oversubscription", "3:1"],
    ),
    "rail-optimized": (
        {"nodes": 4, "rails": 2, "radix": 8, "ufm": False},
        ["--nodes", 4, "--rails", 2, "--radix", 8, "--ufm", "no"],
    ),
    "dragonfly": ({"g": 3, "radix": 7}, ["--g", 3, "--radix", 7]),
    "dragonfly+": ({"g": 3, "radix": 8}, ["--g", 3, "--radix", 8]),
    "torus": ({"dims": [4, 4], "hosts_per_switch": 2}, ["--dims", "4x4", "--hosts-per-switch", 2]),
    "mesh": ({"dims": [3, 2]}, ["--dims", "3,2"]),
    "hyperx": ({"dims": [3, 3], "parallel": [1, 2]}, ["--dims", "[3, 3]", "--parallel", "1,2"]),
    "ring": ({"switches": 5}, ["--switches", 5]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_is_the_fabric(kind, tmp_path):
    params, words = SMALL[kind]
    ran = softib("generate", kind, *words, "--generation", "hdr", "--name", "mine")
    assert ran.code == 0, ran.err
    file = tmp_path / "f.yaml"
    file.write_text(ran.out)
    read = load_fabric_yaml(file)
    assert read.fabric.name == "mine" and yaml.safe_load(ran.out)["generation"] == "HDR"
    assert diff(read.fabric, generate(kind, generation="HDR", **params)) == []
    size = read.fabric.sizes
    assert (
        ran.out.splitlines()[0]
        == f"# {size.switches} switches, {size.nodes - size.switches} adapters, {size.cables} cables"
    )


def test_the_lists_have_every_kind_and_parameter():
    kinds = softib("generate", "--list").out
    assert [line.split()[0] for line in kinds.splitlines()] == list(KINDS)
    for kind in KINDS.values():
        told = softib("generate", kind.name, "--list").out
        for p in kind.all_parameters:
            assert f"--{p.name.replace('_', '-')} " in told
    told = softib("generate", "--list", "--json").json()["kinds"]
    assert [k["kind"] for k in told] == list(KINDS)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), "fat-tree"),
        (("fat-tre",), "did you mean fat-tree"),
        (("fat-tree", "--radx", "8"), "did you mean radix"),
        (("fat-tree", "--radix"), "needs a value"),
        (("fat-tree", "--radix", "many"), "whole number"),
        (("fat-tree", "8"), "use options for parameters"),
        (("fat-tree", "--radix", "8", "--radix", "9"), "twice"),
        (("torus",), "dims is missing"),
        (("torus", "--dims", "4x"), "whole number"),
        (("fat-tree", "--radix", "9999"), "out of range"),
        (("fat-tree", "--generation", "QDRR"), "QDR"),
        (("rail-optimized", "--nodes", "4", "--ufm", "perhaps"), "neither true nor false"),
        (("ring", "--json"), "--list"),
        (("fat-tree", "--radix", "64", "--levels", "6"), ""),
    ],
)
def test_mistakes_are_one_line(words, hint):
    assert hint in one_line(softib("generate", *words))


@pytest.mark.parametrize("word", ("x", "4xx4", "4x4xa", ",", "2:x", "1e9"))
def test_the_word_that_was_typed_is_shown(word):
    """Not what a parser made of it: the oracle is the word itself."""
    for kind in KINDS.values():
        for p in (p for p in kind.all_parameters if p.form != "text"):
            given = [(q.name, "4") for q in kind.all_parameters if q.required and q is not p] + [(p.name, word)]
            line = one_line(softib("generate", kind.name, *(f"--{n.replace('_', '-')}={w}" for n, w in given)))
            assert repr(word) in line, line
