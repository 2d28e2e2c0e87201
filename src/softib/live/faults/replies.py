"""The answer of ``softib fault``, as ``softib fault --json`` prints it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softib.result import Result, key

__all__ = ["ExpectedErrors", "FaultReply"]

OPTIONAL = key(optional=True)


@dataclass
class ExpectedErrors(Result):
    """The effect of a link's bit errors, at the end that receives more of them."""

    raw_ber: float
    fec: str
    """The code that corrects them, for example ``RS(544,514)``; empty: none works at this speed."""
    corrected_codewords_per_s: float
    lost_codewords_per_s: float
    symbol_errors_per_s: float
    """Lost codewords; without a code, wrong symbols."""
    post_fec_ber: float


@dataclass
class FaultReply(Result):
    """The link or node that was changed, or the list of faults."""

    kind: str | None = field(default=None, metadata=OPTIONAL)
    ports: list[str] | None = field(default=None, metadata=OPTIONAL)
    state: str | None = field(default=None, metadata=OPTIONAL)
    phys_state: str | None = field(default=None, metadata=OPTIONAL)
    errors: ExpectedErrors | None = field(default=None, metadata=OPTIONAL)
    """For ber, attenuation and weak-laser."""
    node: str | None = field(default=None, metadata=OPTIONAL)
    power: bool | None = field(default=None, metadata=OPTIONAL)
    sys_guid: str | None = field(default=None, metadata=OPTIONAL)
    locations: list[dict[str, Any]] | None = field(default=None, metadata=OPTIONAL)
    """For several places: each link or node that was changed, in the same form as a single one."""
    faults: list[dict[str, Any]] | None = field(default=None, metadata=OPTIONAL)
    """Each with ``kind``, ``where``, ``age_s`` and its options."""
    cleared: list[dict[str, Any]] | None = field(default=None, metadata=OPTIONAL)
