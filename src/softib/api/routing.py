"""A routing: forwarding tables of a fabric, and their proof."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.table import Table
from softib.plural import counted, plural
from softib.result import html_table

if TYPE_CHECKING:
    import numpy as np

    from softib.analysis.path_explanation import Explanation
    from softib.analysis.routing import Routed
    from softib.api.fabric import Fabric
    from softib.api.graph import Drawing
    from softib.fabric.formats.base import Problem
from pathlib import Path
from typing import TYPE_CHECKING

from softib.errors import InputError, os_reason
from softib.whole_files import write_text

if TYPE_CHECKING:
    from softib.routing.engine import RouteOptions

__all__ = ["Remedy", "Routing", "write_guid_files"]


def write_guid_files(options: RouteOptions, folder: str) -> dict[str, str]:
    """Write ``root_guids.conf`` and, if there are such nodes, ``cn_guids.conf`` and
    ``io_guids.conf`` into ``folder``; return their paths by OpenSM's option. Raises
    :class:`InputError` if that is not possible."""
    files = {}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for kind, guids in (("root", options.root_guids), ("cn", options.cn_guids), ("io", options.io_guids)):
            if guids:
                path = Path(folder) / f"{kind}_guids.conf"
                write_text(path, "".join(f"{guid:#018x}\n" for guid in guids))
                files[f"{kind}_guid_file"] = str(path)
    except OSError as error:
        raise InputError(f"{folder}: cannot write there: {os_reason(error)}") from None
    return files


@dataclass(frozen=True)
class Remedy:
    """GUID files with which ftree accepts a tree. ``reason``: why ftree rejects it without them; ``files``: paths by
    OpenSM's option."""

    reason: str
    files: dict[str, str]


