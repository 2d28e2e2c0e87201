"""Numbers in clients' bodies."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

__all__ = ["Number", "Whole"]


def _not_a_flag(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


Whole = Annotated[int, BeforeValidator(_not_a_flag)]
Number = Annotated[float, BeforeValidator(_not_a_flag)]
"""Numbers from clients, some of which send them as text; ``true`` is not a number."""
