"""The answer of ``softib fault``, as ``softib fault --json`` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from softib.result import Result, key

__all__ = ["ActiveFault", "ExpectedErrors", "FaultReply", "FaultedPlace"]

OPTIONAL = key(optional=True)


@dataclass
class ExpectedErrors(Result):
    """The effect of a link's bit errors, at the end that receives more of them."""

    raw_ber: float
    fec: str
    """The FEC code in use, for example ``RS(544,514)``; empty if this speed has none."""
    corrected_codewords_per_s: float
    lost_codewords_per_s: float
    symbol_errors_per_s: float
    """Lost codewords per second; without a code, wrong symbols per second."""
    post_fec_ber: float


@dataclass
class ActiveFault(Result):
    """A fault of the fabric, with the options of its kind (:data:`softib.live.faults.options.KINDS`)."""

    kind: str
    where: str
    """The port or node."""
    period_s: float | None = field(default=None, metadata=OPTIONAL)
    count: int | None = field(default=None, metadata=OPTIONAL)
    duration_s: float | None = field(default=None, metadata=OPTIONAL)
    down_s: float | None = field(default=None, metadata=OPTIONAL)
    ber: float | None = field(default=None, metadata=OPTIONAL)
    db: float | None = field(default=None, metadata=OPTIONAL)
    celsius: float | None = field(default=None, metadata=OPTIONAL)
    width: int | None = field(default=None, metadata=OPTIONAL)
    speed: str | None = field(default=None, metadata=OPTIONAL)
    gbps: float | None = field(default=None, metadata=OPTIONAL)
    overrun: bool | None = field(default=None, metadata=OPTIONAL)
    share: float | None = field(default=None, metadata=OPTIONAL)
    guid: str | None = field(default=None, metadata=OPTIONAL)
    flaps: int | None = field(default=None, metadata=OPTIONAL)
    """Number of flaps so far."""
    age_s: float = 0.0

    def options(self) -> dict[str, Any]:
        """Return the options of the fault by name, and the number of flaps so far."""
        return {name: value for name, value in self.to_json().items() if name not in ("kind", "where", "age_s")}


@dataclass
class FaultedPlace(Result):
    """The state of a link or node after the change."""

    kind: str | None = field(default=None, metadata=OPTIONAL)
    ports: list[str] | None = field(default=None, metadata=OPTIONAL)
    """The ports at both ends of the link."""
    state: str | None = field(default=None, metadata=OPTIONAL)
    phys_state: str | None = field(default=None, metadata=OPTIONAL)
    errors: ExpectedErrors | None = field(default=None, metadata=OPTIONAL)
    """Only for the kinds ber, attenuation and weak-laser."""
    node: str | None = field(default=None, metadata=OPTIONAL)
    power: bool | None = field(default=None, metadata=OPTIONAL)
    sys_guid: str | None = field(default=None, metadata=OPTIONAL)


@dataclass
class FaultReply(FaultedPlace):
    """The link or node that was changed, or the list of faults."""

    locations: Sequence[FaultedPlace] | None = field(default=None, metadata=OPTIONAL)
    """The links or nodes that were changed, if the request named several locations."""
    faults: list[ActiveFault] | None = field(default=None, metadata=OPTIONAL)
    cleared: list[ActiveFault] | None = field(default=None, metadata=OPTIONAL)
