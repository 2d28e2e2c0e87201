"""Where an adapter sits on the bus: who follows sysfs as a kernel shows it comes to a PCI function."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from xml.etree import ElementTree

import pytest

import softib
from softib.workloads.nccl.machine import MACHINES
from tests.live.umad.lab import needs_namespace
from tests.preload.verbs.applications import Applications
from tests.preload.verbs.c_programs import program

pytestmark = pytest.mark.stock

NODE = "node-001"
RAILS = 3
FABRIC = f"name: rails\ngeneration: NDR\ntopology: {{kind: rail-optimized, nodes: 4, rails: {RAILS}, radix: 8, ufm: false}}\n"


@pytest.fixture(scope="module")
def rails():
    fabric = Applications(FABRIC)
    yield fabric
    fabric.close()


def said(rails, *words: str, how: tuple[str, ...] = (), **env: str) -> str:
    done = subprocess.run(
        rails.arguments("run", "--node", NODE, *how, "--", "env", "-u", "PYTHONPATH", *words),
        env={**rails.env, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("how", [(), pytest.param(("--ns",), marks=needs_namespace)], ids=["library", "namespace"])
def test_every_way_of_libibverbs_leads_to_one_pci_function(rails, how):
    """``ibdev_path`` and ``dev_path`` of libibverbs' device, ``device`` below each, realpath(3), as UCX 1.13's uct_ib_device_init and
    rdma-core's own drivers go: a function with the adapter's own vendor and device, each of its own behind its own root port."""
    rows = [line.split() for line in said(rails, program("pci"), how=how).splitlines()]
    assert [row[0] for row in rows] == [f"mlx5_{i}" for i in range(RAILS)]
    for _, by_device, by_uverbs, by_umad, vendor, device, kind, part in rows:
        assert by_device == by_uverbs == by_umad
        assert re.fullmatch(
            r"/sys/devices/pci[0-9a-f]{4}:[0-9a-f]{2}(/[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])+", by_device
        )
        assert (vendor, kind) == ("0x15b3", "0x020700") and int(device, 16) == int(part), "ConnectX by the PCI ID list"
    functions = [row[1].rsplit("/", 1) for row in rows]
    assert len({path for path, _ in functions}) == len({name for _, name in functions}) == RAILS
    assert functions == sorted(functions), "numbered as a kernel finds them"


def test_ucx_names_its_devices_by_it(rails, stock):
    """What ``ib/test_md.sys_device`` of UCX's own gtest asks; where the path leads to no function it says ``<unknown>``."""
    found = re.findall(
        r"Device: (mlx5_\d):1\n.*?System device: (\S+)",
        said(rails, stock("ucx_info"), "-d", UCX_NET_DEVICES="all"),
        re.S,
    )
    assert {name for name, _ in found} == {f"mlx5_{i}" for i in range(RAILS)}
    assert all(name == system for name, system in found), found


def test_hwloc_shows_each_adapter_behind_a_bridge_with_the_speed_of_its_slot(rails, stock):
    """It reads the configuration space of each device on the bus by libpciaccess. 16 lanes of generation 5 are 63 GB/s."""
    words = (stock("lstopo-no-graphics"), "--of", "xml", "--whole-io", "-")
    topology = ElementTree.fromstring(said(rails, *words))
    adapters = [
        (bridge.get("pci_busid"), pci.get("pci_busid"), pci.get("pci_link_speed"), pci.find("object").get("name"))
        for bridge in topology.iter("object")
        if bridge.get("type") == "Bridge" and bridge.get("pci_busid")
        for pci in bridge.findall("object")
        if pci.find("object") is not None and "mlx5" in pci.find("object").get("name")
    ]
    assert [(b, p, name) for b, p, _, name in adapters] == [
        (f"0000:{i}0:00.0", f"0000:{i}1:00.0", f"mlx5_{i - 1}") for i in range(1, RAILS + 1)
    ]
    assert [float(speed) for _, _, speed, _ in adapters] == [pytest.approx(63.0, rel=0.01)] * RAILS
    facts = [
        {info.get("name"): info.get("value") for info in one.findall("info")}
        for one in topology.iter("object")
        if (one.get("name") or "").startswith("mlx5")
    ]
    assert [fact["Port1State"] for fact in facts] == ["4"] * RAILS, "active"
    assert len({fact["NodeGUID"] for fact in facts}) == RAILS


