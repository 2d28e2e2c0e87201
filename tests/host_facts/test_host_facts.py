"""Facts of a host and what is wrong with it. Oracles: trees with planted faults, a real tree that
procfs has, softib run's own view."""

from __future__ import annotations

import pytest

from softib.errors import SoftibError
from softib.host_facts.checks import counters_of, node_faults
from softib.host_facts.manifest import Manifest, read_manifest
from softib.host_facts.sysfs import read_host
from tests.host_facts import trees

MANIFEST = """
adapters:
  mlx5_*:
    count: 2
    firmware: 28.39.1002
    psid: MT_0000000838
    pcie: {gts: 32, width: 16}
    ports:
      1: {state: ACTIVE, gbps: 400, lanes: 4, link_layer: InfiniBand, gids: 1, pkeys: [0xffff, 0x8001]}
counters: {symbol_error: 10}
"""


def faults(tmp_path, manifest: str | None = None, **files: object) -> list[tuple[str, str, int | None]]:
    wanted = Manifest()
    if manifest is not None:
        (tmp_path / "m.yaml").write_text(manifest)
        wanted = read_manifest(tmp_path / "m.yaml")
    return [
        (f.check, f.adapter, f.port) for f in node_faults(read_host(trees.host(tmp_path / "host", **files)), wanted)
    ]


def test_facts_are_those_of_the_files(tmp_path):
    seen = read_host(trees.host(tmp_path))
    assert (seen.name, seen.kernel, [a.name for a in seen.adapters]) == (
        "gpu-17",
        "6.1.0-30-amd64",
        ["mlx5_0", "mlx5_10"],
    )
    a = seen.adapters[0]
    assert (a.firmware, a.kind, a.slot, a.numa_node, a.virtual_functions) == (
        "28.39.1002",
        "MT4129",
        "0000:11:00.0",
        1,
        8,
    )
    assert a.pcie is not None and (a.pcie.gts, a.pcie.width, a.pcie.most_gts, a.pcie.most_width) == (32, 16, 32, 16)
    p = a.ports[0]
    assert (p.state, p.physical_state, p.gbps, p.lanes, p.lid, p.sm_lid) == ("ACTIVE", "LinkUp", 400, 4, 31, 1)
    assert p.gids == ["fe80:0000:0000:0000:a088:c203:0012:3456"] and p.pkeys == [0xFFFF, 0x8001]
    assert p.counters == dict.fromkeys(trees.COUNTERS, 0) and not seen.unread


PLANTED = [
    ({"state": "1: DOWN", "phys_state": "2: Polling"}, "port-state", 1),
    ({"state": "2: INIT"}, "port-state", 1),
    ({"rate": "200 Gb/sec (4X HDR)"}, "rate", 1),
    ({"current_link_width": 8}, "pcie", None),
    ({"current_link_speed": "16.0 GT/s PCIe"}, "pcie", None),
]


@pytest.mark.parametrize("manifest", [None, MANIFEST])
@pytest.mark.parametrize(("files", "check", "port"), PLANTED)
def test_each_planted_fault_is_named_and_nothing_else(tmp_path, manifest, files, check, port):
    assert faults(tmp_path, manifest, **files) == [(check, "mlx5_10", port)]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"fw_ver": "28.38.1000"}, [("firmware", "mlx5_10", None)]),
        ({"board_id": "MT_0000000222"}, [("psid", "mlx5_10", None)]),
        ({"rate": "100 Gb/sec (1X NDR)"}, [("rate", "mlx5_10", 1), ("lanes", "mlx5_10", 1)]),
        ({"link_layer": "Ethernet"}, [("link-layer", "mlx5_10", 1)]),
        ({"pkeys": ("0xffff",)}, [("pkeys", "mlx5_10", 1)]),
        ({}, []),
    ],
)
def test_what_only_a_manifest_knows(tmp_path, files, found):
    assert faults(tmp_path / "with", MANIFEST, **files) == found if (tmp_path / "with").mkdir() is None else False


def test_missing_adapters(tmp_path):
    assert faults(tmp_path, "adapters: {mlx5_*: {count: 3}}") == [("adapter-missing", "mlx5_*", None)]
    (tmp_path / "none/sys").mkdir(parents=True)
    assert [f.check for f in node_faults(read_host(tmp_path / "none"), Manifest())] == ["adapter-missing"]


def test_counters_since_the_last_time(tmp_path):
    """Twelve symbol errors in an hour are above ten, in two hours they are not; a counter that was
    cleared starts at zero."""
    before = counters_of(read_host(trees.host(tmp_path / "a", symbol_error=100)))
    now = read_host(trees.host(tmp_path / "b", symbol_error=112))
    found = node_faults(now, Manifest(), before, 1.0)
    assert [(f.check, f.adapter) for f in found] == [("counter", "mlx5_10")] and "up by 12" in found[0].found
    assert not node_faults(now, Manifest(), before, 2.0)
    cleared = read_host(trees.host(tmp_path / "c", symbol_error=3))
    assert not node_faults(cleared, Manifest(), before, 1.0)
    fell = read_host(trees.host(tmp_path / "d", symbol_error=100, link_downed=1))
    assert [f.found.split()[0] for f in node_faults(fell, Manifest(), before, 5.0)] == ["link_downed"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("adapters: [1]", "use a mapping"),
        ("adaptors: {}", "unknown key 'adaptors'"),
        ("adapters: {mlx5_0: {firmware: 28.39}}", "quotation marks"),
        ("adapters: {mlx5_0: {ports: {x: {}}}}", "is not a port number"),
        ("adapters: {mlx5_0: {ports: {1: {pkeys: [70000]}}}}", "list of P_Keys"),
        ("adapters: {mlx5_0: {pcie: {gts: fast}}}", "use a number"),
        ("counters: {symbol_error: -1}", "use a number"),
        ("{", "not a manifest"),
        ("&a [*a]", ""),
    ],
)
def test_a_bad_manifest_is_one_line(tmp_path, text, words):
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(SoftibError, match=r"m\.yaml") as caught:
        read_manifest(tmp_path / "m.yaml")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_real_tree(shared_data, tmp_path):
    """Of prometheus/procfs: hfi1_0, mlx4_0 with a port down, mlx5_0."""
    from pathlib import Path

    text = (Path(shared_data) / "procfs-sysfs-ib/infiniband.ttar").read_text()
    lines, at = text.splitlines(), 0
    while at < len(lines):
        if lines[at].startswith("Path: ") and lines[at + 1].startswith("Lines: "):
            count = int(lines[at + 1].split()[1])
            trees.write(tmp_path, lines[at][6:].removeprefix("fixtures/"), "\n".join(lines[at + 2 : at + 2 + count]))
            at += count
        at += 1
    seen = read_host(tmp_path, "real")
    assert [a.name for a in seen.adapters] == ["hfi1_0", "mlx4_0", "mlx5_0"]
    assert [(p.state, p.gbps) for a in seen.adapters for p in a.ports][:2] == [("ACTIVE", 100.0), ("ACTIVE", 40.0)]
    down = [(f.adapter, f.port) for f in node_faults(seen, Manifest()) if f.check == "port-state"]
    assert down == [(a.name, p.number) for a in seen.adapters for p in a.ports if p.state != "ACTIVE"]
