"""What a workload may say: the rules of :class:`~softib.sim.messages.Messages`."""

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.end_ports import end_ports
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid, packet, static
from softib.sim.messages import Opcode, Transport, messages


def test_numbers_become_columns():
    made = messages([0, 0, 1], [1, 2, 2], 4096, start_ps=5)
    made.check(3)
    assert made.size.tolist() == [4096] * 3 and made.start_ps.tolist() == [5] * 3
    assert len(set(made.qp.tolist())) == 3, "a queue pair for each pair of ends"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"dst": 3}, "destination that does not exist"),
        ({"src": -1}, "source that does not exist"),
        ({"size": 0}, "no byte"),
        ({"size": (1 << 31) + 1}, "2 GiB"),
        ({"opcode": Opcode.ATOMIC, "size": 4096}, "an atomic, which takes 8 bytes"),
        ({"start_ps": -1}, "before time 0"),
        ({"sl": 16}, "use 0 to 15"),
        ({"rate_gbps": float("nan")}, "negative rate"),
        ({"dst": [1, 2], "qp": 0}, "two destinations"),
        ({"first": [0, 1, 1], "needs": [0]}, "waits for itself"),
        ({"first": [0, 1, 2], "needs": [1, 7]}, "does not exist"),
    ],
)
def test_what_cannot_be_is_one_line(columns, said):
    made = messages(**{"src": [0, 0], "dst": [1, 1], "size": 8} | columns)
    with pytest.raises(InputError, match=said):
        made.check(3)


def test_a_datagram_queue_pair_may_send_to_many():
    messages([0, 0], [1, 2], 8, qp=0, transport=Transport.UD).check(3)


def test_an_unknown_column_is_an_error():
    with pytest.raises(InputError, match="colour"):
        messages([0], [1], 8, colour=3)


def test_end_ports_are_hosts_by_lid_then_switches():
    fabric = generate("fat-tree", radix=4, levels=2)
    bring_up(fabric)
    ends = end_ports(fabric)
    is_switch = fabric.is_switch[fabric.port_node[ends]]
    assert is_switch.sum() == fabric.is_switch.sum() and not np.diff(is_switch.astype(int)).min() < 0
    for part in (ends[~is_switch], ends[is_switch]):
        assert (np.diff(fabric.lid[part].astype(int)) > 0).all()


def test_a_delay_counts_from_time_0_where_nothing_is_waited_for():
    """All layers begin a message at max(start, what it waits for + delay); a computation lasts for
    its delay."""
    fabric = generate("fat-tree", radix=4, levels=2)
    bring_up(fabric)
    write, compute = int(Opcode.WRITE), int(Opcode.COMPUTE)
    m = messages(
        [0, 1, 2, 0, 3],
        [1, 2, 3, 0, 0],
        256,
        opcode=[write, write, write, compute, write],
        qp=range(5),
        start_ps=[0, 5_000, 900_000, 2_000, 0],
        delay_ps=[700_000, 700_000, 700_000, 700_000, 30_000],
        first=[0, 0, 0, 0, 0, 1],
        needs=[0],
    )
    runs = [layer.run(fabric, m) for layer in (static, fluid, packet)]
    for run in runs:
        assert run.began_ps[:4].tolist() == [700_000, 700_000, 900_000, 2_000]
        assert run.arrived_ps[3] == 702_000
        # Message 4 waits for the arrival of message 0 at another host.
        assert run.began_ps[4] == run.arrived_ps[0] + 30_000


@pytest.mark.parametrize(
    ("transport", "opcode"),
    [
        (Transport.UD, Opcode.WRITE),
        (Transport.UD, Opcode.READ),
        (Transport.UC, Opcode.READ),
        (Transport.UC, Opcode.ATOMIC),
    ],
)
def test_a_service_does_only_what_verbs_let_it(transport, opcode):
    """The table of ibv_post_send(3): UD sends, UC sends and writes, RC does all."""
    with pytest.raises(InputError, match="message 0 is a"):
        messages([0], [1], 8, transport=transport, opcode=opcode).check(3)
    messages([0], [1], 8, transport=Transport.RC, opcode=opcode).check(3)


def test_datagrams_are_sends_unless_said_otherwise():
    made = messages([0, 0], [1, 2], 8, transport=[Transport.UD, Transport.RC])
    assert made.opcode.tolist() == [Opcode.SEND, Opcode.WRITE]
    made.check(3)
