"""Ranks that share processors (``processors`` of a trace): closed forms in each layer that has a clock, and the laws of sharing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import softib
from softib.sim import fluid, packet, static
from softib.sim.packet.options import PacketOptions
from softib.workloads.schedule.schedule import Kind
from softib.workloads.traces.goal import read_goal
from tests.sim.packet.fabrics import tree
from tests.workloads.programs import on_hosts

US = 1_000_000
COMPUTED = (3, 5, 7, 11, 13)
"""us of each rank."""


def computing(processors: int):
    """Each rank computes once, nothing else; the last one on a second thread."""
    text = f"num_ranks {len(COMPUTED)}\n"
    for rank, us in enumerate(COMPUTED):
        text += f"rank {rank} {{\ncalc {us * 1000}{' cpu 4' if us == COMPUTED[-1] else ''}\n}}\n"
    return replace(read_goal(Path("x.goal"), text.encode()), processors=processors)


def ends_of(s, layer: str) -> float:
    """us until the last operation has ended."""
    if layer == "loggops":
        return softib.replay(softib.generate("fat-tree", radix=4, levels=2), s).simulated_us
    fabric = tree(4, 2)
    made, ended = on_hosts(s, fabric, np.arange(s.ranks))
    if layer == "packet":
        out = packet.run(fabric, made, PacketOptions())
    else:
        out = static.run(fabric, made) if layer == "static" else fluid.run(fabric, made, judge=False)
    return float(out.completed_ps[ended].max()) / US


@pytest.mark.parametrize("layer", ["fluid", "packet", "static", "loggops"])
@pytest.mark.parametrize("processors", [0, 1, 2, 3, 4, 5, 8])
def test_ranks_of_one_processor_compute_one_after_another(layer, processors):
    """The end is the largest sum over the ranks of a processor, r modulo ``processors``; with as many processors as ranks, or none said, the longest rank's."""
    on = processors or len(COMPUTED)
    expected = max(sum(COMPUTED[k::on]) for k in range(min(on, len(COMPUTED))))
    assert ends_of(computing(processors), layer) == pytest.approx(expected, abs=1e-6)


ANSWER = """num_ranks 3
rank 0 {
calc 1000000
}
rank 1 {
a: recv 1b from 2 tag 7 cpu 9
b: send 100000b to 2 tag 7 cpu 9
b requires a
}
rank 2 {
a: send 1b to 1 tag 7 cpu 9
b: recv 100000b from 1 tag 7 cpu 9
c: calc 2000
c requires b
}
"""


@pytest.mark.parametrize("layer", ["fluid", "packet", "static", "loggops"])
def test_an_adapter_that_answers_does_not_wait_for_a_processor(layer):
    """Ranks 1 and 2 ask and answer by their adapters (``cpu 9``) while rank 0 computes a millisecond; rank 2 has its data after some microseconds, and waits with its computation alone.
    A send of a processor that computes has to wait for it, too."""
    s = replace(read_goal(Path("x.goal"), ANSWER.encode()), processors=1)
    rows = s.processor_rows()
    assert len(set(rows[s.kind == Kind.COMPUTE])) == 1
    assert set(rows[s.kind != Kind.COMPUTE]) == {1 * 256 + 9, 2 * 256 + 9}
    assert ends_of(s, layer) == pytest.approx(1002, abs=0.01)
    assert ends_of(replace(s, processors=2), layer) == pytest.approx(1002, abs=0.01)
    assert ends_of(replace(s, processors=0), layer) == pytest.approx(1000, abs=0.01)
    asks = replace(s, processors=1, processor=np.where(s.rank == 2, 0, s.processor).astype(np.int32))
    assert 1004 < ends_of(asks, layer) < 1012


def test_shared_processors_hold_up_computations_that_own_ones_do_not():
    """Computations of 16 ranks one after another on 3 processors."""
    text = "num_ranks 16\n" + "".join(
        f"rank {r} {{\na: calc {1000 + 37 * r}\nb: send 20000b to {(r + 5) % 16}\nb requires a\nc: recv 20000b from {(r - 5) % 16}\nd: calc 900\nd requires c\n}}\n"
        for r in range(16)
    )
    s = replace(read_goal(Path("x.goal"), text.encode()), processors=3)
    fabric = tree(8, 2)
    made, _ = on_hosts(s, fabric, np.arange(16))
    shared = packet.run(fabric, made)
    own, _ = on_hosts(replace(s, processors=0), fabric, np.arange(16))
    assert shared.done and packet.run(fabric, own).completed_ps.max() < shared.completed_ps.max()


def test_the_command_line_takes_it(tmp_path):
    (tmp_path / "x.goal").write_text("num_ranks 2\nrank 0 {\ncalc 5000\n}\nrank 1 {\ncalc 6000\n}\n")
    fabric = softib.generate("fat-tree", radix=4, levels=2)
    assert softib.replay(fabric, f"trace:{tmp_path / 'x.goal'},processors=1").simulated_us == 11.0
    assert softib.replay(fabric, f"trace:{tmp_path / 'x.goal'}").simulated_us == 6.0
    with pytest.raises(softib.errors.InputError, match="processors"):
        softib.replay(fabric, f"trace:{tmp_path / 'x.goal'},processors=0")
