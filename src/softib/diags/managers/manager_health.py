"""Distinguishes faults of the subnet manager from faults of the network, from the answers to MADs in each monitoring
round. The firmware of devices answers SMPs, which travel on VL15; the manager's process answers SMInfo and queries to
the subnet administration (IBA 14.4, 15). If the agents of devices, including that of the master's port, answer, but the
process does not, the manager hangs and the network works.
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
"""Minimum number of consecutive rounds without an answer, up to the last round, for a finding. One lost datagram is not
enough (each request is sent twice).
"""
SLOW_S = 1.0
"""A query is slow if it waits for at least this time in seconds (chosen by softib). OpenSM and librdmacm time out after
one to a few seconds and retry.
"""


@dataclass(frozen=True)
class ManagerRound:
    """Result of one monitoring round for the master. ``time_ns``: clock time. ``guid``, ``lid``: the master's port (0:
    the master is unknown). ``answered``: whether the manager answered SMInfo. ``port_answered``: whether the agent of
    its port answered. ``sa_answered``: whether its subnet administration answered a query (None: not sent).
    ``sm_answer_s``, ``sa_answer_s``: times to answer (NaN: no answer). ``act_count``: ActCount of SMInfo. ``still_s``:
    seconds since ``act_count`` rose. ``agents``, ``agents_silent``: number of devices queried in the round, and number
    of those that did not answer. ``sa_wait_s``: mean wait of other clients' queries since the last round (NaN if the
    manager does not report it).
    """

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
    """Return the findings about the master from the last rounds. There are none if the master is unknown, or if there
    are too few rounds.
    """
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
    """Return the seconds from the last round in which ``field`` was true (or the first round, if there is none) to the
    last round.
    """
    began = rounds[0].time_ns
    for r in rounds:
        if getattr(r, field):
            began = r.time_ns
    return (rounds[-1].time_ns - began) / 1e9


def _zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
