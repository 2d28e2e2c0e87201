"""The report as one self-contained HTML file: no script, style, font or picture from anywhere else.

Every text that comes from a file is escaped (Jinja2's autoescape, and ``escape`` in the drawings).
"""

from __future__ import annotations

from collections import Counter
from importlib import resources
from typing import Any

import numpy as np
from markupsafe import Markup

from softib.analysis.labels import short_name
from softib.analysis.model import Report
from softib.analysis.tiers import Tiers, tiers_of
from softib.diags.check import CODES
from softib.diags.finding import Code, Severity
from softib.diags.structure.ranks import TREES
from softib.diags.structure.recognise import recognise
from softib.fabric.end_ports import port_gbps
from softib.foreign_text import shown_lines
from softib.render import charts
from softib.render.bundles import LOAD_STEPS, Bundle, bundles, ghosts
from softib.render.drawing import draw
from softib.render.glossary import GLOSSARY
from softib.render.page_data import finding_ports, page_data, script_json
from softib.render.phrases import engine_hint, headline, plan_facts, size_text, tiles, time_text

__all__ = ["drawing_svg", "heat_svg", "load_svg", "styled", "to_html"]


def load_svg(report: Report) -> str:
    """Return a chart of the sorted loads of the links between switches, with one line per pattern; empty without a
    prediction."""
    return styled(charts.load_curves(curves(report))) if report.prediction else ""


def heat_svg(report: Report) -> str:
    """Return a chart of the load of each link of the busiest switches under all-to-all traffic; empty without a
    prediction."""
    return styled(heat(report, relative_load(report)))


def styled(svg: str) -> str:
    """Return ``svg`` as a standalone file, with the SVG namespace and the page's styles."""
    files = [f for f in resources.files("softib.render").joinpath("templates").iterdir() if f.name.endswith(".css")]
    css = "".join(f.read_text("utf-8") for f in sorted(files, key=lambda f: f.name))
    head, sign, rest = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).partition(">")
    return f"{head}{sign}<style>{css}</style>{rest}" if svg else ""


MAX_FINDINGS, MAX_PROBLEMS, HEAT_ROWS = 1000, 200, 32
ALONE = "svg{background:var(--card);font-family:system-ui,sans-serif}"
"""Additional styles of a drawing outside of its page."""


def to_html(report: Report, live: str = "") -> str:
    """Return the whole page as text. It depends only on the report, which contains the time and the command (``made``).

    ``live``: the address of the map that replaces the drawing, on the same server (``softib serve``). Such a page is
    not a file, and the server decides what it may load.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("softib.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        term=term,
        n=lambda v: "–" if v is None else f"{v:,}",
        size=size_text,
        ps=time_text,
        evidence=_evidence,
        capitalize_first=lambda t: t[:1].upper() + t[1:],
    )
    return shown_lines(environment.get_template("report.html.j2").render(r=report, live=live, **_context(report)))


def drawing_svg(report: Report) -> str:
    """Return only the drawing, as a complete SVG file with the page's styles; empty if no switch was routed."""
    from importlib import resources

    tiers = _tiers(report)
    svg = _drawing(report, tiers, _lines(report, tiers, relative_load(report)))
    css = resources.files("softib.render").joinpath("templates/drawing.css").read_text("utf-8")
    head, sign, rest = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).partition(">")
    return f"{head}{sign}<style>{css}{ALONE}</style>{rest}" if svg else ""


def term(text: str, key: str | None = None) -> Markup:
    """Return ``text`` with its meaning as a tooltip."""
    return Markup('<abbr title="{}">{}</abbr>').format(GLOSSARY[key or text], text)


