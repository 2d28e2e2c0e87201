"""A host's files as the collector of ``softib stack`` lays them out: two adapters and two GPUs on two NUMA nodes, without a fault."""

from __future__ import annotations

import tarfile
from pathlib import Path

LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max locked memory         {locked}            unlimited            bytes
"""
LSPCI = """{bridge} PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)
\tCapabilities: [100 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid{acs} TransBlk- ReqRedir{acs} CmpltRedir{acs} UpstreamFwd{acs} EgressCtrl- DirectTrans-

{adapter} Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tDevCtl:\tCorrErr- NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tRlxdOrd{relaxed} ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes

"""
DEVINFO = """hca_id:\tmlx5_{n}
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.39.1002
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t{mtu}

"""
MLXCONFIG = """
Device #1:
----------

Device type:        ConnectX7
Device:             {adapter}

Configurations:                                          Next Boot
        NUM_OF_VFS                                  8
        SRIOV_EN                                    True(1)
        PCI_WR_ORDERING                             {ordering}
"""
ADAPTERS = {0: ("0000:17:00.0", "0000:15:01.0", 0), 1: ("0000:b7:00.0", "0000:b5:01.0", 1)}
GPUS = {0: ("0000:18:00.0", 0), 1: ("0000:b8:00.0", 1)}


class Host:
    """``write`` replaces a file, ``files`` are all of them."""

    def __init__(self, name: str):
        self.name, self.files = name, dict[str, str]()
        write = self.write
        write("proc/sys/kernel/hostname", name)
        write("proc/sys/kernel/osrelease", "5.15.0-105-generic")
        write("etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n')
        write("proc/self/limits", LIMITS.format(locked="unlimited"))
        write("sys/module/mlx5_core/version", "24.10-0.7.0")
        write("commands/ofed_info", "MLNX_OFED_LINUX-24.10-0.7.0.0:\n")
        write("commands/ucx_info", "# Library version: 1.17.0\n# Library path: /usr/lib/libucs.so.0\n")
        write("commands/ompi_info", "Open MPI v5.0.5\n")
        write(
            "commands/libraries",
            "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5\n/usr/lib/x86_64-linux-gnu/libnccl.so.2\n",
        )
        write("commands/env", "NCCL_IB_HCA=mlx5\nNCCL_IB_GID_INDEX=3\n")
        write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1024")
        write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
        write("sys/devices/system/node/node0/distance", "10 21")
        write("sys/devices/system/node/node1/distance", "21 10")
        paths = []
        for n, (address, bridge, numa) in ADAPTERS.items():
            self.adapter(n, address, numa)
            paths.append(f"/sys/devices/pci0000:14/0000:14:01.0/{bridge}/{address}")
        for n, (address, numa) in GPUS.items():
            paths.append(f"/sys/devices/pci0000:14/0000:14:01.0/{ADAPTERS[n][1]}/{address}")
            gpu = f"sys/bus/pci/devices/{address}/"
            for file, text in (
                ("vendor", "0x10de"),
                ("device", "0x2330"),
                ("class", "0x030200"),
                ("numa_node", str(numa)),
            ):
                write(gpu + file, text)
            write(gpu + "iommu_group/type", "identity")
        write("commands/pci_paths", "\n".join(paths))
        self.lspci()
        self.devinfo()

    def write(self, path: str, text: str) -> None:
        self.files[path] = text if text.endswith("\n") else text + "\n"

    def adapter(self, n: int, address: str, numa: int) -> None:
        top = f"sys/class/infiniband/mlx5_{n}/"
        files = {
            "fw_ver": "28.39.1002",
            "hca_type": "MT4129",
            "board_id": "MT_0000000838",
            "node_guid": f"946d:ae03:00a0:000{n}",
            "device/numa_node": str(numa),
            "device/sriov_numvfs": "1",
            "device/sriov/0/node": f"11:22:33:44:55:66:77:0{n}",
            "device/current_link_speed": "32.0 GT/s PCIe",
            "device/current_link_width": "16",
            "device/max_link_speed": "32.0 GT/s PCIe",
            "device/max_link_width": "16",
            "device/iommu_group/type": "identity",
            "ports/1/state": "4: ACTIVE",
            "ports/1/phys_state": "5: LinkUp",
            "ports/1/rate": "400 Gb/sec (4X NDR)",
            "ports/1/link_layer": "InfiniBand",
            "ports/1/lid": f"0x{n + 1:x}",
            "ports/1/pkeys/0": "0xffff",
        }
        for name, text in files.items():
            self.write(top + name, text)
        self.write(f"commands/mlxconfig-{address}", MLXCONFIG.format(adapter=address, ordering="per_mkey(0)"))

    def lspci(self, acs: str = "-", relaxed: str = "+") -> None:
        """All bridges and adapters, the first with these settings."""
        text = ""
        for n, (address, bridge, _) in ADAPTERS.items():
            first = n == 0
            text += LSPCI.format(
                adapter=address, bridge=bridge, acs=acs if first else "-", relaxed=relaxed if first else "+"
            )
        self.write("commands/lspci", text)

    def devinfo(self, mtu: str = "4096 (5)") -> None:
        self.write("commands/ibv_devinfo", DEVINFO.format(n=0, mtu=mtu) + DEVINFO.format(n=1, mtu="4096 (5)"))

    def virtual_function(self, pkey: str) -> None:
        """An adapter that is a virtual function."""
        self.adapter(2, "0000:17:00.1", 0)
        self.write("sys/class/infiniband/mlx5_2/device/physfn/vendor", "0x15b3")
        self.write("sys/class/infiniband/mlx5_2/ports/1/pkeys/0", pkey)

    def folder(self, tmp: Path) -> Path:
        root = tmp / self.name
        for path, text in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return root

    def archive(self, tmp: Path) -> Path:
        path = tmp / f"{self.name}.tgz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(self.folder(tmp), ".")
        return path
