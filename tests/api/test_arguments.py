"""What is of the wrong type is one line that names function and argument. Oracle: hostile values in
every argument of every public function."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import softib

TREE = softib.generate("fat-tree", radix=4, levels=2)
FUNCTIONS = {name: f for name in softib.__all__ if inspect.isfunction(f := getattr(softib, name))}
JUDGED = (
    "engine",
    "layer",
    "severity",
    "seed",
    "lfts",
    "network",
    "prices",
    "thresholds",
    "baseline",
    "out",
    "workers",
    "guid_files",
    "networks",
)
"""Arguments that softib judges in each function that has them."""

GIVEN = {"gpus": [1], "observed": TREE, "demand": softib.Demand(4), "facts": softib.Facts(4)}


class Strange:
    """Of no type that anything takes."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_another_type_is_one_line_before_any_work(name):
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    needed = [p.name for p in parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    for wrong in (set(parameters) & set(JUDGED)) - set(needed):
        for value in (Strange(), b"bytes", 1j, [Strange()]):
            with pytest.raises(softib.InputError, match=f"^{name}: {wrong} must be .*, not ") as raised:
                function(**{n: GIVEN.get(n, "no such thing") for n in needed}, **{wrong: value})
            assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: softib.check(TREE, severity=5), "check: severity must be text, not 5"),
        (lambda: softib.check(TREE, plan=5), "check: plan must be text, a path or a list of paths, not 5"),
        (lambda: softib.check(TREE, lfts="a\0b"), "check: lfts has a NUL character"),
        (lambda: softib.simulate(TREE, "shift:1KB", seed=-1), "simulate: seed=-1 is negative; use 0 or more"),
        (lambda: softib.simulate(TREE, "shift:1KB", seed=1.5), "simulate: seed must be a whole number, not 1.5"),
        (
            lambda: softib.simulate(TREE, "shift:1KB", record=5),
            "simulate: record must be a softib.Record or None, not 5",
        ),
        (lambda: softib.Record(ports=5), "Record: ports must be a list of texts, not 5"),
        (lambda: softib.simulate(TREE, "shift:1KB", faults=[None]), "fault None: use a line"),
        (lambda: softib.diagnose(5), "diagnose: observed must be a result of softib.observe"),
        (lambda: softib.replay(TREE, 5), "replay: program is the path of a trace"),
        (lambda: softib.check(TREE).at_least(5), "Findings.at_least: severity must be text, not 5"),
        (lambda: TREE.table(None), "Fabric.table: kind must be text, not None"),
        (lambda: TREE.links.column(5), "Table.column: name must be text, not 5"),
        (lambda: softib.route(TREE).path(1, 2), "Routing.path: a must be text, not 1"),
        (lambda: softib.check(TREE, ignore="link-slow"), "check: ignore must be a list of texts, not 'link-slow'"),
        (lambda: softib.route(TREE).path("a"), "Routing.path(): missing a required argument: 'b'"),
        (lambda: softib.check(TREE, None, 1e-9), "check(): too many positional arguments"),
    ],
)
def test_the_line_says_what_is_right(call, says):
    with pytest.raises(softib.InputError) as raised:
        call()
    assert str(raised.value).startswith(says)


def test_what_is_right_is_taken():
    assert softib.check(TREE, plan=[], ignore=("link-slow",)).good
    assert softib.simulate(TREE, "shift:1KB", seed=np.int64(1)).good
    assert softib.simulate(TREE, "shift:1KB", record=softib.Record(samples="1us")).good
    with pytest.raises(TypeError, match=r"check\(\): got an unexpected keyword argument 'enigne'"):
        softib.check(TREE, enigne="updn")  # codespell:ignore enigne
