"""The certificate of a cover run: one self-contained HTML page."""

from __future__ import annotations

from typing import Any

from softib.foreign_text import shown
from softib.plural import counted

__all__ = ["certificate_html"]

MOST_ROWS = 2000
"""Maximum number of unproven directions on the page; the JSON document has all."""


def certificate_html(run: Any) -> str:
    """Return the page of a :class:`softib.Coverage`. It depends only on the run. Every text that comes from a file is
    escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("softib.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        n=lambda v: f"{v:,}",
        text=shown,
        gbps=lambda v: "–" if v is None else f"{v:,.4g}",
        share=lambda part, of: "–" if not of else f"{100 * part / of:.2f} %",
    )
    verdict = "accepted" if run.good else "not accepted"
    low = [f for f in run.findings if f.code == "links-trained-low"]
    return environment.get_template("certificate.html.j2").render(
        run=run,
        verdict=verdict,
        low=low,
        most=MOST_ROWS,
        hosts=counted(run.hosts, "host"),
        ports=counted(run.ports, "port"),
    )
