"""Pictures of the page that stand alone, for ``plot()`` of results."""

from __future__ import annotations

from importlib import resources

from softib.analysis.model import Report
from softib.render import charts
from softib.render.html import curves, heat, relative_load

__all__ = ["heat_svg", "load_svg", "styled"]


def load_svg(report: Report) -> str:
    """Sorted loads of the links between switches, a line a pattern; empty without a prediction."""
    return styled(charts.load_curves(curves(report))) if report.prediction else ""


def heat_svg(report: Report) -> str:
    """The load of each link of the busiest switches under all-to-all traffic; empty without a
    prediction."""
    return styled(heat(report, relative_load(report)))


def styled(svg: str) -> str:
    """``svg`` as a file of its own: with its name space, and the page's styles in it."""
    files = [f for f in resources.files("softib.render").joinpath("templates").iterdir() if f.name.endswith(".css")]
    css = "".join(f.read_text("utf-8") for f in sorted(files, key=lambda f: f.name))
    head, sign, rest = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).partition(">")
    return f"{head}{sign}<style>{css}</style>{rest}" if svg else ""
