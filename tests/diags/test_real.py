"""What real fabrics show, checked by hand against the files."""

from __future__ import annotations

import pytest

from softib.diags.check import check
from softib.diags.finding import Finding
from softib.diags.structure.recognise import recognise
from softib.fabric.formats.registry import read
from softib.fabric.node_finder import find_node

NOISE = {"unreadable-records", "unnamed-nodes", "links-below-generation", "self-loop-cable"}


def judged(path) -> list[Finding]:
    result = read(path)
    return [f for f in check(result.fabric, problems=result.problems) if f.code not in NOISE]


def places(findings: list[Finding], code: str) -> set[frozenset[str]]:
    return {frozenset(map(str, f.where)) for f in findings if f.code == code}


def test_a_published_fabric_has_two_rails_of_a_host_crossed(shared_data) -> None:
    """hk-examples/Topo.5: lf25 holds rail 2 of its unit but for pg-spd071, whose mlx5_1 is there, and lf30 the reverse."""
    findings = judged(shared_data / "hk-examples" / "Topo.5.txt")
    assert places(findings, "crossed-rails") == {
        frozenset(
            {
                "pg-spd071 mlx5_1[1]",
                "lf25.cn.a0403.qm8790.krskp[11]",
                "pg-spd071 mlx5_2[1]",
                "lf30.cn.a0403.qm8790.krskp[11]",
            }
        )
    }
    assert {f.code for f in findings} == {"crossed-rails", "missing-uplinks"}
    assert len(findings) == 5


def test_selenes_missing_cables(shared_data) -> None:
    """Both ports of each are without a record in the file."""
    path = shared_data / "ufm-selene-storage" / "selene.storage.txt"
    findings = judged(path)
    absent, unruled = ([f for f in findings if f.code == code] for code in ("absent-host", "unjudged-cables"))
    findings = [f for f in findings if f not in absent and f not in unruled]
    assert [len(f.evidence["cables"]) for f in unruled] == [96]  # hosts ai…, numbered otherwise than their leaves
    assert {f.code for f in findings} == {"missing-cable"} and len(findings) == 9
    fabric = read(path).fabric
    names = set(fabric.node_names())
    # Hosts that were off during the scan: luna-0034 and luna-0036 are there, luna-0035 is not, and so on.
    (off,) = absent
    assert not any(n.startswith(f"{host} ") or n == host for host in off.evidence["hosts"] for n in names)
    for f in findings:
        for p in f.where:
            node = find_node(fabric, p.node)
            assert fabric.port_peer[fabric.port(node, p.portnum)] < 0
    assert recognise(fabric).levels == 3


def test_the_missing_uplink_of_a_small_cluster(shared_data) -> None:
    """fdr10-stage: six leaves, each with four cables to each of two spines, 47 FDR10 cables instead of 48. The file lists
    ports 21, 23 and 27 of ib1 at ports 2, 4 and 8 of ib8."""
    (found,) = judged(shared_data / "fdr10-stage" / "topo")
    assert found.code == "missing-cable" and {p.portnum for p in found.where} == {25, 6}
    assert "ib1:" in found.message and "ib8:" in found.message


@pytest.mark.parametrize(
    "name",
    [
        "ftree-k4n3/k-4-n-3-Full.topo",
        "ibmgtsim-topos/12-ary-2-tree.topo",
        pytest.param("ibmgtsim-topos/4-ary-4-tree.topo", marks=pytest.mark.slow),
        "ibmgtsim-topos/IS3-128.topo",
        "ibmgtsim-topos/FullGnu.topo",
        "ibutils-clusters/SingleGazelle.topo",
        "ibutils-clusters/PartialGazelle.topo",
        "ibutils-clusters/RhinoBased512.topo",
        "ibutils-demo/gnu-based-32.topo",
        "hk-examples/Topo.1.txt",
        "hk-examples/Topo.2.txt",
        "ibsim-net/net.2sw2path4hca2port",
        "qnib-net/netlist.clos5",
        "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.ibnetdiscover",
        "jabl-tests/1.topo",
        "ufm-small-lab/small_topo_file",
    ],
)
def test_fabrics_without_faults_show_none(shared_data, name: str) -> None:
    assert [f.message for f in judged(shared_data / name)] == []


@pytest.mark.parametrize(
    ("name", "kind", "levels"),
    [
        ("ftree-k4n3/k-4-n-3-Full.topo", "fat-tree", 3),
        ("ibmgtsim-topos/4-ary-4-tree.topo", "fat-tree", 4),
        ("ibutils-clusters/RhinoBased512.topo", "fat-tree", 3),
        ("ufm-selene-storage/selene.storage.txt", "rail-optimized", 3),
        ("sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.ibnetdiscover", "rail-optimized", 2),
        ("hk-examples/Topo.2.txt", "ring", 1),
    ],
)
def test_what_real_fabrics_are(shared_data, name: str, kind: str, levels: int) -> None:
    found = recognise(read(shared_data / name).fabric)
    assert (found.kind, found.levels) == (kind, levels)
