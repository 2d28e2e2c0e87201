"""What a question about a fabric gives back: findings, a routing, a prediction, a report, differences."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from softib.api.frames import frame

if TYPE_CHECKING:
    import numpy as np
    import polars

    from softib.analysis import model, prediction, routed
    from softib.api.fabric import Fabric
    from softib.api.graph import Drawing
    from softib.diags.finding import Finding
    from softib.fabric.diff import Change

__all__ = ["Changes", "Findings", "Prediction", "Report", "Routing"]


class Findings(Sequence["Finding"]):
    """What a check found, worst first; empty is good news.

    Each has ``code``, ``severity``, ``where``, ``message``, ``evidence`` and ``advice``.
    """

    def __init__(self, found: Sequence[Finding]):
        self._found = sorted(found, key=lambda f: -f.severity)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Findings: ...
    def __getitem__(self, index: int | slice) -> Finding | Findings:
        return Findings(self._found[index]) if isinstance(index, slice) else self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    @property
    def good(self) -> bool:
        """Nothing but information: what ``softib check`` ends with 0 for."""
        return not self.at_least("warning")

    def at_least(self, severity: str) -> Findings:
        """Those of ``info``, ``warning`` or ``error`` and worse. Raises :class:`UnknownName`."""
        from softib.diags.finding import Severity
        from softib.errors import UnknownName

        names = {s.name.lower(): s for s in Severity}
        if severity not in names:
            raise UnknownName("severity", severity, names)
        return Findings([f for f in self._found if f.severity >= names[severity]])

    def of(self, code: str) -> Findings:
        """Those of one code. Raises :class:`UnknownName` for a code that no check has."""
        from softib.diags.check import CODES
        from softib.errors import UnknownName

        if code not in CODES:
            raise UnknownName("finding code", code, CODES)
        return Findings([f for f in self._found if f.code == code])

    def table(self) -> polars.DataFrame:
        """One row a finding: severity, code, where (the ports or nodes), message, advice."""
        return frame({
            "severity": [f.severity.name.lower() for f in self._found],
            "code": [f.code for f in self._found],
            "where": [", ".join(map(str, f.where)) for f in self._found],
            "message": [f.message for f in self._found],
            "advice": [f.advice for f in self._found],
        })  # fmt: skip

    def __repr__(self) -> str:
        counts = _counted([f.severity.name.lower() for f in self._found])
        return f"<Findings: {counts or 'none'}>"

    def _repr_html_(self) -> str:
        cells = ((f.severity.name.lower(), f.code, ", ".join(map(str, f.where)), f.message) for f in self._found)
        return _html_table(("severity", "code", "where", "message"), cells) if self._found else "<p>no findings</p>"


class Routing:
    """Forwarding tables of a fabric, and the proof of what they do.

    ``fabric`` is the fabric with the LIDs and tables that were judged.
    """

    def __init__(self, found: routed.Routed, fabric: Fabric):
        self._found, self.fabric = found, fabric

    @property
    def engine(self) -> str:
        """The engine that made the tables, ``as programmed`` for a running fabric's, ``file`` for a dump's."""
        return self._found.part.tables or self._found.part.engine

    @property
    def good(self) -> bool:
        """Every pair of hosts arrives, and no credit loop can form."""
        return self._found.part.good

    @property
    def deadlock_free(self) -> bool:
        """No credit loop can form (Dally and Seitz 1987)."""
        return self._found.part.deadlock_free

    @property
    def credit_loop(self) -> tuple[str, ...]:
        """The ports (``leaf-3[40]``) of a shortest credit loop, empty where there is none."""
        return tuple(f"{name}[{port}]" for name, port, _vl in self._found.part.credit_loop or ())

    @property
    def unreachable(self) -> int:
        """Pairs (host, address of another device) that no packet connects."""
        return self._found.part.unreachable

    @property
    def hops(self) -> dict[int, int]:
        """Pairs (host, address of another device) by how many links a packet takes behind its first switch."""
        return dict(self._found.part.hops)

    @property
    def lft(self) -> np.ndarray:
        """The tables, uint8[switches, LIDs], 255 = no route; switches as in ``switch_names``. A copy."""
        return self._found.lft.copy()

    @property
    def switch_names(self) -> list[str]:
        """Names of the rows of ``lft``."""
        f = self._found.fabric
        return [f.node_name(int(n)) for n in self._found.graph.switch_node]

    @property
    def mads(self) -> dict[str, Any]:
        """What the subnet manager did to write them: MADs sent, writes, timeouts …; empty for tables from elsewhere."""
        up = self._found.bring_up
        return {} if up is None else dict(up.numbers)

    def table(self) -> polars.DataFrame:
        """The tables as rows: switch, LID, egress port, and the host or switch that owns the LID."""
        import numpy as np

        from softib.iba.constants import LFT_NO_ROUTE

        f, lft = self._found.fabric, self._found.lft
        owner = np.full(lft.shape[1], -1)
        for port in f.end_ports().tolist():
            first = int(f.lid[port])
            owner[first : first + (1 << int(f.lmc[port]))] = f.port_node[port]
        row, lid = np.nonzero((lft != LFT_NO_ROUTE) & (owner >= 0))
        switches, names = np.array(self.switch_names, object), np.array(f.node_names(), object)
        return frame({"switch": switches[row].tolist(), "lid": lid, "egress_port": lft[row, lid].astype(np.int64),
                      "destination": names[owner[lid]].tolist()})  # fmt: skip

    def __repr__(self) -> str:
        proof = "no credit loop" if self.deadlock_free else "a credit loop can form"
        lost = "every pair arrives" if not self.unreachable else f"{self.unreachable:,} pairs have no path"
        return f"<Routing of {self.fabric.name!r} by {self.engine}: {lost}, {proof}>"

    def _repr_html_(self) -> str:
        return _html_table(("", ""), [(k, v) for k, v in self._found.part.facts] or [("routing", repr(self)[1:-1])])


class Prediction:
    """What uniform patterns of traffic reach on the routed fabric, by the static layer."""

    def __init__(self, found: prediction.Prediction, fabric: Fabric):
        self._found, self.fabric = found, fabric

    @property
    def bisection(self) -> float:
        """Effective bisection bandwidth, as a share of what the hosts' links can do (Hoefler et al. 2008)."""
        return self._found.bisection_relative

    def table(self) -> polars.DataFrame:
        """One row a pattern: flows, mean and worst relative rate, the largest load on one link."""
        p = self._found.patterns
        return frame({
            "pattern": [x.name for x in p], "what": [x.text for x in p], "flows": [x.flows for x in p],
            "relative": [x.relative for x in p], "worst": [x.worst for x in p], "largest_load": [x.most for x in p],
        })  # fmt: skip

    def loads(self, pattern: str = "all-to-all") -> polars.DataFrame:
        """One row a link between switches: switch, port, Gb/s, and the load of ``pattern`` in flows. Raises ``UnknownName``."""
        import numpy as np

        from softib.errors import UnknownName

        names = [p.name for p in self._found.patterns]
        if pattern not in names:
            raise UnknownName("traffic pattern", pattern, names)
        network = self._found.network
        g, links = network.graph, network.n_links
        f = self.fabric.arrays
        switch = np.array([f.node_name(int(n)) for n in g.switch_node], object)
        return frame({
            "switch": switch[network.link_owner].tolist(), "port": np.asarray(g.out_port, np.int64),
            "gbps": network.rate[:links], "load": self._found.pattern(pattern).load[:links],
        })  # fmt: skip

    def __repr__(self) -> str:
        return f"<Prediction for {self.fabric.name!r}: {self._found.hosts:,} hosts, effective bisection {self.bisection:.1%}>"

    def _repr_html_(self) -> str:
        rows = [(p.name, f"{p.relative:.1%}", f"{p.worst:.1%}", f"{p.most:g}") for p in self._found.patterns]
        return _html_table(("pattern", "mean", "worst", "largest load"), rows)


