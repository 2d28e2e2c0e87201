"""Distinguish faults of the subnet manager from faults of the network, from management datagrams of
each round. SMPs travel on VL15 and agents of devices answer them in firmware; a process answers
SMInfo and subnet administration queries (IBA 14.4, 15). So if agents keep answering, including that
of the master's port, while the process does not, the manager hangs and the network works.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from softib.diags.finding import Finding, Location, Severity, code, finding
from softib.plural import counted, plural

__all__ = ["ManagerRound", "manager_findings"]

SM_STALLED = code(
    "sm-stalled",
    Severity.ERROR,
    "the subnet manager hangs: its process does not answer, while the agents of the network do",
    "check the process on that host (stopped, swapping, in a loop, disk full), restart it; a standby takes over "
    "only if it can detect the failure",
)
SM_UNREACHABLE = code(
    "sm-unreachable",
    Severity.ERROR,
    "neither the subnet manager nor the agent of its port answers, while others do",
    "check that host and its link: it is down or isolated",
)
SA_SILENT = code(
    "sa-silent",
    Severity.ERROR,
    "the subnet manager answers SMInfo, but its subnet administration answers no queries",
    "check the manager's log and its SA_Key; hosts cannot find paths or join groups",
)
SA_SLOW = code(
    "sa-slow",
    Severity.WARNING,
    "queries to the subnet administration wait long",
    "find the source of the queries (sa statistics of the manager), cache paths on hosts, and dedicate a processor "
    "to the manager",
)

ROUNDS = 2
"""Number of last consecutive rounds that must show the stall: one lost datagram is not a stall
(each request is sent twice)."""
SLOW_S = 1.0
"""Wait of a query in seconds from which it is slow: OpenSM and librdmacm time out after one to a
few seconds and retry (chosen by softib)."""


@dataclass(frozen=True)
class ManagerRound:
    """Result of one round for the master: ``time_ns`` (clock), its port (``guid`` 0 and ``lid`` 0:
    master unknown), ``answered``: SMInfo, ``port_answered``: the agent of its port,
    ``sa_answered``: a query to its administration (None: not sent); ``sm_answer_s``,
    ``sa_answer_s`` times to answer (NaN: no answer); ``act_count``, ``still_s`` seconds since it
    rose; ``agents``, ``agents_silent``: devices queried in the round, and those without an answer;
    ``sa_wait_s``: mean wait of others' queries since the last round, if the manager reports it (NaN
    otherwise)."""

    time_ns: int
    guid: int
    lid: int
    state: str
    answered: bool
    port_answered: bool
    sa_answered: bool | None
    sm_answer_s: float
    sa_answer_s: float
    act_count: int
    still_s: float
    agents: int
    agents_silent: int
    sa_wait_s: float = math.nan
    node: str = ""


def manager_findings(rounds: Sequence[ManagerRound]) -> Iterator[Finding]:
    """Return findings on the master from the last rounds; none if the master is unknown, or too few
    rounds were read."""
    last = [r for r in rounds if r.lid][-ROUNDS:]
    if len(last) < ROUNDS or len({r.lid for r in last}) > 1:
        return
    one = last[-1]
    if all(not r.answered and r.port_answered for r in last):
        yield _finding(
            SM_STALLED,
            rounds,
            f"{_who(one)} did not answer SMInfo and queries to its administration for "
            f"{_since(rounds, 'answered'):.0f} s "
            f"while its port and {one.agents - one.agents_silent} of {counted(one.agents, 'device')} answered: the "
            f"manager hangs, the network does not",
        )
    elif all(not r.answered and not r.port_answered for r in last) and one.agents_silent < one.agents:
        yield _finding(
            SM_UNREACHABLE,
            rounds,
            f"{_who(one)} does not answer, and neither does the agent of its port, while "
            f"{one.agents - one.agents_silent} of {counted(one.agents, 'device')} "
            f"{plural(one.agents, 'does', 'do')}: "
            "its host or its link",
        )
    elif all(r.answered and r.sa_answered is False for r in last):
        yield _finding(
            SA_SILENT,
            rounds,
            f"{_who(one)} answers SMInfo, but no queries to its subnet administration for "
            f"{_since(rounds, 'sa_answered'):.0f} s",
        )
    else:
        waits = [w for r in last for w in (r.sa_answer_s, r.sa_wait_s) if not math.isnan(w)]
        if waits and all(max(_zero(r.sa_answer_s), _zero(r.sa_wait_s)) > SLOW_S for r in last):
            yield _finding(
                SA_SLOW, rounds, f"queries to the subnet administration of {_who(one)} wait {max(waits):.1f} s"
            )


def _finding(name: str, rounds: Sequence[ManagerRound], message: str) -> Finding:
    one = rounds[-1]
    where = [Location(one.node, one.guid, None, one.node or f"{one.guid:#018x}")]
    return finding(
        name,
        where,
        message,
        {
            "lid": one.lid,
            "rounds": [_plain(r) for r in rounds[-10:]],
            "first_ns": rounds[0].time_ns,
            "last_ns": one.time_ns,
            "confidence": 0.99,
            "source": "IBA 14.4: agents answer SMPs on VL15, the manager's process answers SMInfo and queries",
        },
    )


def _plain(r: ManagerRound) -> dict[str, object]:
    return {
        k: (None if isinstance(v, float) and math.isnan(v) else v)
        for k, v in asdict(r).items()
        if k not in ("guid", "lid", "node")
    }


def _who(r: ManagerRound) -> str:
    return f"the subnet manager on {r.node or f'{r.guid:#018x}'} (LID {r.lid})"


def _since(rounds: Sequence[ManagerRound], field: str) -> float:
    """Return the seconds from the last answered round (otherwise the first) to the last round."""
    began = rounds[0].time_ns
    for r in rounds:
        if getattr(r, field):
            began = r.time_ns
    return (rounds[-1].time_ns - began) / 1e9


def _zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