class Routing(Suggests):
    """Forwarding tables of a fabric, and their proof.

    ``fabric`` is the fabric with the analysed LIDs and tables.
    """

    def __init__(self, tables: Routed, fabric: Fabric):
        self._found, self.fabric = tables, fabric

    @property
    def engine(self) -> str:
        """The engine that computed the tables; ``as programmed`` for tables of a running fabric, ``file`` for those of
        a dump."""
        return self._found.part.tables

    @property
    def good(self) -> bool:
        """Whether every host has a LID, packets of every pair arrive, and no credit loop can form."""
        return self._found.part.good

    @property
    def deadlock_free(self) -> bool:
        """Whether no credit loop can form (Dally and Seitz 1987)."""
        return self._found.part.deadlock_free

    @property
    def credit_loop(self) -> tuple[str, ...]:
        """The ports (``leaf-3[40]``) of a shortest credit loop; empty if there is none."""
        return tuple(f"{name}[{port}]" for name, port, _vl in self._found.part.credit_loop or ())

    @property
    def unreachable(self) -> int:
        """Number of pairs (host, address of another device) whose packets do not arrive."""
        return self._found.part.unreachable

    @property
    def ports_without_lid(self) -> int:
        """Cabled host ports without a LID. No packet can be sent to them, and ``unreachable`` does not count them."""
        return self._found.part.ports_without_lid

    @property
    def hops(self) -> dict[int, int]:
        """Number of links on a path after the first switch → number of pairs (host, address of another device)."""
        return dict(self._found.part.hops)

    @property
    def lft(self) -> np.ndarray:
        """A copy of the tables: uint8[switches, LIDs], 255 = no route. Switches are in the order of
        ``switch_names``."""
        return self._found.lft.copy()

    @property
    def switch_names(self) -> list[str]:
        """Names of the rows of ``lft``."""
        f = self._found.fabric
        return [f.node_name(int(n)) for n in self._found.graph.switch_node]

    @property
    def mads(self) -> dict[str, Any]:
        """What the subnet manager counted: MADs sent, writes, timeouts …; empty for tables from another source."""
        up = self._found.bring_up
        return {} if up is None else up.to_json()

    def path(self, a: str, b: str) -> Explanation:
        """Return the path of packets from node or port ``a`` to ``b``, hop by hop: egress ports, SL and VLs,
        alternatives, and changes that would move the path. A port is ``leaf-3[40]``, ``leaf-3:40`` or ``leaf-3/40``, or
        a LID (``"12"``) unless a node has that name. The name of a host stands for its first cabled port on the subnet
        of the other end. Raises :class:`UnknownName`, and :class:`InputError` for an unknown LID.

        >>> import softib
        >>> found = softib.route(softib.generate("fat-tree", radix=4, levels=2)).path("host-0001", "host-0008")
        >>> [hop.node.split()[0] for hop in found.hops]
        ['host-0001', 'leaf-1', 'spine-2', 'leaf-4']
        """
        from softib.analysis.path_explanation import explain_routed

        return explain_routed(self._found, a, b)

    def table(self) -> Table:
        """Return the tables as rows: switch, LID, egress port, and the host or switch that owns the
        LID."""
        import numpy as np

        from softib.iba.constants import LFT_NO_ROUTE

        f, lft = self._found.fabric, self._found.lft
        owner = np.full(lft.shape[1], -1)
        for port in f.end_ports().tolist():
            first = int(f.lid[port])
            owner[first : first + (1 << int(f.lmc[port]))] = f.port_node[port]
        row, lid = np.nonzero((lft != LFT_NO_ROUTE) & (owner >= 0))
        switches, names = np.array(self.switch_names, object), np.array(f.node_names(), object)
        return Table(
            {
                "switch": switches[row].tolist(),
                "lid": lid,
                "egress_port": lft[row, lid].astype(np.int64),
                "destination": names[owner[lid]].tolist(),
            }
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Records of the source or of the dump of tables that could not be read: file, line, reason."""
        from softib.api.fabric import result_of

        return (*result_of(self.fabric).problems, *self._found.problems)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tables in the form of ``dump_lfts``. Raises :class:`InputError` if that is not
        possible."""
        from softib.fabric.formats.lft.dump import write_lfts

        write_lfts(self._found.fabric, self._found.lft, os.fspath(path))

    def save_guid_files(self, folder: str | os.PathLike[str]) -> Remedy | None:
        """Write the GUID files with which ftree accepts this fabric into ``folder``, for ``guid_files`` of
        :func:`route`. Return None if ftree accepts it without them, or with no choice of roots. Raises
        :class:`InputError` if they cannot be written."""
        from softib.analysis.routing import with_names
        from softib.routing.engines.ftree import remedy

        choice = remedy(self._found.graph, self._found.options)
        if choice is None:
            return None
        (reason,) = with_names([choice.reason], self._found.fabric)
        return Remedy(reason, write_guid_files(choice.options, os.fspath(folder)))

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib route --json`` (docs/schemas/route.schema.json)."""
        from softib.analysis.model import Route

        return Route(self._found.part, self.problems).to_json()

    def print(self) -> None:
        """Print the text of ``softib route``."""
        from softib.render.terminal import console, print_route

        print_route(self._found, console())

    def plot(self) -> Drawing:
        """Plot the number of pairs by the number of links of their paths, as bars."""
        from softib.api.graph import Drawing
        from softib.render.charts import hop_bars
        from softib.render.html import styled

        return Drawing(styled(hop_bars(self._found.part.hops)))

    def __repr__(self) -> str:
        proof = "no credit loop" if self.deadlock_free else "a credit loop can form"
        lost = (
            "every pair arrives"
            if not self.unreachable
            else f"{counted(self.unreachable, 'pair')} {plural(self.unreachable, 'has', 'have')} no path"
        )
        if self.ports_without_lid:
            lost = (
                f"{counted(self.ports_without_lid, 'host port')} {plural(self.ports_without_lid, 'has', 'have')} no "
                f"LID, of the others {lost}"
            )
        return f"<Routing of {self.fabric.name!r} by {self.engine}: {lost}, {proof}>"

    def _repr_html_(self) -> str:
        return html_table(("", ""), self._found.part.facts())