class Report:
    """Everything about one fabric: what ``softib report`` prints, and its page."""

    def __init__(self, found: model.Report, fabric: Fabric):
        self._found, self.fabric = found, fabric

    @property
    def findings(self) -> Findings:
        """What the checks found."""
        return Findings(self._found.findings)

    @property
    def prediction(self) -> Prediction | None:
        """None where fewer than two hosts have an address, or the fabric could not be brought up (see ``notes``)."""
        return None if self._found.prediction is None else Prediction(self._found.prediction, self.fabric)

    @property
    def notes(self) -> tuple[str, ...]:
        """Steps that could not run, and why."""
        return tuple(self._found.notes)

    def to_json(self) -> dict[str, Any]:
        """As ``softib report --json`` prints it."""
        from softib.render.as_json import to_json

        return to_json(self._found)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The page, one self-contained file; with ``path`` written there too. Raises :class:`InputError`."""
        from softib.errors import InputError
        from softib.render.html import to_html

        page = to_html(self._found)
        if path is not None:
            try:
                Path(path).write_text(page, encoding="utf-8")
            except OSError as error:
                raise InputError(f"{path}: cannot write: {error.strerror or error}") from None
        return page

    def plot(self) -> Drawing:
        """The drawing of the page."""
        from softib.api.graph import drawing

        return drawing(self._found)

    def __repr__(self) -> str:
        return f"<Report on {self.fabric.name!r}: {repr(self.findings)[1:-1]}>"

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'


class Changes(Sequence["Change"]):
    """What leads from one fabric to another; empty = no difference. Each has ``kind``, ``where``, ``before``, ``after``."""

    def __init__(self, found: Sequence[Change]):
        self._found = list(found)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Changes: ...
    def __getitem__(self, index: int | slice) -> Change | Changes:
        return Changes(self._found[index]) if isinstance(index, slice) else self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Change]:
        return iter(self._found)

    def of_kind(self, kind: str) -> Changes:
        """Those of one kind, such as ``cable-moved``. Raises :class:`UnknownName`."""
        from softib.errors import UnknownName
        from softib.fabric.diff import KINDS

        if kind not in KINDS:
            raise UnknownName("kind of change", kind, KINDS)
        return Changes([c for c in self._found if c.kind == kind])

    def table(self) -> polars.DataFrame:
        """One row a change: kind, where, before, after, message."""
        return frame({
            "kind": [c.kind for c in self._found], "where": [", ".join(c.where) for c in self._found],
            "before": [c.before for c in self._found], "after": [c.after for c in self._found],
            "message": [c.message for c in self._found],
        })  # fmt: skip

    def __repr__(self) -> str:
        return f"<Changes: {_counted([c.kind for c in self._found]) or 'none'}>"

    def _repr_html_(self) -> str:
        rows = ((c.kind, ", ".join(c.where), c.message) for c in self._found)
        return _html_table(("kind", "where", "what"), rows) if self._found else "<p>no difference</p>"


def _counted(names: list[str]) -> str:
    return ", ".join(f"{names.count(n)} {n}" for n in dict.fromkeys(names))


def _html_table(head: Sequence[str], rows: Any) -> str:
    cell = lambda tag, value: f"<{tag} style='text-align:left'>{html.escape(str(value))}</{tag}>"
    body = "".join("<tr>" + "".join(cell("td", v) for v in row) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(cell('th', h) for h in head)}</tr>{body}</table>"
