"""Compute, storage and management on one floor: positions, lengths and the one list, against sums by hand."""

from __future__ import annotations

import csv
import re
from collections import Counter

import pytest

import softib
from softib.diags.cabling_plan.compare import compare
from softib.errors import InputError
from softib.fabric.faults.inject import swap_cables
from softib.fabric.formats.cabling.plan import read_plan
from softib.fabric.topologies.registry import generate
from softib.plan.floor import read_floor

FLOOR = {"rows": 2, "racks": 7, "kw": 44, "management": {"units": 1, "kw": 0.1}}
SERVERS = 20


@pytest.fixture(scope="module")
def fabrics():
    storage = {"hosts": 31 + SERVERS, "radix": 40, "generation": "HDR", "prefix": "storage-"}
    return softib.generate("rail-optimized", nodes=31, name="pod"), softib.generate("fat-tree", **storage)


@pytest.fixture(scope="module")
def plan(fabrics):
    return softib.plan_cables(fabrics[0], FLOOR, ancillary=[fabrics[1]], shared=1)


def rows_of(plan, folder):
    plan.save(folder / "list.csv")
    with open(folder / "list.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_a_host_has_its_storage_adapter_in_its_chassis(plan, tmp_path):
    """Adapter i of the first 31 is in node i, the others in servers; UFM's hosts have none."""
    place = {}
    for row in rows_of(plan, tmp_path):
        place[row["Z-Node"].split(" ")[0]] = row["Z-Rack"], row["Z-U"]
    for i in range(1, 32):
        assert place[f"storage-host-{i:04d}"] == place[f"node-{i:03d}"]
    servers = [place[f"storage-host-{i:04d}"] for i in range(32, 32 + SERVERS)]
    assert len(set(servers)) == SERVERS and not set(servers) & {place[f"node-{i:03d}"] for i in range(1, 32)}
    plan.save(tmp_path / "l.labels")
    assert ":node-007 storage-host-0007" in (tmp_path / "l.labels").read_text()


def test_lengths_and_trays_by_hand(plan, tmp_path):
    """Along the trays: up from the unit, along and across the rows, down; 0.5 m to the tray and 0.5 m of slack."""
    floor, load = read_floor(FLOOR), Counter()

    def at(rack, u):
        row, column = re.fullmatch(r"([A-Z])(\d+)", rack).groups()
        return ord(row) - 65, int(column) - 1, int(u.removeprefix("U"))

    for row in rows_of(plan, tmp_path):
        (ra, xa, ua), (rz, xz, uz) = at(row["A-Rack"], row["A-U"]), at(row["Z-Rack"], row["Z-U"])
        if (ra, xa) == (rz, xz):
            path = abs(ua - uz) * 0.04445 + 0.5
        else:
            path = (96 - ua - uz) * 0.04445 + 2 * 0.5 + abs(xa - xz) * 0.6 + abs(ra - rz) * 3 + 0.5
            steps = {(ra, x) for x in range(min(xa, xz), max(xa, xz) + 1)} | ({(rz, xz)} if ra != rz else set())
            load.update(steps)
        ordered = float(row["Cable Length"])
        assert path - 1e-6 <= ordered <= max(3 * path, 1), row
    crowd = softib.plan_cables(
        softib.generate("rail-optimized", nodes=31),
        FLOOR | {"tray_cables": 1},
        ancillary=[softib.generate("fat-tree", hosts=31 + SERVERS, radix=40, generation="HDR", prefix="storage-")],
        shared=1,
    )
    listed = {t["rack"]: t["cables"] for t in crowd.to_json()["crowded_trays"]}
    patches = Counter()
    managed = crowd._cabling.layout.managed.tolist()
    for rack, _, to, _ in managed:
        if rack != to:
            (ra, xa), (rz, xz) = divmod(rack, floor.racks), divmod(to, floor.racks)
            patches.update({(ra, x) for x in range(min(xa, xz), max(xa, xz) + 1)} | ({(rz, xz)} if ra != rz else set()))
    total = {f"{chr(65 + r)}{x + 1:02d}": n for (r, x), n in (load + patches).items() if n > 1}
    assert listed == total


def test_every_device_has_a_management_port_and_the_bill_says_so(plan):
    devices = 31 + 2 + SERVERS + 12 + 5  # hosts, UFM, servers, compute switches, storage switches
    assert plan.management_switches == -(-devices // 48) == 2
    items = {i.role: 0 for i in plan.bill.items}
    for item in plan.bill.items:
        items[item.role] += item.count
    assert (items["management"], items["patch"]) == (2, devices)
    assert items["adapter"] == 252 + 31 + SERVERS and items["switch"] == 12 + 5
    assert {i.text for i in plan.bill.open} >= {
        "management switch, 48 ports of 1 Gb/s Ethernet"
    }  # unknown, and counted
    priced = plan.power
    assert priced[0] > 2 * 39
    assert sum(rack.devices for rack in plan.rack_power) == devices + 2
    kw = 33 * 10.2 + SERVERS * 1.0 + 17 * 1.7 + 2 * 0.1
    assert sum(rack.kw for rack in plan.rack_power) == pytest.approx(kw)
    assert max(rack.kw for rack in plan.rack_power) <= 44


def test_one_list_is_the_plan_of_both(plan, fabrics, tmp_path):
    """As designed is as built; two exchanged plugs of either fabric are found, and the other fabric is named."""
    plan.save(tmp_path / "list.csv")
    wanted = read_plan(tmp_path / "list.csv")
    for fabric, other in zip(fabrics, fabrics[::-1], strict=True):
        built = softib.api.fabric.result_of(fabric).fabric.copy()
        cables, others = (softib.api.fabric.result_of(f).fabric.sizes.cables for f in (fabric, other))
        same = compare(built, wanted)
        assert same.counts["matched"] == cables and same.counts["unmatched"] == others
        assert [f.code for f in same.findings] == ["plan-other-fabric"]
        first, last = built.port_name(int(built.cable_port[-1].max())), built.port_name(int(built.cable_port[-9].max()))
        swap_cables(built, first, last)
        wrong = compare(built, wanted)
        assert (wrong.counts["swapped"], wrong.counts["matched"]) == (2, cables - 2)
        assert sorted(f.code for f in wrong.findings) == ["plan-other-fabric", "plan-swapped-cables"]


def test_a_plan_of_nothing_that_is_here_is_no_second_fabric(plan, tmp_path):
    plan.save(tmp_path / "list.csv")
    ring = generate("ring", switches=4)
    assert {f.code for f in compare(ring, read_plan(tmp_path / "list.csv")).findings} >= {"plan-unmatched-row"}


def test_a_misspelt_row_stays_a_row_that_matches_nothing(tmp_path):
    pod = softib.generate("rail-optimized", nodes=31)
    softib.plan_cables(pod, {"racks": 12, "kw": 44}).save(tmp_path / "list.csv")
    lines = (tmp_path / "list.csv").read_text().splitlines()
    lines[-1] = lines[-1].replace("leaf-8", "leef-8").replace("node-031", "nood-031").replace("ufm-2", "umf-2")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    codes = {
        f.code for f in compare(softib.api.fabric.result_of(pod).fabric, read_plan(tmp_path / "list.csv")).findings
    }
    assert "plan-unmatched-row" in codes and "plan-other-fabric" not in codes


@pytest.mark.parametrize(
    ("floor", "storage", "shared", "why"),
    [
        ({}, {"prefix": ""}, 1, "leaf-1 is the name of a switch in two fabrics"),
        ({"racks": 4}, {}, 1, "33 hosts, 4 in a rack, 20 storage hosts, 24 in a rack, and 17 switches need"),
        (
            {"rows": 1, "racks": 41, "kw": 8, "host": {"units": 8, "kw": 7.9}, "management": {"units": 1, "kw": 6.5}},
            {},
            1,
            "no rack has room for management switch 1",
        ),
        ({}, {}, 5, "storage has 51 adapters, too few for 5 in each of 31 hosts of pod"),
        ({}, {}, None, "no host of storage has the name of a host of pod; use shared"),
        ({"management": {"units": 1, "kw": 45}}, {}, 1, "a device of 1 U and 45 kW does not fit"),
        ({"storage": {"units": 60, "kw": 1}}, {}, 1, "a device of 60 U"),
        ({"placed": [{"node": f"node-{n:03d}", "rack": "A01", "u": 8 * n} for n in range(1, 6)]}, {}, 1, "51 kW"),
    ],
)
def test_impossible_floors_are_one_line(fabrics, floor, storage, shared, why):
    other = softib.generate(
        "fat-tree", **{"hosts": 51, "radix": 40, "generation": "HDR", "prefix": "storage-", "name": "storage"} | storage
    )
    with pytest.raises(InputError, match=why) as error:
        softib.plan_cables(fabrics[0], FLOOR | floor, ancillary=[other], shared=shared)
    assert "\n" not in str(error.value)


def test_shared_needs_a_fabric_beside(fabrics):
    with pytest.raises(InputError, match="ancillary"):
        softib.plan_cables(fabrics[0], FLOOR, shared=1)


def test_hosts_of_one_name_are_one_host():
    """Two dumps of one machine, whose switches have different names."""
    first = softib.generate("fat-tree", hosts=8, radix=8)
    second = softib.generate("fat-tree", hosts=8, radix=8, prefix="b-")
    arrays = softib.api.fabric.result_of(second).fabric
    arrays.node_desc[arrays.cas, :-2] = arrays.node_desc[arrays.cas, 2:]  # b-host-0001 -> host-0001
    plan = softib.plan_cables(first, {"racks": 9, "kw": 44}, ancillary=[second])
    assert sum(not e.is_switch for e in plan._cabling.layout.elevations) == 8
