"""The jobs of a file on the map: nodes and edges of each job, and nodes and edges that several jobs share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.analysis.jobs.files import ScheduledJob, read_jobs
from softib.analysis.jobs.links import JobLinks, place_jobs
from softib.analysis.pipeline import quietly
from softib.analysis.routed import routed
from softib.errors import UnknownName
from softib.fabric.formats.base import ReadResult
from softib.fabric.model import Fabric
from softib.web.map_layout import Map
from softib.web.rates import port_rows

__all__ = ["SHARED", "JobsOnMap"]

SHARED = 255
"""Colour of an edge that several jobs may use; jobs have the colours 1, 2 … 254, 1 …"""


@dataclass(frozen=True)
class JobsOnMap:
    """``links``: the links of the jobs on the fabric. ``uses`` bool[jobs, edges]; ``node`` uint8[nodes]: the job (1
    …) that a node belongs to, 255 if several use it; ``table``: the rows of ``softib diagnose --jobs``."""

    links: JobLinks
    uses: np.ndarray
    node: np.ndarray
    table: tuple[dict[str, Any], ...]

    @staticmethod
    def stamp(file: str) -> float:
        """Return a value that changes when the file changes."""
        try:
            return os.stat(file).st_mtime
        except OSError:
            return -1.0

    @classmethod
    def of(cls, file: str, result: ReadResult, seen: Fabric, drawn: Map) -> JobsOnMap:
        """Return the jobs of ``file`` on the map. Raises :class:`UnreadableFile` and :class:`InputError` for a file
        without jobs. ``result`` may be brought up by this call."""
        return cls.placed(read_jobs(file), result, seen, drawn)

    @classmethod
    def placed(cls, stated: Sequence[ScheduledJob], result: ReadResult, seen: Fabric, drawn: Map) -> JobsOnMap:
        """Return these jobs on the fabric of ``result``, which may be brought up by this call,
        drawn on the map of ``seen``."""
        tables = routed(result, None, None, quietly)
        links = place_jobs(tables.fabric, tables.graph, tables.lft, stated)
        return cls._drawn(links, tuple(links.to_json()), seen, drawn)

    def on(self, seen: Fabric, drawn: Map) -> JobsOnMap:
        """Return the same jobs on another map: ports are found by NodeGUID and portnum, and ports
        that are not on the map are omitted."""
        return self._drawn(self.links, self.table, seen, drawn)

    @classmethod
    def _drawn(cls, links: JobLinks, table: tuple[dict[str, Any], ...], seen: Fabric, drawn: Map) -> JobsOnMap:
        f = links.fabric
        rows = port_rows(seen, f.node_guid[f.port_node[links.port]], f.port_num[links.port].astype(np.int32))
        edge = np.where(rows >= 0, drawn.edge_of_port[np.maximum(rows, 0)], -1)
        uses = np.zeros((len(links.jobs), len(drawn.edge)), bool)
        node = np.zeros(seen.sizes.nodes, np.uint8)
        where = {int(g): i for i, g in enumerate(seen.node_guid.tolist())}
        for j in range(len(links.jobs)):
            edges = edge[links.uses[j]]
            uses[j, edges[edges >= 0]] = True
            for n in links.nodes_of(j).tolist():
                row = where.get(int(f.node_guid[n]), -1)
                if row >= 0:
                    node[row] = SHARED if node[row] else colour_of(j)
        return cls(links, uses, node, table)

    def row(self, name: str) -> int:
        """Return the row of the job with this name. Raises :class:`UnknownName`."""
        names = [j.job.name for j in self.links.jobs]
        if name not in names:
            raise UnknownName("job", name, names)
        return names.index(name)

    def colours(self, only: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return (uint8[edges], uint8[nodes]): 0: no job; the job's colour; or :data:`SHARED`. If ``only`` is
        given, shared edges of that job are SHARED, and edges of other jobs are 0."""
        count = self.uses.sum(axis=0)
        value = np.zeros(self.uses.shape[1], np.uint8)
        for j in range(len(self.uses)):
            value[self.uses[j]] = colour_of(j)
        value[count > 1] = SHARED
        node = self.node
        if only is not None:
            value[~self.uses[only]] = 0
            node = np.where((node == colour_of(only)) | (node == SHARED), node, 0).astype(np.uint8)
        return value, node

    def shared(self) -> list[dict[str, Any]]:
        """Return links (each direction of a cable is one) that two or more jobs may use; links of most jobs first."""
        channels = np.flatnonzero(self.links.shared > 1)
        channels = channels[np.lexsort((self.links.port[channels], -self.links.shared[channels]))]
        f, names = self.links.fabric, [j.job.name for j in self.links.jobs]
        return [
            {
                "port": f.port_name(p),
                "peer": f.port_name(int(f.port_peer[p])),
                "jobs": [names[j] for j in np.flatnonzero(self.links.uses[:, c]).tolist()],
            }
            for c, p in zip(channels.tolist(), self.links.port[channels].tolist(), strict=True)
        ]


def colour_of(job: int) -> int:
    """Return the colour of a job: 1 … 254, then 1 again."""
    return 1 + job % 254
