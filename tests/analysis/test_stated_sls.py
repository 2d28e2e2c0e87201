"""Where a run's service levels come from: path records of whoever manages the fabric."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from softib.analysis.routing import from_engine
from softib.errors import InputError, PeerError
from softib.fabric.formats.base import ReadResult
from softib.fabric.topologies.registry import generate
from softib.scenario.managed_messages import with_stated_sls
from softib.sim.messages import PATH_SL, messages
from softib.sim.paths import Plane


def test_a_running_fabrics_administration_is_asked():
    """Pairs that messages use; where it does not answer, nobody states an SL; a pair that it has no path for is refused."""
    fabric = generate("fat-tree", radix=4, levels=2)
    managed = from_engine(ReadResult(fabric, [], "generated"), "minhop", lambda _: nullcontext())
    plane, asked = Plane(managed.fabric), []

    def administration(slid, dlid):
        asked.append((slid.tolist(), dlid.tolist()))
        return np.full(len(slid), 4, np.int16)

    def silent(slid, dlid):
        raise PeerError("nobody answers")

    def refuses(slid, dlid):
        return np.where(slid == plane.fabric.lid[plane.ends[1]], -1, 0).astype(np.int16)

    sent = messages([0, 1, 0, 2], [1, 2, 1, 3], 8, sl=[PATH_SL, PATH_SL, PATH_SL, 7])
    assert with_stated_sls(managed, plane, sent).sl.tolist() == [0, 0, 0, 7], "our own manager, without partitions"
    running = replace(managed, subnet=None, config=None, ask_sls=administration)
    assert with_stated_sls(running, plane, sent).sl.tolist() == [4, 4, 4, 7]
    lids = plane.fabric.lid[plane.ends]
    assert asked == [(lids[[0, 1]].tolist(), lids[[1, 2]].tolist())], "each pair that names no SL once"
    assert with_stated_sls(running, plane, replace(sent, sl=np.full(4, 7, np.int8))).sl.tolist() == [7] * 4
    assert len(asked) == 1, "nobody is asked for what the job says"
    assert with_stated_sls(replace(running, ask_sls=silent), plane, sent).sl.tolist() == [PATH_SL] * 3 + [7]
    with pytest.raises(InputError, match="share no partition"):
        with_stated_sls(replace(running, ask_sls=refuses), plane, sent)
