"""Splitter cables, a 400G port as two of 200G: labels of ibdiagnet (ASIC/Cage/Port/Split) and of a plan are the same
ports, two lanes are by design, and exchanged halves are named. The oracle is the file that this test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from softib.diags.check import check
from softib.fabric.formats.cabling.plan import read_plan
from softib.fabric.formats.registry import read

CAGES = 8
LEAF = 0xA0001
HEADINGS = "# : IB# : Sta : PhysSta : LWA : LSA : Neighbor Guid : N# : NLID : Neighbor Description"


def label(cage: int, port: int, half: int) -> str:
    return f"1/{cage}/{port}/{half}"


def halves() -> list[tuple[str, int, int]]:
    """(label, port number, host) of every half."""
    each = [(c, p, half) for c in range(1, CAGES + 1) for p in (1, 2) for half in (1, 2)]
    return [(label(*x), n, n) for n, x in enumerate(each, 1)]


def net_dump(swapped: tuple[str, str] | None = None) -> str:
    host = {name: n for name, _, n in halves()}
    if swapped:
        host[swapped[0]], host[swapped[1]] = host[swapped[1]], host[swapped[0]]
    rows = [
        f"{name} : {number} : ACT : LINK UP : 2x : 100 : {0xC0000 + 16 * host[name]:#018x} : B184D0F0/0/0/1 : "
        f'{host[name] + 1} : "node-{host[name]:02d} mlx5_0"'
        for name, number, _ in halves()
    ]
    return "\n".join([f'"leaf-1", Mellanox, {LEAF:#018x}, LID 1', HEADINGS, *rows, ""])


def plan(path: Path, form: str) -> Path:
    """By half (a row each, labels of the switch), or by splitter cable (a row for both halves)."""
    lines = ["Switch,Switch Port,Server,HCA,Speed"]
    rows = halves()
    if form == "halves":
        lines += [f"leaf-1,{name},node-{n:02d},mlx5_0,2x NDR" for name, _, n in rows]
    else:
        lines += [
            f"leaf-1,{one[0]} & {two[0]},node-{one[2]:02d} & node-{two[2]:02d},mlx5_0,2x NDR"
            for one, two in zip(rows[::2], rows[1::2], strict=True)
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("form", ["halves", "cables"])
def test_a_plan_of_splitters_is_the_fabric(form: str, tmp_path: Path) -> None:
    (tmp_path / "x.net_dump").write_text(net_dump())
    fabric = read(tmp_path / "x.net_dump").fabric
    assert fabric.port_label[int(fabric.port(fabric.node_names().index("leaf-1"), 6))] == label(2, 1, 2)
    planned = read_plan(plan(tmp_path / "plan.csv", form))
    assert not planned.problems and len(planned.node) == 4 * CAGES
    assert not check(fabric, plan=planned)


@pytest.mark.parametrize("form", ["halves", "cables"])
@pytest.mark.parametrize(
    "pair", [(label(3, 1, 1), label(3, 1, 2)), (label(2, 1, 1), label(7, 2, 2))], ids=["one splitter", "two splitters"]
)
def test_exchanged_halves_are_one_finding_with_both_ports(pair: tuple[str, str], form: str, tmp_path: Path) -> None:
    (tmp_path / "x.net_dump").write_text(net_dump(swapped=pair))
    number = {name: n for name, n, _ in halves()}
    fabric = read(tmp_path / "x.net_dump").fabric
    found = check(fabric, plan=read_plan(plan(tmp_path / "plan.csv", form)))
    assert [f.code for f in found] == ["plan-swapped-cables"]
    leaf_ports = {f"leaf-1[{number[name]}]" for name in pair}
    assert {str(p) for p in found[0].where if p.node == "leaf-1"} == leaf_ports
    assert {p.node for p in found[0].where} == {"leaf-1", *(f"node-{number[name]:02d} mlx5_0" for name in pair)}
