"""What a workload may say: the rules of :class:`~softib.sim.messages.Messages`."""

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim.ends import end_ports
from softib.sim.messages import Transport, messages


def test_numbers_become_columns():
    made = messages([0, 0, 1], [1, 2, 2], 4096, start_ps=5)
    made.check(3)
    assert made.size.tolist() == [4096] * 3 and made.start_ps.tolist() == [5] * 3
    assert len(set(made.qp.tolist())) == 3, "a queue pair for each pair of ends"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"dst": 3}, "destination that the fabric has not"),
        ({"src": -1}, "source that the fabric has not"),
        ({"size": 0}, "no octet"),
        ({"size": (1 << 31) + 1}, "2 GiB"),
        ({"start_ps": -1}, "before time 0"),
        ({"sl": 16}, "SLs are 0 to 15"),
        ({"rate_gbps": float("nan")}, "negative rate"),
        ({"dst": [1, 2], "qp": 0}, "two destinations"),
        ({"first": [0, 1, 1], "needs": [0]}, "waits for itself"),
        ({"first": [0, 1, 2], "needs": [1, 7]}, "not there"),
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
