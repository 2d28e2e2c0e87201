"""Results for a fabric: a prediction, a report, and the changes between two fabrics. Routings are
in :mod:`softib.api.routing`, findings in :mod:`softib.api.findings`."""

from __future__ import annotations

import html
import os
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.findings import Findings
from softib.api.progress import Steps, Timed
from softib.api.table import Table
from softib.plural import counted
from softib.result import html_table

if TYPE_CHECKING:
    from softib.analysis import model, prediction
    from softib.api.fabric import Fabric
    from softib.api.graph import Drawing
    from softib.fabric.formats.base import Problem
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softib.api.table import Rows
from softib.fabric.diff import KINDS, Change
from softib.fabric.formats.base import Problem
from softib.result import Result, also, key

if TYPE_CHECKING:
    from softib.api.fabric import Fabric

__all__ = ["Changes", "Prediction", "Report"]


@dataclass(eq=False, repr=False)
class Changes(Rows[Change], Result):
    """Changes from one fabric to another; empty if they are equal. Each has ``kind``, ``where``,
    ``before``, ``after``."""

    document = "diff"
    row, by = Change, "kind"

    before: Fabric = field(metadata=key("a", json=lambda fabric: fabric.source, type=str))
    after: Fabric = field(metadata=key("b", json=lambda fabric: fabric.source, type=str))
    rows: list[Change] = field(metadata=key("changes"))

    @property
    @also(before="rows")
    def equal(self) -> bool:
        """Return whether there is no difference."""
        return not self.rows

    @property
    @also()
    def problems(self) -> tuple[Problem, ...]:
        """Records of both sources that could not be read."""
        return (*self.before.problems, *self.after.problems)

    def lines(self) -> list[str]:
        """Return the lines of ``softib diff``; the cables of a removed or added node are counted in its line."""
        from softib.fabric.diff import lines_of

        return lines_of(self.rows)

    def of_kind(self, kind: str) -> Changes:
        """Return changes of one kind, for example ``cable-moved``. Raises :class:`UnknownName`."""
        from softib.errors import UnknownName

        if kind not in KINDS:
            raise UnknownName("kind of change", kind, KINDS)
        return self._with([c for c in self.rows if c.kind == kind])


class Prediction(Suggests):
    """Prediction of uniform traffic patterns on the routed fabric by the static layer."""

    def __init__(self, report: model.Report, fabric: Fabric):
        assert report.prediction is not None
        self._found: prediction.Prediction = report.prediction
        self._report, self.fabric = report, fabric

    @property
    def bisection(self) -> float:
        """Effective bisection bandwidth, as a share of the hosts' link rate (Hoefler et al.
        2008)."""
        return self._found.random_pairs.relative

    @property
    def traffic(self) -> dict[str, Any] | None:
        """Prediction for the given traffic: ``bytes``, ``flows``, the time ``time_us`` in which the busiest link
        sends its part, the time ``hosts_us`` that the hosts' links alone would need, the ratio of these times
        (``relative``), and the ``busiest`` links. None without traffic."""
        return None if self._report.traffic is None else self._report.traffic.to_json()

    def table(self) -> Table:
        """Return one row per pattern: flows, mean and worst relative rate, the largest load on one
        link."""
        p = self._found.patterns
        return Table(
            {
                "pattern": [x.name for x in p],
                "what": [x.text for x in p],
                "flows": [x.flows for x in p],
                "relative": [x.relative for x in p],
                "worst": [x.worst for x in p],
                "largest_load": [x.most for x in p],
            }
        )

    def loads(self, pattern: str = "all-to-all") -> Table:
        """Return one row per link between switches: switch, port, Gb/s, and the load of
        ``pattern`` in flows. Raises ``UnknownName``."""
        import numpy as np

        from softib.errors import UnknownName

        names = [p.name for p in self._found.patterns]
        if pattern not in names:
            raise UnknownName("traffic pattern", pattern, names)
        network = self._found.network
        g, links = network.graph, network.n_links
        f = self.fabric.arrays
        switch = np.array([f.node_name(int(n)) for n in g.switch_node], object)
        return Table(
            {
                "switch": switch[network.link_owner].tolist(),
                "port": np.asarray(g.out_port, np.int64),
                "gbps": network.rate[:links],
                "load": self._found.pattern(pattern).load[:links],
            }
        )

    def plot(self, kind: str = "loads") -> Drawing:
        """Plot ``loads`` (utilisation of links between switches, busiest first, one line per
        pattern, 1 = full), ``links`` (load of each link of the busiest switches under all-to-all traffic), or ``map``
        (the loads of all links under this traffic, on the drawing of the fabric).

        Raises :class:`UnknownName` for another kind.
        """
        from softib.api.graph import Drawing, drawing
        from softib.errors import UnknownName
        from softib.render.html import heat_svg, load_svg

        kinds = {
            "loads": lambda: Drawing(load_svg(self._report)),
            "links": lambda: Drawing(heat_svg(self._report)),
            "map": lambda: drawing(self._report),
        }
        if kind not in kinds:
            raise UnknownName("plot of a prediction", kind, kinds)
        return kinds[kind]()

    def __repr__(self) -> str:
        return (
            f"<Prediction for {self.fabric.name!r}: {counted(self._found.hosts, 'host')}, effective bisection "
            f"{self.bisection:.1%}>"
        )

    def _repr_html_(self) -> str:
        rows = [(p.name, f"{p.relative:.1%}", f"{p.worst:.1%}", f"{p.most:g}") for p in self._found.patterns]
        return html_table(("pattern", "mean", "worst", "largest load"), rows) + str(self.plot())