@pytest.mark.slow
@pytest.mark.parametrize("how", [(), pytest.param(("--ns",), marks=needs_namespace)], ids=["library", "namespace"])
def test_lspci_decodes_the_adapters_and_the_machine(rails, stock, how):
    """The machine's own devices stay, and their links lead to them."""
    machine = subprocess.run([stock("lspci"), "-D"], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = said(rails, stock("lspci"), "-D", how=how).splitlines()
    assert [row for row in rows if row in machine] == machine
    added = [row for row in rows if row not in machine]
    assert [re.sub(r".*: (Mellanox|Red Hat).*", r"\1", row) for row in added] == ["Red Hat", "Mellanox"] * RAILS
    details = said(rails, stock("lspci"), "-vvs", "0000:11:00.0", how=how)
    assert "Express (v2) Endpoint" in details and "LnkSta:\tSpeed 32GT/s, Width x16" in details


MACHINE = "gpu: H100\ngpus: 4\nnics: 2\ngpudirect: {}\n"
"""A machine file, as ``softib simulate --machine`` reads it."""
PARTS = {"15b3": "adapter", "10de": "GPU", "1002": "GPU"}


def paths_of(fabric, stock, node: str = "node-001", how: tuple[str, ...] = ()) -> dict[str, tuple[list[str], int]]:
    """For each adapter and GPU that hwloc finds: the addresses from its root port down, and its NUMA node by the processors that are
    near. HWLOC_ALLOW: the container may run on one NUMA node alone, and hwloc leaves out the other."""
    words = (
        "env",
        "-u",
        "PYTHONPATH",
        "HWLOC_ALLOW=all",
        stock("lstopo-no-graphics"),
        "--of",
        "xml",
        "--whole-io",
        "-",
    )
    done = subprocess.run(
        fabric.arguments("run", "--node", node, *how, "--", *words),
        env=fabric.env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = {}

    def below(one, path: list[str], near: set[str]) -> None:
        near = {o.get("os_index") for o in one.findall("object") if o.get("type") == "NUMANode"} or near
        path = [*path, one.get("pci_busid")] if one.get("pci_busid") else path
        part = PARTS.get((one.get("pci_type") or "")[6:10])
        if one.get("type") == "PCIDev" and part:
            assert len(near) == 1, "near one NUMA node"
            found[f"{part} {path[-1]}"] = path, int(min(near))
        for child in one.findall("object"):
            below(child, path, near)

    below(ElementTree.fromstring(done.stdout).find("object"), [], set())
    return found


@pytest.fixture
def machine(request, tmp_path):
    (tmp_path / "machine.yaml").write_text(MACHINE.format(request.param))
    fabric = Applications(FABRIC.replace(f"rails: {RAILS}", "rails: 2"), "--machine", str(tmp_path / "machine.yaml"))
    yield fabric
    fabric.close()


@pytest.mark.parametrize("machine", ["pix"], indirect=True)
def test_hwloc_shows_gpus_and_adapters_below_common_switches(machine, stock):
    """NCCL's PIX: a path through a single PCIe switch. Two GPUs share an adapter, each half of the machine has a NUMA node."""
    found = paths_of(machine, stock)
    assert sorted(name.split()[0] for name in found) == ["GPU"] * 4 + ["adapter"] * 2
    for numa, bus in enumerate(("1", "2")):
        paths = [path for path, at in found.values() if at == numa]
        assert len(paths) == 3 and len({tuple(path[:2]) for path in paths}) == 1, "one root port, one upstream port"
        assert len({path[2] for path in paths}) == 3, "a downstream port each"
        assert {path[3] for path in paths} == {f"0000:{bus}{i}:00.0" for i in (3, 4, 5)}
    path = "/sys/class/pci_bus/0000:24/../../0000:24:00.0"  # how NCCL looks for the function of a bus address
    shown = said(machine, "sh", "-c", f"realpath {path}; cat {path}/numa_node /sys/devices/system/node/node1/distance")
    assert shown.split() == [f"/sys/devices/pci0000:20/{'/'.join(found['GPU 0000:24:00.0'][0])}", "1", "20", "10"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MACHINES))
def test_hwloc_shows_each_machine_as_its_data_sheet_describes_it(name, stock):
    """As many GPUs and adapters as a host of the machine has, halves at two NUMA nodes, and an adapter behind the PCIe switch of each GPU."""
    m = MACHINES[name]
    gpus, nics = m.gpus // m.hosts, m.nics // m.hosts
    topology = f"{{kind: rail-optimized, nodes: 4, rails: {nics}, radix: {2 * nics}, ufm: false}}"
    fabric = Applications(f"name: rails\ngeneration: NDR\ntopology: {topology}\n", "--machine", name)
    try:
        found = paths_of(fabric, stock)
    finally:
        fabric.close()
    assert Counter(part.split()[0] for part in found) == {"GPU": gpus, "adapter": nics}
    assert Counter((part.split()[0], numa) for part, (_, numa) in found.items()) == {
        (kind, numa): n // 2 for kind, n in (("GPU", gpus), ("adapter", nics)) for numa in (0, 1)
    }
    behind = Counter(tuple(path[:2]) for part, (path, _) in found.items() if part.startswith("GPU"))
    adapters = Counter(tuple(path[:2]) for part, (path, _) in found.items() if part.startswith("adapter"))
    assert behind == dict.fromkeys(adapters, gpus // nics) and set(adapters.values()) == {1}


@needs_namespace
@pytest.mark.slow
@pytest.mark.parametrize("machine", ["pix"], indirect=True)
def test_a_namespace_shows_the_same_machine(machine, stock):
    assert paths_of(machine, stock) == paths_of(machine, stock, how=("--ns",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "near"),
    [
        ("phb", {"adapter": [0, 1], "GPU": [0, 0, 1, 1]}),
        ("sys", {"adapter": [0, 0], "GPU": [1, 1, 1, 1]}),
    ],
    indirect=["machine"],
)
def test_hwloc_shows_other_paths_between_gpu_and_adapter(machine, near, stock):
    """NCCL's PHB: a path through a host bridge; SYS: between NUMA nodes. There is no switch: each is behind its root port."""
    found = paths_of(machine, stock)
    assert {kind: sorted(at for name, (_, at) in found.items() if name.startswith(kind)) for kind in near} == near
    assert all(len(path) == 2 for path, _ in found.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu: H100\ngpus: 64\nnics: 1\n", "64 GPUs share an adapter; a running fabric shows at most 12 for each"),
        ("hosts: {program_ns: 860}\n", "the machine has no key gpu"),
    ],
)
def test_a_machine_that_cannot_be_shown_is_refused(tmp_path, text, message):
    (tmp_path / "f.yaml").write_text(FABRIC)
    (tmp_path / "machine.yaml").write_text(text)
    with pytest.raises(softib.InputError, match=message):
        softib.Server(str(tmp_path / "f.yaml")).start(
            softib.load(tmp_path / "f.yaml"), machine=str(tmp_path / "machine.yaml")
        )
