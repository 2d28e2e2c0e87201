"""Collects all results about one source in a :class:`~softib.analysis.model.Report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from softib.analysis import routed
from softib.analysis.model import Counts, Report
from softib.analysis.routing import Routed
from softib.errors import InputError, LimitError, PeerError, SoftibError
from softib.fabric.formats.base import ReadResult
from softib.iba.devices import is_aggregation_node
from softib.jit import small_work_in_python

if TYPE_CHECKING:
    from softib.workloads.traffic_data import TrafficData
    from softib.workloads.traffic_matrix import TrafficFile
    from softib.workloads.workload import Workload

__all__ = ["build", "checked", "counts_of"]

Steps = Callable[[str], AbstractContextManager[None]]


def quietly(step: str) -> AbstractContextManager[None]:
    """Return a context for a step that prints no progress."""
    return nullcontext()


def counts_of(result: ReadResult) -> Counts:
    """Return the counts that the file states according to its reader, otherwise those of the fabric."""
    f, counted = result.fabric, result.counts
    sharp = is_aggregation_node(f.node_desc[f.cas])
    of_fabric: dict[str, int | None] = {
        "switches": f.sizes.switches,
        "cas": len(f.cas),
        "sharp_nodes": int(sharp.sum()),
        "links": f.sizes.cables,
        "system_links": f.source.system_links,
    }
    return Counts(f.name, **{key: counted.get(key, value) for key, value in of_fabric.items()})


@small_work_in_python()
def checked(
    source: str,
    result: ReadResult,
    *,
    plan: Sequence[str] | str = (),
    engine: str | None = None,
    lfts: str | None = None,
    guid_files: Mapping[str, str | None] | None = None,
    steps: Steps = quietly,
) -> Report:
    """Return only the findings, for ``softib check``."""
    return build(
        source, result, plan=plan, engine=engine, lfts=lfts, guid_files=guid_files, steps=steps, predicted=False
    )


@small_work_in_python()
def build(
    source: str,
    result: ReadResult,
    *,
    plan: Sequence[str] | str = (),
    engine: str | None = None,
    lfts: str | None = None,
    guid_files: Mapping[str, str | None] | None = None,
    seed: int = 0,
    traffic: TrafficFile | TrafficData | Workload | None = None,
    steps: Steps = quietly,
    predicted: bool = True,
) -> Report:
    """Build the report of a fabric: route it (or read its forwarding tables), prove the tables, check the fabric and
    predict its bandwidth. If ``traffic`` is given, predict that matrix as well. ``guid_files`` are paths by OpenSM's
    option (``root_guid_file`` ...). ``steps`` is entered with the name of each step.

    A step that is impossible on this fabric (too many LIDs, no answers) becomes a note of the
    report, not an error. Several files in ``plan`` make one plan. Raises :class:`InputError` for a
    plan, table file or engine that cannot be used.
    """
    plans = (plan,) if isinstance(plan, str) else tuple(plan)
    wanted = _read_plans(plans)
    report = Report(
        source,
        result.format,
        counts_of(result),
        [],
        list(result.problems),
        source_notes=list(result.notes),
        fabric=result.fabric,
    )
    tables = _route(report, result, engine, lfts, guid_files, steps)
    remedy = _remedy(tables, engine, seed, steps)
    with steps("checks"):
        _check(report, result, wanted, tables, remedy)
    if tables is not None and predicted:
        _predict(report, tables, seed, traffic, steps)
    return report


def _predict(
    report: Report, tables: Routed, seed: int, traffic: TrafficFile | TrafficData | Workload | None, steps: Steps
) -> None:
    """Add the prediction of common patterns and of ``traffic``, and the comparison with other engines, to the
    report."""
    from softib.analysis.prediction import predict
    from softib.analysis.traffic import matrix_of_workload, traffic_of
    from softib.workloads.hosts import names_without_lid
    from softib.workloads.workload import Workload

    with steps("prediction"):
        cut = report.recognised.bisection if report.recognised else None
        report.prediction = predict(tables.fabric, tables.graph, tables.lft, seed=seed, cut=cut)
        if traffic is not None and report.prediction is not None:
            ends = report.prediction.endpoints
            matrix = (
                matrix_of_workload(traffic, tables.fabric, tables.graph, ends, seed)
                if isinstance(traffic, Workload)
                else traffic.matrix(ends.name, names_without_lid(tables.fabric))
            )
            report.traffic = traffic_of(tables.fabric, report.prediction.network, matrix)
    if report.prediction is not None:
        from softib.analysis.engines import compare_engines

        with steps("other engines"):
            prediction = report.prediction
            report.engines = compare_engines(
                tables.fabric,
                tables.graph,
                prediction.endpoints,
                tables.part,
                tables.lft,
                tables.options,
                seed,
                (prediction.random_pairs.relative, prediction.pattern("shift").relative),
            )
    else:
        report.notes.append("no traffic to predict: fewer than two host ports have an address")


def _route(
    report: Report,
    result: ReadResult,
    engine: str | None,
    lfts: str | None,
    guid_files: Mapping[str, str | None] | None,
    steps: Steps,
) -> Routed | None:
    try:
        tables = routed.routed(result, engine, lfts, steps, guid_files)
    except InputError:
        raise
    except (LimitError, PeerError) as error:
        report.notes.append(f"not brought up: {error}")
        return None
    except SoftibError as error:
        if error.exit_code != 2:
            raise
        report.notes.append(f"not brought up: {error}")
        return None
    report.fabric, report.graph, report.lft = tables.fabric, tables.graph, tables.lft
    report.routing, report.bring_up = tables.part, tables.bring_up
    report.problems += tables.problems
    return tables


def _read_plans(plans: tuple[str, ...]) -> Any:
    if not plans:
        return None
    from softib.fabric.formats.cabling.plan import join_plans

    return join_plans([_read_plan(plan) for plan in dict.fromkeys(plans)])


def _read_plan(plan: str) -> Any:
    from softib.fabric.formats.cabling.plan import CablingPlan, read_plan
    from softib.fabric.topologies.spec import is_fabric_yaml, load_fabric_yaml

    if not is_fabric_yaml(plan):
        return read_plan(plan)
    read = load_fabric_yaml(plan)
    wanted = CablingPlan.from_fabric(read.fabric, read.problems)
    wanted.path, wanted.files = plan, (plan,)
    return wanted


def _remedy(tables: Routed | None, engine: str | None, seed: int, steps: Steps) -> Any:
    """Return the gain from ftree with its GUID files. It is computed if ftree was requested. It is also computed if the
    tables come from a running fabric or a dump, and the fabric is a tree with a fault: a dump does not state which
    engine its manager should use."""
    if tables is None or tables.part.tables == "ftree" or (engine and "ftree" not in engine.split(",")):
        return None
    from softib.analysis.engines import ftree_unfit

    with steps("what ftree would carry"):
        return ftree_unfit(tables.fabric, tables.graph, tables.lft, tables.options, seed)


def _check(report: Report, result: ReadResult, plan: Any, tables_judged: Routed | None, remedy: Any = None) -> None:
    """Check the fabric as it was read, because a bring-up replaces recorded data (LIDs, states)."""
    from softib.diags.check import check_structure
    from softib.diags.context import SubnetTables
    from softib.diags.structure.recognise import summary

    routing: dict[str, Any] = {}
    if tables_judged is not None:
        tables = [SubnetTables(one.proof, one.balance, one.graph) for one in (tables_judged, *tables_judged.others)]
        routing = {"tables": tables, "remedy": remedy}
        if tables_judged.bring_up is None:  # the tables were read, not computed by softib
            routing["records"] = result.fabric.source.records | {"lfts"}
    if plan is not None:
        from softib.diags.cabling_plan.compare import compare

        plan = report.comparison = compare(result.fabric, plan)
        report.problems += plan.problems
    report.findings, structure = check_structure(result.fabric, problems=report.problems, plan=plan, **routing)
    if tables_judged is not None and tables_judged.subnet is not None and tables_judged.subnet.report.sls:
        from softib.diags.managers.sm_checks import sl_findings

        report.findings += sl_findings(tables_judged.subnet.report.sls)
        report.findings.sort(key=lambda f: -int(f.severity))
    report.recognised, report.structure = structure, summary(result.fabric, structure)
