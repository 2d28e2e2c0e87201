"""Functions for a fabric that is not running. Each takes a :class:`~softib.api.fabric.Fabric` or a SOURCE, and does
not change it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from softib.api.arguments import check_choice
from softib.api.fabric import Fabric, as_fabric, result_of
from softib.api.findings import Findings
from softib.api.progress import Steps, Timed, unwatched
from softib.api.results import Changes, Prediction, Report
from softib.api.routing import Routing

if TYPE_CHECKING:
    import numpy as np

    from softib.analysis.routing import Routed
    from softib.api.monitor.diagnosing import Jobs
    from softib.api.running.running import RunningFabric
    from softib.routing.graph import SwitchGraph
    from softib.workloads.traffic_data import TrafficData
    from softib.workloads.traffic_matrix import TrafficFile
    from softib.workloads.workload import Workload

__all__ = ["bring_up", "check", "diff", "engines", "predict", "report", "route", "verify"]

Source: TypeAlias = "Fabric | RunningFabric | str | os.PathLike[str]"
GuidFiles: TypeAlias = "Mapping[str, str | None] | None"
Tables: TypeAlias = "Callable[[SwitchGraph], np.ndarray]"
Plan: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


def engines(names: str | None = None) -> list[str]:
    """Return the names of all routing engines: those of softib, which have OpenSM's names, then those of installed
    packages; with ``names``, a comma-separated list, only those. Raises :class:`UnknownName`.

    >>> import softib
    >>> softib.engines("ftree,updn")
    ['ftree', 'updn']
    """
    from softib.routing.engine import chain
    from softib.routing.engine import engines as all_engines

    return list(all_engines()) if names is None else list(chain(names))


def bring_up(
    source: Source, *, engine: str | None = None, guid_files: GuidFiles = None, steps: Steps = unwatched
) -> Routing:
    """Bring up a powered-on copy of the fabric with the subnet manager, over MADs: LIDs, tables,
    and every port ACTIVE.

    ``engine`` is an OpenSM name or a list of them (default ``ftree,updn,dfsssp,lash``);
    ``guid_files`` are OpenSM's files by option (``{"root_guid_file": path}``). In the result,
    ``fabric`` has the values that the manager wrote, and ``mads`` the number of MADs. Raises
    :class:`UnknownName` for an engine, :class:`LimitError` for more LIDs than InfiniBand has.

    >>> import softib
    >>> up = softib.bring_up(softib.generate("fat-tree", radix=4, levels=2))
    >>> up
    <Routing of 'fat-tree' by ftree: every pair arrives, no credit loop>
    >>> up.mads["lids"]
    14
    """
    from softib.analysis.routing import from_engine

    check_choice(engine, None, guid_files)
    fabric = as_fabric(source)
    return _routing(from_engine(result_of(fabric), engine, steps, guid_files), fabric)


def route(
    source: Source, engine: str | None = None, *, guid_files: GuidFiles = None, steps: Steps = unwatched
) -> Routing:
    """Return tables for the fabric and their proof. The tables are those of a running fabric; new
    ones are computed if ``engine`` is given or if there are none (see :func:`bring_up`)."""
    from softib.analysis.routed import routed

    check_choice(engine, None, guid_files)
    fabric = as_fabric(source)
    return _routing(routed(result_of(fabric), engine, None, steps, guid_files), fabric)


def verify(source: Source, lfts: str | os.PathLike[str] | Tables | None = None, *, steps: Steps = unwatched) -> Routing:
    """Prove forwarding tables: whether every packet arrives, over how many links, and whether a credit loop can form.
    ``lfts`` is a dump of tables (a path), or a function of yours from a :class:`~softib.routing.graph.SwitchGraph` to
    ``uint8[switches, LIDs]`` (255 = no route). For a function, the subnet manager brings up a copy of the fabric, so
    that ports have LIDs. Without ``lfts``, the tables in the switches of a running fabric are proved. Raises
    :class:`InputError` for an invalid dump or an array of another shape, :class:`PeerError` if no manager has written
    tables yet.

    >>> import numpy as np, softib
    >>> nowhere = lambda graph: np.full((graph.n_switches, graph.lft_size), 255, np.uint8)
    >>> softib.verify(softib.generate("fat-tree", radix=4, levels=2), nowhere).unreachable
    104
    """
    from softib.analysis.routed import RUNNING, from_file, routed
    from softib.errors import InputError

    fabric = as_fabric(source)
    result = result_of(fabric)
    if callable(lfts):
        return _from_function(fabric, lfts, steps)
    if lfts is not None:
        return _routing(from_file(result, os.fspath(lfts), steps), fabric)
    if result.format != RUNNING:
        raise InputError(
            f"{fabric.source}: this format ({result.format}) has no forwarding tables; add lfts=FILE, or use "
            f"softib.route() to compute them"
        )
    return _routing(routed(result, None, None, steps), fabric)


def _from_function(fabric: Fabric, tables: Tables, steps: Steps) -> Routing:
    """Return the tables of a user's function for a brought-up copy of ``fabric``."""
    from dataclasses import replace

    import numpy as np

    from softib.analysis.routing import from_engine, judge
    from softib.errors import InputError

    up = from_engine(result_of(fabric), None, steps)
    lft = np.asarray(tables(up.graph))
    wanted = (up.graph.n_switches, up.graph.lft_size)
    if lft.shape != wanted or lft.dtype != np.uint8:
        raise InputError(
            f"the function returned {lft.dtype}{list(lft.shape)}; it must return forwarding tables as "
            f"uint8{list(wanted)}"
        )
    judged = judge(up.fabric, up.graph, lft, "own", "computed by a function of the caller")
    return _routing(replace(up, lft=lft, bring_up=None, **judged._asdict()), fabric)