def _evidence(value: Any) -> str:
    """Return the evidence of a finding as one line of plain text."""
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_evidence(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_evidence(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _context(report: Report) -> dict[str, Any]:
    tiers = _tiers(report)
    load = relative_load(report)
    lines = _lines(report, tiers, load)
    findings = sorted(report.findings, key=lambda f: -f.severity)[:MAX_FINDINGS]
    return {
        "headline": headline(report),
        "tiles": tiles(report),
        "engine_hint": engine_hint(report),
        "shared_boxes": tiers is not None and len(tiers.box_tier) < len(tiers.box),
        "drawing": Markup(_drawing(report, tiers, lines)),
        "speeds": sorted({b.speed for b in lines if b.cables}, key=lambda s: float(s.split(" ")[0]), reverse=True)[:5],
        "load_steps": LOAD_STEPS,
        "curves": Markup(charts.load_curves(curves(report))) if report.prediction else "",
        "curve_names": [name for name, _ in curves(report)],
        "heat": Markup(heat(report, load)),
        "hops": Markup(charts.hop_bars(report.routing.hops)) if report.routing and report.routing.hops else "",
        "findings": list(zip(findings, finding_ports(report.fabric, findings), strict=True)),
        "about": _about(report),
        "routing_notes": _routing_notes(report),
        "data": script_json(page_data(report, tiers, load, findings)),
        "severities": [(s, n) for s, n in report.by_severity().items()],
        "codes": Counter(f.code for f in report.findings).most_common(),
        "problems": report.problems[:MAX_PROBLEMS],
        "plan_facts": plan_facts(report.comparison),
        "structure_facts": report.structure.facts() if report.structure else [],
        "Severity": Severity,
        "glossary": sorted(GLOSSARY.items(), key=lambda item: item[0].lower()),
    }


def relative_load(report: Report) -> np.ndarray | None:
    """Return the share of each switch link that uniform traffic at full rate needs (float64[links]); None without a
    prediction."""
    p = report.prediction
    if p is None:
        return None
    return np.asarray(scaled(report, p.pattern("all-to-all").load) / (p.hosts - 1))


def scaled(report: Report, load: np.ndarray) -> np.ndarray:
    """Return the load of each switch link: its flows times the median rate of hosts, divided by the link's rate."""
    p = report.prediction
    assert p is not None
    links = p.network.n_links
    return np.asarray(load[:links] * float(np.median(p.network.host_gbps)) / p.network.rate[:links])


def _tiers(report: Report) -> Tiers | None:
    g = report.graph
    if g is None or not g.n_switches:
        return None
    names = [report.fabric.node_name(int(n)) for n in g.switch_node]
    structure = report.recognised or recognise(report.fabric)
    tree = structure.kind in TREES
    return tiers_of(g, names, host_counts(report), structure.rank[g.switch_node].astype(np.int64), tree)


def host_counts(report: Report) -> np.ndarray:
    """Return the number of CA ports of each switch (int64[switches]), without SHARP aggregation nodes."""
    from softib.analysis.endpoints import endpoints_of

    g = report.graph
    assert g is not None
    ends = report.prediction.endpoints if report.prediction else endpoints_of(report.fabric, g)
    return np.bincount(g.end_switch[ends.row], minlength=g.n_switches)


def _lines(report: Report, tiers: Tiers | None, load: np.ndarray | None) -> list[Bundle]:
    if tiers is None or report.graph is None:
        return []
    f, g = report.fabric, report.graph
    missing = ghosts(f, g, tiers, report.findings)
    return missing + bundles(f, g, tiers, load, port_gbps(f), report.findings)


def _drawing(report: Report, tiers: Tiers | None, lines: list[Bundle]) -> str:
    if tiers is None or report.graph is None:
        return ""
    names: dict[int, list[str]] = {}
    if report.prediction:
        g, ends = report.graph, report.prediction.endpoints
        for row, name in zip(ends.row, ends.name, strict=True):
            names.setdefault(int(g.end_switch[row]), []).append(name)
    return draw(report.fabric, report.graph, tiers, lines, names, report.findings)


def curves(report: Report) -> list[tuple[str, np.ndarray]]:
    """Return the loads of the links between switches by pattern, as input for :func:`charts.load_curves`; empty
    without a prediction."""
    p = report.prediction
    if p is None:
        return []
    text = {
        "bisection": "random pairs, worst draw",
        "shift": "worst shift",
        "all-to-all": "all-to-all (mean of all shifts)",
    }
    return [
        (text[q.name], scaled(report, q.peak) / (p.hosts - 1 if q.name == "all-to-all" else 1))
        for q in p.patterns
        if q.name in text
    ]


def heat(report: Report, load: np.ndarray | None) -> str:
    """Return a chart of the load of each link of the busiest switches; empty without a prediction."""
    p, g = report.prediction, report.graph
    if p is None or g is None or load is None or not len(load):
        return ""
    most = np.zeros(g.n_switches)
    np.maximum.at(most, p.network.link_owner, load)
    rows = []
    for s in np.argsort(-most, kind="stable")[:HEAT_ROWS]:
        links = range(int(g.first[s]), int(g.first[s + 1]))
        name = short_name(report.fabric.node_name(int(g.switch_node[s])))
        rows.append((name, [(_peer(report, e), float(load[e])) for e in links]))
    return charts.heat_map([r for r in rows if r[1]])


def _peer(report: Report, link: int) -> str:
    g = report.graph
    assert g is not None
    return f"{short_name(report.fabric.node_name(int(g.switch_node[g.peer[link]])))}[{int(g.peer_port[link])}]"


def _about(report: Report) -> list[tuple[str, Code]]:
    """Return the documentation of every code that has a finding on the page, worst first."""
    worst: dict[str, int] = {}
    for finding in report.findings:
        worst[finding.code] = max(worst.get(finding.code, -1), int(finding.severity))
    return [(name, CODES[name]) for name in sorted(worst, key=lambda n: (-worst[n], n)) if name in CODES]


def _routing_notes(report: Report) -> list[str]:
    """Return the notes of routing and bring-up, each once."""
    routing = report.routing.notes if report.routing else []
    brought_up = report.bring_up.notes if report.bring_up else []
    return [*routing, *(n for n in brought_up if n not in routing)]
