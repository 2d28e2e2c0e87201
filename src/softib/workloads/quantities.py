"""Types of a workload file for numbers with units: sizes, times, rates
(:mod:`softib.workloads.units` parses the text)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from softib.workloads.units import rate_of, size_of, time_ps_of

__all__ = ["MAX_SIZE", "MAX_VOLUME", "Count", "Rate", "Size", "Time", "Volume"]

MAX_SIZE = 1 << 31
MAX_VOLUME = 1 << 40


def _with(parse: Any, example: str) -> Any:
    """Return a type that accepts plain numbers, and texts with units."""

    def read(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"use for example {example}")
        try:
            return parse(str(value))
        except ValueError:
            raise ValueError(f"use for example {example}") from None

    return BeforeValidator(read, json_schema_input_type=int | float | str)


def _whole(text: str) -> int:
    size = size_of(text)
    if size != int(size):
        raise ValueError(text)
    return int(size)


Size = Annotated[int, _with(_whole, "2MB, 64KiB or 4096"), Field(ge=1, le=MAX_SIZE)]
Volume = Annotated[int, _with(_whole, "256MB, 4GiB or 4096"), Field(ge=1, le=MAX_VOLUME)]
"""Type of the total bytes of several messages."""
Count = Annotated[float, _with(size_of, "25.6M, 7G or 25600000"), Field(ge=1, le=1e21)]
"""Type of a count, which may have the multiples of a size (25.6M)."""
Time = Annotated[int, _with(time_ps_of, "10us or 1.5ms"), Field(ge=0, le=1 << 62)]
Rate = Annotated[float, _with(rate_of, "25 or 25Gb/s"), Field(gt=0)]
