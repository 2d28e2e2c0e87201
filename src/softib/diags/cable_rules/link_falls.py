"""Finds links that went down. If both ends count LinkDowned, the link failed; if only one end does, the node at the
other end restarted. If the other end did not answer, the evidence is weaker. A switch that loses power also loses its
counters: all its neighbours count LinkDowned, and the switch reports nothing. A host that boots has the same effect on
its links. Neither indicates a bad cable.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, span_text
from softib.diags.finding import Severity, code, finding
from softib.iba.constants import PortState

LINK_FLAPS = code(
    "link-flaps",
    Severity.WARNING,
    "a link went down, counted by both ends",
    "reseat the cable at both ends, then replace it; an error if it went down several times or is still down",
)
SWITCH_RESTARTED = code(
    "switch-restarted",
    Severity.INFO,
    "a switch restarted: its neighbours lost their links to it, its counters were reset",
    "do nothing if the restart was planned; otherwise check its power and log",
)
SWITCH_LOST = code(
    "switch-gone",
    Severity.ERROR,
    "a switch does not answer, and its neighbours lost their links to it",
    "check its power",
)
HOSTS_LOST = code(
    "hosts-gone",
    Severity.INFO,
    "hosts lost their links and do not answer",
    "check whether they are switched off; if one is running, reseat its cable at both ends",
)
DOWNED = "link_downed_counter"
OFTEN = 3
"""Minimum number of failures of a link for the finding to be an error (chosen by softib)."""
ONE_END = 0.6
"""Confidence in a link failure that only one end counted (chosen by softib): the node at the other end may have
restarted.
"""


def link_falls(case: Case) -> Iterator[Suspicion]:
    """Report restarted switches, and links that failed while both ends were up."""
    falls = np.where(case.known(DOWNED), case.column(DOWNED), 0.0)
    restarted: np.ndarray = np.zeros_like(falls, bool)
    for suspicion, at in _restarts(case, falls):
        restarted |= at
        yield suspicion
    falls = np.where(restarted, 0.0, falls)
    total, down = falls.sum(axis=0), _down(case)
    lost: list[tuple[int, int]] = []
    for cable in np.unique(case.cable[np.flatnonzero(total)]).tolist():
        a, b = int(cable), int(case.ports.peer[cable])
        if b < 0:
            continue  # only one end was read, and the state of the other is unknown
        both = int(min(total[a], total[b]))
        least = max(case.limits["falls_of_host"] if case.to_host[a] else case.limits["falls_between_switches"], 1)
        if both >= least:
            yield _of_cable(case, a, b, total, bool(down[a] or down[b]))
        elif not case.to_host[a]:
            counting, silent = (a, b) if total[a] >= total[b] else (b, a)
            if total[counting] >= least and _unheard(case, falls[:, counting] > 0, counting, silent):
                yield _of_one_end(case, counting, silent, int(total[counting]), bool(down[counting]))
        else:
            host, switch = (b, a) if case.ports.switch[a] else (a, b)
            if total[switch] and down[switch] and _unheard(case, falls[:, switch] > 0, switch, host):
                lost.append((host, switch))
    if lost:
        yield _of_hosts(case, lost)


def _unheard(case: Case, fell: np.ndarray, counting: int, silent: int) -> bool:
    """Return whether no reading of the port ``silent`` covers more than half of an interval in which the port
    ``counting`` counted a failure (``fell`` bool[k]). Ports are not all read at the same moment, so the intervals of
    two ports overlap only partly.
    """
    heard, begin, end = case.known(DOWNED)[:, silent], case.obs.begin_ns, case.obs.end_ns
    for k in np.flatnonzero(fell).tolist():
        common = np.minimum(end[:, silent], end[k, counting]) - np.maximum(begin[:, silent], begin[k, counting])
        if (heard & (2 * common > end[k, counting] - begin[k, counting])).any():
            return False
    return True


def _down(case: Case) -> np.ndarray:
    """Return whether each port was down in its last reading (bool[n])."""
    state = case.level("state")
    read = ~np.isnan(state)
    last = len(state) - 1 - read[::-1].argmax(axis=0) if len(state) else np.zeros(case.n, int)
    value = state[last, np.arange(case.n)] if len(state) else np.full(case.n, np.nan)
    return np.asarray(read.any(axis=0) & (value == PortState.DOWN))


def _of_cable(case: Case, a: int, b: int, total: np.ndarray, down: bool) -> Suspicion:
    count = int(min(total[a], total[b]))
    seconds = float(case.observed_s(DOWNED)[a])
    times = "once" if count == 1 else f"{count:,} times"
    text = (
        f"{case.link(a)} went down {times} in {span_text(seconds)}, counted by both "
        f"ends{', and is down' if down else ''}"
    )
    fallen = (case.column(DOWNED)[:, [a, b]] > 0).any(axis=1)
    evidence = {
        "falls": {str(case.location(r)): int(total[r]) for r in (a, b)},
        "observed_s": round(seconds, 3),
        "down": down,
        "intervals": int(fallen.sum()),
        "source": case.limits.of("falls_between_switches").source,
        **case.when(np.array([a, b]), DOWNED),
    }
    severity = Severity.ERROR if down or count >= OFTEN else Severity.WARNING
    return Suspicion(
        finding(LINK_FLAPS, case.ends(a), text, evidence, severity=severity), a, 0.99 if count > 1 or down else 0.9
    )


def _of_one_end(case: Case, counting: int, silent: int, count: int, down: bool) -> Suspicion:
    times = "once" if count == 1 else f"{count:,} times"
    text = (
        f"{case.link(counting)} went down {times}, counted by "
        f"{case.location(counting)}{', and is down' if down else ''}; "
        f"{case.location(silent)} has not answered since"
    )
    evidence = {
        "falls": {str(case.location(counting)): count},
        "down": down,
        "intervals": int((case.column(DOWNED)[:, counting] > 0).sum()),
        "source": case.limits.of("falls_between_switches").source,
        **case.when(np.array([counting]), DOWNED),
    }
    return Suspicion(finding(LINK_FLAPS, case.ends(counting), text, evidence), counting, ONE_END)


def _of_hosts(case: Case, lost: list[tuple[int, int]]) -> Suspicion:
    """Report all hosts that are off or have lost their cables in one finding. ``lost``: (port of the host, port of the
    switch) of each.
    """
    locations = ", ".join(f"{case.location(host)} ↔ {case.location(switch)}" for host, switch in lost[:3])
    rest = f" and {len(lost) - 3:,} more" if len(lost) > 3 else ""
    one = len(lost) == 1
    text = (
        f"{locations}{rest}: {'the link' if one else 'these links'} went down, counted by the switch, and "
        f"{'is' if one else 'are'} down; {'the host does' if one else 'the hosts do'} not answer: "
        f"switched off, or cut off by the {'cable' if one else 'cables'}"
    )
    evidence = {
        "hosts": [str(case.location(host)) for host, _ in lost],
        **case.when(np.array([switch for _, switch in lost]), DOWNED),
    }
    where = [location for host, _ in lost for location in case.ends(host)]
    return Suspicion(finding(HOSTS_LOST, where, text, evidence), cable=False)


def _restarts(case: Case, falls: np.ndarray) -> Iterator[tuple[Suspicion, np.ndarray]]:
    """Yield, for each switch that reported nothing while its neighbours lost their links to it, the finding and the
    link failures that the finding explains (bool[k, n]).
    """
    peer = np.asarray(case.ports.peer, np.int64)
    at = np.flatnonzero((peer >= 0) & case.ports.switch[np.maximum(peer, 0)])
    of = case.node[peer[at]]
    # A neighbour counted LinkDowned, and the switch's port reported nothing (or restarted) in this interval or the
    # next.
    silent = ~case.known(DOWNED)[:, peer[at]]
    silent |= np.roll(silent, -1, axis=0) & (np.arange(len(silent)) < len(silent) - 1)[:, None]
    one_sided = (falls[:, at] > 0) & silent
    down = _down(case)
    nodes, size = np.unique(of, return_counts=True)
    place = np.searchsorted(nodes, of)
    heard_ports = case.known(DOWNED)[:, at]
    for k in np.flatnonzero(one_sided.any(axis=1)).tolist():
        count = np.bincount(place[one_sided[k]], minlength=len(nodes))
        # Neighbours that did not report are ignored: hosts that are connected only to a switch without power cannot be
        # reached either.
        heard = np.bincount(place[heard_ports[k]], minlength=len(nodes))
        all_of_few = (count == heard) & (count >= 2) & (heard < size)
        many = (count >= case.limits["group_least"]) & (count >= heard / 2)
        for n in np.flatnonzero(many | all_of_few).tolist():
            of_switch = at[place == n]
            explained = np.zeros_like(falls, bool)
            explained[k, of_switch] = True
            explained[k, peer[of_switch]] = True
            row = int(peer[of_switch[0]])
            lost = bool(down[of_switch[heard_ports[k, place == n]]].mean() > 0.5)
            silent_too = f" ({int(size[n] - heard[n])} told nothing)" if size[n] > heard[n] else ""
            name = str(case.node_location(row))
            text = (
                f"{name}: {int(count[n])} of its {int(size[n])} neighbours{silent_too} lost their link to it at "
                f"once, and it reported nothing: it "
                f"{'no longer answers' if lost else 'has started again'}"
            )
            yield (
                Suspicion(
                    finding(
                        SWITCH_LOST if lost else SWITCH_RESTARTED,
                        [case.node_location(row)],
                        text,
                        {
                            "neighbours": int(size[n]),
                            "fell": int(count[n]),
                            "first_ns": int(case.obs.begin_ns[k, of_switch].min()),
                            "last_ns": int(case.obs.end_ns[k, of_switch].max()),
                        },
                    ),
                    row,
                    0.99,
                    cable=False,
                ),
                explained,
            )
