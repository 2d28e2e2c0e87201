"""A simulation as one self-contained HTML page: figures, loads and queues over time, latencies,
ports and their causes, variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from softib.analysis.labels import short_name
from softib.foreign_text import shown_lines
from softib.render.charts import heat_map
from softib.render.phrases import bytes_text, time_text
from softib.render.simulation.failures import failure_lines
from softib.render.simulation.time_charts import CURVES, heat_over_time, latency_curves, timeline_chart
from softib.render.simulation.trace import PARTS, WAITS

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult

__all__ = ["link_heat", "page"]

HEAT_ROWS = 48


def page(figures: dict[str, Any], latencies_us: list[tuple[str, np.ndarray]], run: RunResult | None) -> str:
    """Return the page of ``figures`` (:meth:`softib.Simulation.to_json`). ``latencies_us``: sorted latencies of each
    job; ``run``: None for phases, which have no link loads. Except for the wall time, the page depends only on
    these."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("softib.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        us=lambda v: "never" if v is None else time_text(v * 1e6),
        bytes=bytes_text,
        n=lambda v: f"{v:,}",
        percent=lambda v: "" if v is None else f"{v:.1%}",
        times=lambda v: "" if v is None else f"{v:.2f}×",
    )
    over, maps = figures.get("over_time", {}), {}
    for kind in ("tiers", "ports", "queues") if over else ():
        maps[kind] = Markup(heat_over_time(over[kind], over["interval_us"], f"{kind} over time"))
    return shown_lines(
        environment.get_template("simulation.html.j2").render(
            s=figures,
            curve=Markup(latency_curves(latencies_us)),
            heat=Markup(link_heat(run)) if run is not None else "",
            failures=failure_lines(figures),
            what="phase" if run is None else "message",
            maps=maps,
            part_names=PARTS,
            wait_names=WAITS,
            timeline=Markup(timeline_chart(figures["trace"])) if "trace" in figures else "",
            curves=[n for n, c in latencies_us if len(c)][:CURVES],
        )
    )


def link_heat(run: RunResult) -> str:
    """Return a chart of the loads of links between switches, with one row per switch, the busiest first."""
    f = run.fabric
    of_switch = f.switch_of_node[f.port_node] >= 0
    peer = np.maximum(f.port_peer, 0)
    ports = np.flatnonzero(of_switch & f.linked & (f.switch_of_node[f.port_node[peer]] >= 0))
    most: dict[int, float] = {}
    cells: dict[int, list[tuple[str, float]]] = {}
    for p in ports.tolist():
        node, load = int(f.port_node[p]), float(run.load[p])
        most[node] = max(most.get(node, 0.0), load)
        cells.setdefault(node, []).append((f.port_name(int(f.port_peer[p])), load))
    order = sorted(cells, key=lambda n: (-round(most[n], 6), n))[:HEAT_ROWS]
    return heat_map([(short_name(f.node_name(n)), cells[n]) for n in order])
