"""``softib node-check`` on the /sys that a node of a running fabric shows. Oracle: what the fabric's file and faults say."""

from __future__ import annotations

import json
from pathlib import Path


def test_a_node_is_as_recorded_until_its_cable_is_pulled(softib, tmp_path):
    softib("up", "one.yaml", "--detach")
    root = softib("run", "--node", "host-0002", "--sysfs").strip() + "/class/infiniband"
    files = [
        f"/sys/class/infiniband/mlx5_0/ports/1/{f}" for f in ("state", "phys_state", "rate", "link_layer", "pkeys/0")
    ]
    softib("run", "--node", "host-0002", "--", "cat", *files)  # makes the tree true
    manifest = str(tmp_path / "m.yaml")
    said = softib("node-check", "--root", root, "--record", manifest, "--json")
    host = json.loads(said[: said.rindex("}") + 1])["host"]
    assert [a["name"] for a in host["adapters"]] == ["mlx5_0"]
    port = host["adapters"][0]["ports"][0]
    assert (port["state"], port["pkeys"][0], port["link_layer"]) == ("ACTIVE", 0xFFFF, "InfiniBand")
    softib("node-check", "--root", root, "--manifest", manifest)
    softib("fault", "link-down", "host-0002[1]")
    softib("run", "--node", "host-0002", "--", "cat", *files)
    assert softib("node-check", "--root", root, "--manifest", manifest, code=1).startswith("mlx5_0/1: port-state: DOWN")


def test_the_tree_of_sysfs_is_fresh(softib, tmp_path):
    """No program has opened a file since the fault."""
    softib("up", "one.yaml", "--detach")
    state = lambda: (
        Path(softib("run", "--node", "host-0002", "--sysfs").strip()) / "class/infiniband/mlx5_0/ports/1/state"
    ).read_text()
    assert state() == "4: ACTIVE\n"
    softib("fault", "link-down", "host-0002[1]")
    assert state() == "1: DOWN\n"
