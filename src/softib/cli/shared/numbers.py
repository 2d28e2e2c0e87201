"""Numeric options."""

from __future__ import annotations

import math
from typing import Any

import click

__all__ = ["Number"]


class Number(click.FloatRange):
    """A finite number within a range; Click's own type also accepts ``nan`` and ``inf``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number that ``value`` states."""
        number = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return super().convert(value, param, ctx)
