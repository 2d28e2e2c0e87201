"""Where a run's service levels come from: path records of whoever manages the fabric."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from softib.analysis.routed import from_engine
from softib.analysis.simulation.messages import with_stated_sls
from softib.errors import PeerError
from softib.fabric.formats.base import ReadResult
from softib.fabric.topologies.registry import generate
from softib.sim.messages import PATH_SL, messages
from softib.sim.paths import Plane


def test_a_running_fabrics_administration_is_asked():
    """All pairs where they are few; where it does not answer, or they are many, nobody states an SL."""
    fabric = generate("fat-tree", radix=4, levels=2)
    managed = from_engine(ReadResult(fabric, [], "generated"), "minhop", lambda _: nullcontext())
    plane, asked = Plane(managed.fabric), []

    def administration():
        asked.append(1)
        ends = len(managed.graph.end_lid)
        return np.full((ends, ends), 4, np.uint8)

    def silent():
        raise PeerError("nobody answers")

    sent = messages([0, 1, 2], [1, 2, 3], 8, sl=[PATH_SL, PATH_SL, 7])
    assert with_stated_sls(managed, plane, sent).sl.tolist() == [0, 0, 7], "our own manager, without partitions"
    running = replace(managed, subnet=None, config=None, ask_sls=administration)
    assert with_stated_sls(running, plane, sent).sl.tolist() == [4, 4, 7] and len(asked) == 1
    assert with_stated_sls(running, plane, replace(sent, sl=np.full(3, 7, np.int8))).sl.tolist() == [7] * 3
    assert len(asked) == 1, "nobody is asked for what the job says"
    assert with_stated_sls(replace(running, ask_sls=silent), plane, sent).sl.tolist() == [PATH_SL, PATH_SL, 7]