class Report(Suggests):
    """All results for one fabric: the output of ``softib report`` and its page."""

    def __init__(self, parts: model.Report, fabric: Fabric):
        self._found, self.fabric = parts, fabric

    @property
    def findings(self) -> Findings:
        """Findings of the checks."""
        return Findings(self._found)

    @property
    def prediction(self) -> Prediction | None:
        """Prediction of the fabric's traffic; None if fewer than two hosts have an address, or the
        fabric could not be brought up (see ``notes``)."""
        return None if self._found.prediction is None else Prediction(self._found, self.fabric)

    @property
    def notes(self) -> tuple[str, ...]:
        """The steps of the report that could not run, with the reasons."""
        return tuple(self._found.notes)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Records of the source, the plan or the tables that could not be read: file, line, reason."""
        return tuple(self._found.problems)

    @property
    def seconds(self) -> dict[str, float]:
        """Wall time of each step, in seconds."""
        return dict(self._found.seconds)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib report --json`` (docs/schemas/report.schema.json)."""
        return self._found.to_json()

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        when: datetime | None = None,
        command: str = "",
        steps: Steps | None = None,
        live: str = "",
    ) -> str:
        """Return the page, one self-contained file; with ``path``, also write it there. Raises :class:`InputError`.
        ``live``: the address of a map that is shown in place of the drawing, for a page from a server. With ``when``,
        the page shows time, version and ``command``; without it, the page depends only on the report.
        """
        from softib.render.html import to_html
        from softib.render.phrases import made
        from softib.whole_files import write_text

        timed = Timed(steps)
        with timed("drawing"):
            page = to_html(replace(self._found, made=None if when is None else made(when, command)), live)
        self._found.seconds.update(timed.seconds)
        if path is not None:
            write_text(path, page)
        return page

    def print(self) -> None:
        """Print the text of ``softib report``."""
        from softib.render.terminal import console, to_terminal

        to_terminal(self._found, console())

    def plot(self) -> Drawing:
        """Return the drawing of the page."""
        from softib.api.graph import drawing

        return drawing(self._found)

    def __repr__(self) -> str:
        return f"<Report on {self.fabric.name!r}: {repr(self.findings)[1:-1]}>"

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'
