"""Trees of /sys as a kernel has them, written by the tests."""

from __future__ import annotations

from pathlib import Path

COUNTERS = ("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors", "port_xmit_data")


def write(root: Path, path: str, text: object) -> None:
    """A file of one line, below folders as needed."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def adapter(root: Path, name: str, slot: str, rate: str = "400 Gb/sec (4X NDR)", **files: object) -> None:
    """One adapter with a port, behind a link to its PCI function, as on every kernel."""
    device = f"sys/devices/pci0000:10/{slot}"
    (root / "sys/class/infiniband").mkdir(parents=True, exist_ok=True)
    (root / device / "infiniband" / name).mkdir(parents=True)
    (root / "sys/class/infiniband" / name).symlink_to(f"../../devices/pci0000:10/{slot}/infiniband/{name}")
    pci = {
        "current_link_speed": "32.0 GT/s PCIe",
        "current_link_width": 16,
        "max_link_speed": "32.0 GT/s PCIe",
        "max_link_width": 16,
        "numa_node": 1,
        "sriov_numvfs": 8,
    }
    for file, text in pci.items():
        write(root, f"{device}/{file}", files.get(file, text))
    own = f"{device}/infiniband/{name}"
    (root / own / "device").symlink_to("../..")
    for file, text in {
        "fw_ver": "28.39.1002",
        "board_id": "MT_0000000838",
        "hca_type": "MT4129",
        "node_guid": "a088:c203:0012:3456",
    }.items():
        write(root, f"{own}/{file}", files.get(file, text))
    port = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": "InfiniBand",
        "rate": rate,
        "lid": "0x1f",
        "sm_lid": "0x1",
    }
    for file, text in port.items():
        write(root, f"{own}/ports/1/{file}", files.get(file, text))
    write(root, f"{own}/ports/1/gids/0", "fe80:0000:0000:0000:a088:c203:0012:3456")
    write(root, f"{own}/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000")
    for i, key in enumerate(files.get("pkeys", ("0xffff", "0x8001", "0x0000"))):  # type: ignore[arg-type,var-annotated]
        write(root, f"{own}/ports/1/pkeys/{i}", key)
    for name_ in COUNTERS:
        write(root, f"{own}/ports/1/counters/{name_}", files.get(name_, 0))


def host(root: Path, **files: object) -> Path:
    """A host with two adapters; ``files`` are other words of the second one."""
    write(root, "proc/sys/kernel/osrelease", "6.1.0-30-amd64")
    write(root, "proc/sys/kernel/hostname", "gpu-17")
    adapter(root, "mlx5_0", "0000:11:00.0")
    adapter(root, "mlx5_10", "0000:21:00.0", **files)
    return root
