"""All-to-alls with barriers go where messages go: on the SLs that the manager states, and as a what-if scales the fabric."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from softib.analysis.routing import Routed, from_engine
from softib.analysis.simulation.run import phases_of
from softib.errors import InputError
from softib.fabric.formats.base import ReadResult
from softib.fabric.topologies.registry import generate
from softib.scenario.managed_messages import with_stated_sls
from softib.sim import fluid
from softib.sim.fluid.phases import phase
from softib.sim.paths import Plane, Scale

HOSTS, SIZE = 16, 20_000


def up(sm: dict | None = None) -> Routed:
    fabric = generate("fat-tree", m=(4, 4), w=(1, 2), p=(1, 1), generation="EDR")
    return from_engine(ReadResult(fabric, [], "generated", extra={"sm": sm or {}}), "updn", lambda _: nullcontext())


def by_messages(found: Routed, scale: Scale | None = None) -> list[int]:
    plane = Plane(found.fabric, scale=scale)
    sent = [with_stated_sls(found, plane, phase(HOSTS, k, SIZE)) for k in range(1, HOSTS)]
    return [fluid.run(plane, m).end_ps for m in sent]


@pytest.mark.parametrize("scale", [Scale(bandwidth=2), Scale(latency=3), Scale(congestion=2), Scale(0.5, 0.5, 3)])
def test_a_what_if_scales_phases(scale):
    found = up()
    assert phases_of(found, SIZE, scale).took_ps.tolist() == by_messages(found, scale) != by_messages(found)


def test_one_sl_for_all_and_sls_by_pair():
    """An engine that gives all pairs SL 2 leaves them to loads; one that gives several, to messages. Both as messages do."""
    found = up()
    ends = len(found.graph.end_lid)
    for sls in (np.full((ends, ends), 2), np.random.default_rng(1).integers(0, 4, (ends, ends))):
        stated = replace(found, path_sl=sls.astype(np.uint8), subnet=None)
        phases = phases_of(stated, SIZE)
        assert phases.took_ps.tolist() == by_messages(stated)
        assert (phases.enumerated == HOSTS - 1) == (len(np.unique(sls)) > 1)


def test_hosts_that_share_no_partition_are_refused(tmp_path):
    """IBA 10.9.3: of two members one is a full one. The same line as without barriers."""
    file = tmp_path / "partitions.conf"
    file.write_text("Default=0x7fff,ipoib:ALL=limited,SELF=full;\n")
    with pytest.raises(InputError, match="share no partition"):
        phases_of(up({"partitions": str(file)}), SIZE)
