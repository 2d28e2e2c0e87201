"""Processor time of each package of tests against its budget (``budgets.toml``), at the end of a run.

It is time of the processor, not of the clock, so that it says the same beside other load. Counted are pytest's workers and the programs
that they waited for; a daemon that outlives the program that started it is not.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).resolve().parent
BUDGETS: dict[str, float] = tomllib.loads((TESTS / "budgets.toml").read_text())["minutes"]
TOO_MUCH = 2.0
"""A package at so many times its budget fails the run: a slower processor does not come to that."""


class Minutes(dict[str, float]):
    """Minutes of processor time by package, a folder of ``tests``."""

    @contextmanager
    def measured(self, path: Path) -> Iterator[None]:
        """What happens meanwhile is of the package of ``path``."""
        before = sum(os.times()[:4])
        yield
        self.add({path.relative_to(TESTS).parts[0]: (sum(os.times()[:4]) - before) / 60})

    def add(self, more: dict[str, float]) -> None:
        """Those of another worker."""
        for package, minutes in more.items():
            self[package] = self.get(package, 0.0) + minutes

    def above(self, factor: float) -> list[str]:
        """A line for each package that took more than ``factor`` times its budget."""
        return [
            f"tests/{package} took {minutes:.1f} minutes of processor time, its budget is {BUDGETS[package]:.1f} (tests/budgets.toml)"
            for package, minutes in sorted(self.items())
            if minutes > factor * BUDGETS.get(package, float("inf"))
        ]