def check(
    source: Source,
    *,
    plan: Plan = (),
    engine: str | None = None,
    lfts: str | os.PathLike[str] | None = None,
    guid_files: GuidFiles = None,
    severity: str = "info",
    ignore: Sequence[str] = (),
    baseline: str | os.PathLike[str] | None = None,
    jobs: Jobs | None = None,
    steps: Steps = unwatched,
) -> Findings:
    """Find faults of the fabric: cabling (also against ``plan``: cabling lists, a fabric.yaml),
    identities, speeds, addresses, counters, routing.

    The routing that is checked is that of ``engine``, of the dump ``lfts``, of a running fabric, or
    of the default engine. Findings are omitted if they are below ``severity``, have a code in
    ``ignore``, or are in the file ``baseline`` (:meth:`Findings.save_baseline`). With ``jobs``
    (:func:`jobs_on`), findings name the jobs that cross the cable.

    >>> import softib
    >>> softib.check(softib.generate("fat-tree", radix=4, levels=2)).good
    True
    """
    from softib.analysis.pipeline import checked
    from softib.api.findings import checked_codes, severity_named

    path = None if lfts is None else os.fspath(lfts)
    severity_named(severity)
    checked_codes(ignore)
    check_choice(engine, path, guid_files)
    if baseline is not None:
        from softib.diags.baseline import read_baseline

        read_baseline(os.fspath(baseline))  # raise errors of this file before the work
    fabric = as_fabric(source)
    report = checked(
        fabric.source,
        result_of(fabric),
        plan=_paths(plan),
        engine=engine,
        lfts=path,
        guid_files=guid_files,
        steps=steps,
    )
    if jobs is not None:
        from softib.diags.cable_rules.judge import with_jobs

        report.findings = [with_jobs(f, jobs.on_port) for f in report.findings]
    findings = Findings(report).without(*ignore).at_least(severity)
    return findings if baseline is None else findings.new_since(baseline)


def predict(source: Source, *, engine: str | None = None, seed: int = 0, traffic: Any = None) -> Prediction:
    """Predict traffic on the fabric, routed by ``engine`` (default: as in :func:`route`): effective
    bisection bandwidth, shifts, all-to-all, incast, and your own ``traffic`` (as in :func:`report`;
    result in :attr:`Prediction.traffic`). ``seed`` chooses the random pairs. Raises
    :class:`InputError` for fewer than two hosts, or for traffic that does not match the hosts."""
    from softib.errors import InputError

    whole = report(source, engine=engine, seed=seed, traffic=traffic)
    if whole.prediction is None:
        why = "; ".join(whole.notes) or "fewer than two host ports have an address"
        raise InputError(f"{whole.fabric.name}: no traffic to predict: {why}")
    return whole.prediction


def report(
    source: Source,
    *,
    plan: Plan = (),
    engine: str | None = None,
    lfts: str | os.PathLike[str] | None = None,
    guid_files: GuidFiles = None,
    traffic: Any = None,
    seed: int = 0,
    steps: Steps = unwatched,
) -> Report:
    """Run bring-up, proof, checks and prediction, and return all results. ``traffic``, if given, is also
    predicted: the path of a traffic matrix, ``{(source, destination): bytes}``, ``{source:
    {destination: bytes}}``, rows of these three, a DataFrame of pandas or polars, or a square array
    over all hosts; or any other workload of :func:`simulate`, whose messages become a traffic matrix. ``seed``
    chooses the random pairs of the prediction. Raises the errors of :func:`load`, :func:`check` and :func:`predict`."""
    from softib.analysis.pipeline import build

    path = None if lfts is None else os.fspath(lfts)
    check_choice(engine, path, guid_files)
    demand = None if traffic is None else _traffic(traffic)
    fabric = as_fabric(source)
    timed = Timed(steps)
    parts = build(
        fabric.source,
        result_of(fabric),
        plan=_paths(plan),
        engine=engine,
        lfts=path,
        guid_files=guid_files,
        seed=seed,
        traffic=demand,
        steps=timed,
    )
    parts.seconds.update(fabric.seconds | timed.seconds)
    return Report(parts, fabric)


def diff(before: Source, after: Source) -> Changes:
    """Return the changes between two fabrics: nodes, cables, speeds, LIDs.

    >>> import softib
    >>> tree = softib.generate("fat-tree", radix=4, levels=2)
    >>> softib.diff(tree, tree)
    <Changes: none>
    """
    from softib.fabric.diff import diff as compare

    a, b = as_fabric(before), as_fabric(after)
    return Changes(a, b, compare(result_of(a).fabric, result_of(b).fabric))


def _routing(tables: Routed, fabric: Fabric) -> Routing:
    from dataclasses import replace

    result = result_of(fabric)
    return Routing(tables, Fabric(replace(result, fabric=tables.fabric), fabric.source))


def _traffic(given: Any) -> TrafficFile | TrafficData | Workload:
    """Return a traffic matrix from a file or data, or a workload, whose messages become a traffic matrix."""
    from softib.workloads.traffic_data import TrafficData
    from softib.workloads.traffic_matrix import read_traffic
    from softib.workloads.workload import is_workload, read

    if isinstance(given, str | os.PathLike) and not is_workload(os.fspath(given)):
        return read_traffic(os.fspath(given))
    workload = read(given)
    data = getattr(workload.jobs[0], "_data", None) if len(workload.jobs) == 1 else None
    return data if isinstance(data, TrafficData) else workload


def _paths(plan: Plan) -> tuple[str, ...]:
    return tuple(os.fspath(p) for p in ((plan,) if isinstance(plan, str | os.PathLike) else plan))
