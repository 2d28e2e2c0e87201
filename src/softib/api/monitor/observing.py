"""What is observed of a fabric over time: rounds of counters from one that runs or is behind a umad device, or what files and a Prometheus server told."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from softib.api.shown import Suggests
from softib.errors import InputError

if TYPE_CHECKING:
    from softib.api.running.running import RunningFabric
    from softib.diags.manager_health import ManagerRound
    from softib.diags.observations import Observations
    from softib.fabric.formats.base import Problem

__all__ = ["Observed", "observe"]


class Observed(Suggests):
    """What was observed. ``observations`` is the table that rules judge (:class:`softib.diags.observations.Observations`); ``problems`` are records of files that could not be
    read, or devices that a discovery could not use."""

    def __init__(
        self, observations: Observations, problems: Sequence[Problem | str] = (), rounds: Sequence[dict[str, Any]] = (),
        managers: Sequence[ManagerRound] = (),
    ):  # fmt: skip
        self.observations = observations
        self.problems: tuple[Problem | str, ...] = tuple(problems)
        self.rounds: tuple[dict[str, Any], ...] = tuple(rounds)
        """Of each round: ``mads`` sent, ``seconds``, ``ports`` that were read, ``silent`` devices."""
        self.managers: tuple[ManagerRound, ...] = tuple(managers)
        """What each round showed of the master subnet manager (:class:`softib.diags.manager_health.ManagerRound`); empty of files that tell nothing of it."""

    def __repr__(self) -> str:
        seen = self.observations
        return f"<Observed: {len(seen.ports)} ports over {seen.intervals} intervals>"


def observe(
    *sources: str | os.PathLike[str] | RunningFabric, rounds: int = 2, every: float = 1.0, fabric: str | None = None,
    on_round: Callable[[dict[str, Any]], None] = lambda one: None,
) -> Observed:  # fmt: skip
    """Counters over time of one source, or of two files and more.

    A running fabric or ``umad:DEVICE``: ``rounds`` rounds of Gets, begun ``every`` seconds apart. Files: ibdiagnet's .db_csv of different times; output of perfquery and
    ibqueryerrors, with ``fabric`` naming the file that has the ports. ``http://HOST:PORT``: a Prometheus server that scrapes ``softib exporter``, asked for the last ``rounds`` × ``every`` seconds; ``fabric`` gives HCAs their NodeGUIDs.
    A directory: the history that ``softib exporter --history`` keeps.

    Raises :class:`InputError` where it is none of these, :class:`PeerError` where nobody answers.
    """
    names = [os.fspath(s) if isinstance(s, str | os.PathLike) else s.name for s in sources]
    if not names:
        raise InputError(
            "observe wants a running fabric, umad:DEVICE, two files of different times, or a Prometheus server"
        )
    if rounds < 2:
        raise InputError(f"rounds={rounds}: what rose needs two readings; give 2 or more")
    if len(names) > 1:
        from softib.monitor.files import observations_of_files

        return Observed(*observations_of_files(names, fabric))
    one = names[0]
    if one.startswith(("http://", "https://")):
        from softib.monitor.prometheus import observations_of_server

        return Observed(observations_of_server(one, rounds, every, fabric))
    if os.path.isdir(one):
        from softib.monitor.history import History

        history = History(one)
        return Observed(history.observations(), managers=history.manager_rounds())
    return _rounds(one, rounds, every, on_round)


def _rounds(source: str, rounds: int, every: float, on_round: Callable[[dict[str, Any]], None]) -> Observed:
    import time

    from softib.monitor.opening import is_live, open_source
    from softib.monitor.watch import Watch

    if not is_live(source) and os.path.exists(source):
        raise InputError(f"{source}: one file is one reading; give a second, later one")
    opened = open_source(source)
    lines: list[dict[str, Any]] = []
    try:
        watch = Watch(opened, keep=rounds)
        for i in range(rounds):
            began = time.monotonic()
            r = watch.step()
            lines.append(
                {
                    "mads": r.mads,
                    "seconds": r.duration_s,
                    "ports": int(r.reading.answered.sum()),
                    "silent": len(r.silent),
                }
            )
            on_round(lines[-1])
            if i + 1 < rounds:
                time.sleep(max(0.0, began + every - time.monotonic()))
        return Observed(watch.observations, watch.poller.problems, lines, tuple(watch.manager.rounds))
    finally:
        opened.close()
