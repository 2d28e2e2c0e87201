"""What ``accept --json`` and ``baseline compare --json`` hold, as
:mod:`softib.render.document_types.common` has the others."""

from __future__ import annotations

import sys
from typing import Any, Literal

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:  # pydantic wants it from there
    from typing_extensions import TypedDict

from softib.render.document_types.common import Finding

__all__ = ["ACCEPTANCE_DOCUMENTS"]

Unit = Literal["Gb/s", "us"]


class ClassSummary(TypedDict):
    """A test and a class of pairs."""

    test: str
    pairs: str
    """``same leaf``, ``across spine``, ``across core``; ``all`` where paths are not known."""
    measurements: int
    unit: Unit
    least: float
    median: float
    largest: float
    expected: float | None
    """Median of what the paths let expect."""


class Measurement(TypedDict):
    """What one pair measured in one round."""

    test: str
    round: int
    pairs: str
    source: str
    target: str
    value: float
    unit: Unit
    expected: float | None


class PairFailure(TypedDict):
    """A pair that could not measure."""

    round: int
    test: str
    source: str
    target: str
    host: str | None
    """The host at fault; null: neither alone."""
    reason: str


class Accept(TypedDict):
    """softib accept --json"""

    schema: Literal["softib/accept/1"]
    source: str
    launcher: Literal["local", "ssh", "srun"]
    program: str
    """``write``: ib_write_bw and ib_write_lat."""
    tests: list[str]
    rounds: int
    sizes: dict[str, int]
    """Octets of a message by test."""
    seconds: float
    hosts: int
    ports: int
    summary: list[ClassSummary]
    findings: list[Finding]
    failures: list[PairFailure]
    measurements: list[Measurement]


class TestDrift(TypedDict):
    """What became of the pairs of a test."""

    test: str
    pairs: int
    """In both."""
    ratio: float | None
    """Median of after over before; null without pairs in both."""
    probability: float
    """Of as much by accident (signed ranks; of different pairs: rank sum)."""
    only_before: int
    only_after: int


class Baseline(TypedDict):
    """softib baseline compare --json"""

    schema: Literal["softib/baseline/1"]
    before: str
    after: str
    tests: list[TestDrift]
    findings: list[Finding]


class BaselineRecord(TypedDict):
    """softib baseline record --json"""

    schema: Literal["softib/baseline-record/1"]
    file: str
    name: str
    nodes: int
    """Of the fabric; 0 where only measurements are known."""
    pairs: dict[str, int]
    """Test: pairs that measured."""


ACCEPTANCE_DOCUMENTS: dict[str, Any] = {"accept": Accept, "baseline": Baseline, "baseline-record": BaselineRecord}
