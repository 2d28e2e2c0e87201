"""A pattern of a workload: the class of its jobs, whose fields are its options, and the function
that creates their messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import LimitError
from softib.workloads.hosts import Hosts

if TYPE_CHECKING:
    from softib.workloads.job import HostName, Job

__all__ = ["MAX_MESSAGES", "JobMessages", "Pattern", "Place", "check_count"]

MAX_MESSAGES = 20_000_000
"""Maximum number of messages of one workload; their columns and paths take about 4 GB."""

NONE = np.zeros(0, np.int64)


@dataclass
class JobMessages:
    """Messages of a job, one row each, between rows of :class:`~softib.workloads.hosts.Hosts`.

    ``src``, ``dst``, ``qp``: int64[n]; ``size``: bytes, a column or one number. ``waits[k]`` waits
    for ``needs[k]``, both rows of this object. ``start_ps`` is added to the job's start. ``sl``, ``opcode`` and
    ``rate_gbps``: None means the job's option; ``delay_ps`` as in :class:`~softib.sim.messages.Messages`. ``name`` is
    appended to the job's name in results.

    * ``members``: hosts of the multicast group to which all messages go.
    * ``reduces``: hosts of all-reduces in the switches, one row for each all-reduce (rail); they divide the job's bytes
      equally. Their messages are made later, from the fabric's aggregation trees.
    * ``streams``: use streaming trees regardless of the job's option ``tree``.
    * ``requests`` int64[k, 2]: rows of requests and of their responses.
    * ``serves`` int64 by row: a computation occupies this resource of its host, which all jobs share, for example the
      devices of a target; 0: a processor that only this job uses.
    """

    src: np.ndarray
    dst: np.ndarray
    size: Any
    qp: np.ndarray
    waits: np.ndarray = field(default_factory=lambda: NONE)
    needs: np.ndarray = field(default_factory=lambda: NONE)
    start_ps: Any = 0
    name: str = ""
    sl: int | None = None
    opcode: Any = None
    delay_ps: Any = 0
    rate_gbps: Any = None
    members: np.ndarray | None = None
    reduces: np.ndarray | None = None
    streams: bool = False
    requests: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    serves: Any = 0


@dataclass(frozen=True)
class Place:
    """Input of a pattern: all ``hosts``, the ``rows`` (int64) of the job's hosts, and a generator
    of random numbers."""

    hosts: Hosts
    rows: np.ndarray
    rng: np.random.Generator

    def target(self, text: HostName | None, default: int = 0) -> int:
        """Return the row of the host named ``text``; if it is None, the row of the job's host number ``default``."""
        return int(self.rows[default]) if text is None else self.hosts.row(text)


@dataclass(frozen=True)
class Pattern:
    """``job``: a subclass of :class:`~softib.workloads.job.Job` whose field ``pattern`` has the
    pattern's name as its only value; ``messages(job, place)`` returns the job's messages, one object
    for each row of results. ``package``: the distribution that declares the pattern; empty: softib.
    """

    job: type[Job]
    messages: Callable[[Any, Place], list[JobMessages]]
    package: str = ""

    @property
    def name(self) -> str:
        """The name of the pattern in workloads."""
        return str(self.job.model_fields["pattern"].default)

    @property
    def doc(self) -> str:
        """The description of the pattern in one line."""
        return " ".join((self.job.__doc__ or "").split())


def check_count(n: int, kind: str, fewer: str = "take fewer hosts") -> None:
    """Raise :class:`LimitError` if ``n`` is more than :data:`MAX_MESSAGES`. In the error, ``kind``
    describes the messages, and ``fewer`` how to reduce their number."""
    if n > MAX_MESSAGES:
        raise LimitError(f"{kind} are {n:,} messages; a workload has at most {MAX_MESSAGES:,}: {fewer}")
