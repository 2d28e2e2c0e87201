"""A simulation as one self-contained HTML page: figures, the load of each link between switches, latencies, ports and their causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from softib.analysis.labels import short_name
from softib.render.charts import heat_map
from softib.render.phrases import bytes_text, time_text
from softib.render.simulation_failures import failure_lines

if TYPE_CHECKING:
    from softib.analysis.simulated import Simulated

__all__ = ["latency_curve", "page"]

HEAT_ROWS = 48
POINTS = 240
W, H, LEFT, RIGHT, BOTTOM, TOP = 560.0, 250.0, 46.0, 20.0, 34.0, 12.0


def page(figures: dict[str, Any], latencies_us: np.ndarray, run: Simulated | None) -> str:
    """The page of ``figures`` (:meth:`softib.Simulation.to_json`), sorted latencies, and the run (None: phases, which have no link loads). The same for
    the same input but for the wall time."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("softib.render"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(
        us=lambda v: time_text(v * 1e6), bytes=bytes_text, n=lambda v: f"{v:,}", percent=lambda v: f"{v:.1%}"
    )
    return environment.get_template("simulation.html.j2").render(
        s=figures, curve=Markup(latency_curve(latencies_us)), heat=Markup(_heat(run)) if run is not None else "",
        what="phase" if run is None else "message", failures=failure_lines(figures),
    )  # fmt: skip


def latency_curve(sorted_us: np.ndarray) -> str:
    """The cumulative distribution of latencies (ascending, µs) on a logarithmic axis, as SVG."""
    if not len(sorted_us):
        return ""
    low = 10 ** np.floor(np.log10(max(float(sorted_us[0]), 1e-3)))
    high = 10 ** np.ceil(np.log10(max(float(sorted_us[-1]), low * 10)) - 1e-9)
    x = lambda v: LEFT + float(np.log10(max(v, low) / low) / np.log10(high / low)) * (W - LEFT - RIGHT)
    y = lambda share: H - BOTTOM - share * (H - BOTTOM - TOP)
    parts = [f'<svg class="chart" viewBox="0 0 {W:.0f} {H:.0f}" role="img" aria-label="latencies, cumulative">']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{W - RIGHT}" y1="{y(share):.1f}" y2="{y(share):.1f}"/>')
        parts.append(f'<text class="axis end" x="{LEFT - 6}" y="{y(share) + 4:.1f}">{share:.0%}</text>')
    for power in range(round(np.log10(low)), round(np.log10(high)) + 1):
        parts.append(
            f'<text class="axis mid" x="{x(10.0**power):.1f}" y="{H - 16:.1f}">{time_text(10.0 ** (power + 6))}</text>'
        )
    parts.append(
        f'<text class="axis mid" x="{(LEFT + W - RIGHT) / 2:.1f}" y="{H - 2:.1f}">latency, share of messages at most as long</text>'
    )
    rows = np.unique(np.linspace(0, len(sorted_us) - 1, min(POINTS, len(sorted_us))).round().astype(int))
    shares = (rows + 1) / len(sorted_us)
    points = [f"{x(float(sorted_us[0])):.1f},{y(0.0):.1f}", *(f"{x(float(sorted_us[r])):.1f},{y(float(p)):.1f}" for r, p in zip(rows, shares, strict=True))]  # fmt: skip
    return "".join([*parts, f'<polyline class="c0" points="{" ".join(points)}"/>', "</svg>"])


def _heat(run: Simulated) -> str:
    """Loads of links between switches: a row a switch, the busiest first."""
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
