"""Hosts selected by name."""

from __future__ import annotations

import numpy as np

from softib.workloads.hosts import Hosts


def test_a_selection_compares_each_name_a_few_times() -> None:
    """Comparisons of names grow with the number of names, not with its square."""
    compared = 0

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    names = tuple(Name(f"node-{i}") for i in range(500))
    hosts = Hosts(np.arange(500), names, np.zeros(500, np.int64))
    assert hosts.chosen([str(n) for n in reversed(names)]).tolist() == list(range(500))[::-1]
    assert 0 < compared < 5 * 500


def test_a_name_of_two_ports_selects_both() -> None:
    hosts = Hosts(np.arange(3), ("a", "b", "a"), np.zeros(3, np.int64))
    assert hosts.chosen(["a"]).tolist() == [0, 2] and hosts.chosen(["b", "a"]).tolist() == [1, 0, 2]
