"""``virtual_ports`` of a fabric.yaml: whose ports get how many, and what is said of a wrong line."""

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.topologies.spec import load_fabric_yaml
from softib.iba.vendor.vports import VPortInfo
from tests.agents.vport_changes import vport_count
from tests.fabric.subset import without_nodes

HEAD = "topology: {kind: fat-tree, radix: 8, levels: 2, hosts: 16}\n"


def load(tmp_path, text):
    path = tmp_path / "net.yaml"
    path.write_text(HEAD + text)
    return load_fabric_yaml(path).fabric


def counts(fabric):
    return [vport_count(fabric, int(fabric.port(node, 1))) for node in fabric.cas]


def test_the_last_line_that_fits_counts(tmp_path):
    text = 'virtual_ports:\n  "host-*": 2\n  host-0003: {functions: 200, lid_required: true}\n'
    fabric = load(tmp_path, text)
    assert counts(fabric) == [3, 3, 201, *[3] * 13] and fabric.sizes.vports == 15 * 3 + 201
    guids = VPortInfo.vport_guid.get(fabric.vport_info)
    assert len(set(guids.tolist()) | set(fabric.node_guid.tolist())) == len(guids) + len(fabric.node_guid)
    rest = without_nodes(fabric, [int(fabric.cas[0])])
    assert counts(rest) == counts(fabric)[1:]
    row = int(rest.vport_base[rest.port(rest.cas[1], 1)]) + 1
    assert VPortInfo.vport_guid.get(rest.vport_info[row]) == guids[3 * 2 + 1], "host-0003's first function"
    assert not any(counts(load(tmp_path, ""))) and np.array_equal(fabric.copy().vport_info, fabric.vport_info)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("virtual_ports: {hots-1: 2}\n", "net.yaml:2: virtual_ports: no host is called hots-1"),
        ("virtual_ports: {leaf-1: 2}\n", "no host is called leaf-1"),
        ('virtual_ports:\n  "*": 256\n', "net.yaml:3: virtual_ports"),
        ("virtual_ports: {host-0001: {functions: 0}}\n", "net.yaml:2: virtual_ports"),
        ("virtual_ports: {host-0001: {function: 2}}\n", "net.yaml:2:"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, text, said):
    with pytest.raises(InputError) as wrong:
        load(tmp_path, text)
    assert said in str(wrong.value) and "\n" not in str(wrong.value)
