"""Every fault that is planted in a host's files is named, with its place, and a host without one has none."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import softib
from softib.errors import InputError
from softib.host_facts.stack_facts import is_name, read_stack
from softib.host_facts.support_matrix import MatrixRow, read_matrix
from tests.host_facts.stack_tree import LIMITS, Host

GPU = "sys/bus/pci/devices/0000:18:00.0/"
A0 = "sys/class/infiniband/mlx5_0/"


def stack(tmp: Path, *hosts: Host, **options) -> softib.Stack:
    return softib.stack([host.folder(tmp) for host in hosts], **options)


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> list[Path]:
    """Folders of two hosts without a fault."""
    tmp = tmp_path_factory.mktemp("clean")
    return [Host("n1").folder(tmp), Host("n2").folder(tmp)]


def named(result: softib.Stack) -> set[tuple[str, str, str]]:
    return {(f.host, f.check, f.where) for f in result.faults}


def test_hosts_without_a_fault(tmp_path):
    result = stack(tmp_path, Host("n1"), Host("n2"), Host("n3"))
    assert result.good and result.faults == []
    assert result.lines() == ["3 hosts, 6 adapters: as expected"]
    values = {(s.name, s.where): s.value for s in result.hosts[0].settings}
    assert values["ofed", ""] == "MLNX_OFED_LINUX-24.10-0.7.0.0" and values["nccl", ""] == "2.21.5"
    assert values["ucx", ""] == "1.17.0" and values["open-mpi", ""] == "5.0.5" and values["huge-pages", ""] == "2048"
    assert values["mlxconfig SRIOV_EN", "mlx5_1"] == "True(1)" and values["max-read-request", "mlx5_0"] == "4096"
    assert values["iommu", ""] == "passthrough" and values["acs", ""] == "off" and values["mtu", "mlx5_0/1"] == "4096"


PLANTED = {
    "PCIe below the card's": (lambda h: h.write(A0 + "device/current_link_width", "8"), ("pcie", "mlx5_0")),
    "PCIe slower than the card": (
        lambda h: h.write(A0 + "device/current_link_speed", "16.0 GT/s PCIe"),
        ("pcie", "mlx5_0"),
    ),
    "access control redirects": (lambda h: h.lspci(acs="+"), ("acs", "0000:15:01.0")),
    "the IOMMU translates": (lambda h: h.write(A0 + "device/iommu_group/type", "DMA-FQ"), ("iommu", "")),
    "the IOMMU translates for a GPU": (lambda h: h.write(GPU + "iommu_group/type", "DMA"), ("iommu", "")),
    "a small MTU": (lambda h: h.devinfo("2048 (4)"), ("mtu", "mlx5_0/1")),
    "no relaxed ordering": (lambda h: h.lspci(relaxed="-"), ("relaxed-ordering", "mlx5_0")),
    "little locked memory": (
        lambda h: h.write("proc/self/limits", LIMITS.format(locked="67108864")),
        ("locked-memory", ""),
    ),
    "an adapter without a NUMA node": (lambda h: h.write(A0 + "device/numa_node", "-1"), ("numa", "mlx5_0")),
    "a GPU far from each adapter": (
        lambda h: h.write("sys/class/infiniband/mlx5_1/device/numa_node", "0"),
        ("numa", "0000:b8:00.0"),
    ),
    "a virtual function without a GUID": (
        lambda h: h.write(A0 + "device/sriov/0/node", "00:00:00:00:00:00:00:00"),
        ("vf-guid", "mlx5_0 VF 0"),
    ),
    "a virtual function without a P_Key": (lambda h: h.virtual_function("0x0000"), ("vf-pkey", "mlx5_2/1")),
    "old firmware": (lambda h: h.write(A0 + "fw_ver", "28.34.4000"), ("firmware", "mlx5_0")),
}
MIXED = {
    "firmware": (lambda h: h.write(A0 + "fw_ver", "28.43.1014"), ("mixed-firmware", "mlx5_0")),
    "kernel": (lambda h: h.write("proc/sys/kernel/osrelease", "6.8.0"), ("mixed-kernel", "")),
    "OFED": (lambda h: h.write("commands/ofed_info", "MLNX_OFED_LINUX-23.10-1.1.9.0:"), ("mixed-ofed", "")),
    "driver": (lambda h: h.write("sys/module/mlx5_core/version", "23.10-1.1.9"), ("mixed-mlx5-core-driver", "")),
    "NCCL": (lambda h: h.write("commands/libraries", "/opt/nccl/lib/libnccl.so.2.19.3"), ("mixed-nccl", "")),
    "UCX": (lambda h: h.write("commands/ucx_info", "# Library version: 1.15.0"), ("mixed-ucx", "")),
    "MPI": (lambda h: h.write("commands/ompi_info", "Open MPI v4.1.4"), ("mixed-open-mpi", "")),
    "a setting": (
        lambda h: h.write("commands/env", "NCCL_IB_HCA=mlx5\nNCCL_IB_GID_INDEX=0"),
        ("mixed-nccl-ib-gid-index", "environment"),
    ),
    "huge pages": (
        lambda h: h.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0"),
        ("mixed-huge-pages", ""),
    ),
    "virtual functions": (lambda h: h.write(A0 + "device/sriov_numvfs", "0"), ("mixed-virtual-functions", "mlx5_0")),
    "firmware's settings": (
        lambda h: h.write(
            "commands/mlxconfig-0000:17:00.0", "\n        SRIOV_EN                                    False(0)\n"
        ),
        ("mixed-mlxconfig-sriov-en", "mlx5_0"),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_named(tmp_path, clean, name):
    plant, (check, where) = PLANTED[name]
    bad = Host("bad")
    plant(bad)
    folder = bad.folder(tmp_path)
    result = softib.stack([clean[0], folder, clean[1]])
    assert ("bad", check, where) in named(result) and not result.good
    assert {f.host for f in result.faults} == {"bad"}
    assert {f.check.removeprefix("mixed-") for f in result.faults} == {check}
    assert all(f.source for f in result.faults)
    assert ("bad", check, where) in named(softib.stack([folder])), "without other hosts to compare with, too"


@pytest.mark.parametrize("name", MIXED)
def test_a_host_that_differs_is_named(tmp_path, clean, name):
    plant, (check, where) = MIXED[name]
    bad = Host("bad")
    plant(bad)
    result = softib.stack([clean[0], bad.folder(tmp_path), clean[1]])
    assert named(result) == {("bad", check, where)}


def test_two_hosts_that_differ_have_no_expected_value(tmp_path, clean):
    other = Host("other")
    other.write("proc/sys/kernel/osrelease", "6.8.0")
    result = softib.stack([clean[0], other.folder(tmp_path)])
    assert len(result.faults) == 2 and {f.check for f in result.faults} == {"mixed-kernel"}
    assert {f.expected for f in result.faults} == {"one value; 2 hosts have 5.15.0-105-generic (1), 6.8.0 (1)"}


@pytest.mark.parametrize("olds", [1, 3])
def test_no_host_is_told_to_have_a_refused_value(tmp_path, clean, olds):
    """Old firmware and a slow PCIe link, refused by the matrix and the card, on one of two hosts and on most of them."""
    folders = []
    for n in range(olds):
        old = Host(f"old{n}")
        for name in ("old firmware", "PCIe slower than the card"):
            PLANTED[name][0](old)
        folders.append(old.folder(tmp_path))
    result = softib.stack([clean[0], *folders])
    assert {f.host for f in result.faults} == {f"old{n}" for n in range(olds)}, "the good host has no fault"
    for check in ("firmware", "pcie"):
        refused = {f.value for f in result.faults if f.check == check}
        mixed = [f for f in result.faults if f.check == f"mixed-{check}"]
        assert refused and mixed and not any(f.expected.startswith(tuple(refused)) for f in mixed)


def test_a_row_is_removed_with_its_kind_or_all_of_the_fact(tmp_path):
    from softib.host_facts.support_matrix import read_matrix

    site = tmp_path / "site.toml"
    kinds = lambda: {r.kind for r in read_matrix(site) if r.fact == "firmware"}
    site.write_text("")
    every = kinds()
    assert len(every) > 2
    site.write_text('[[row]]\nfact = "firmware"\nkind = "MT4119"\nremove = true\n')
    assert kinds() == every - {"MT4119"}
    site.write_text('[[row]]\nfact = "firmware"\nremove = true\n')
    assert kinds() == set()
    for row in ('fact = "firmware"\nkind = "MT9"', 'fact = "mpich"'):
        site.write_text(f"[[row]]\n{row}\nremove = true\n")
        with pytest.raises(InputError, match=r"row 1: no row of '(firmware|mpich)'.* to remove"):
            read_matrix(site)


def test_a_site_extends_the_matrix(tmp_path):
    site = tmp_path / "site.toml"
    site.write_text(
        '[[row]]\nfact = "locked-memory"\nminimum = "65536"\nsource = "our jobs"\n'
        '[[row]]\nfact = "virtual-functions"\nkind = "MT4129"\nminimum = "8"\nsource = "our pods"\n'
        '[[row]]\nfact = "mpich"\nequals = "2.9"\nrequired = true\nsource = "our images"\n'
        '[[row]]\nfact = "firmware"\nkind = "MT4129"\nremove = true\n'
    )
    host = Host("n1")
    host.write("proc/self/limits", LIMITS.format(locked="67108864"))
    for n in (0, 1):
        host.write(f"sys/class/infiniband/mlx5_{n}/fw_ver", "28.30.0")
    result = stack(tmp_path, host, matrix=site)
    faults = {(f.check, f.where): (f.value, f.expected, f.source) for f in result.faults}
    assert faults == {
        ("virtual-functions", "mlx5_0"): ("1", "8 or more", "our pods"),
        ("virtual-functions", "mlx5_1"): ("1", "8 or more", "our pods"),
        ("mpich", ""): ("unknown", "2.9", "our images"),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[row]\n", "site.toml"),
        ("rows = 1\n", "tables only"),
        ('[[row]]\nfact = "os"\n', "row 1: use one of minimum"),
        ('[[row]]\nfact = "os"\nminimum = 3\n', "minimum: use a text"),
        ('[[row]]\nfact = "firmwares"\nminimum = "3"\n', "row 1: no fact named 'firmwares'; did you mean firmware?"),
        ('[[row]]\nfact = "doca"\nremove = true\n', "no fact named 'doca'; known: os, kernel, ofed, mlx5_core driver"),
        ('[[row]]\nfact = "os"\nequals = "x"\nwhen = {gpus = "1"}\n', "no fact named 'gpus'; did you mean gpu"),
        ('[[row]]\nfcat = "x"\n', "unknown key 'fcat'"),
        ('[[row]]\nequals = "x"\n', "add the fact"),
        ('[[row]]\nfact = "os"\nequals = "1"\nwhen = {gpu = 1}\n', "when: strings"),
    ],
)
def test_a_wrong_matrix_is_one_line(tmp_path, text, problem):
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(InputError) as error:
        read_matrix(tmp_path / "site.toml")
    assert problem in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "met"), [("28.39.1002", True), ("28.35.2000", True), ("28.9.9999", False), ("", False), ("new", False)]
)
def test_versions_are_compared_by_their_numbers(value, met):
    assert MatrixRow("firmware", minimum="28.35.2000").met(value) is met


def test_a_row_can_name_each_fact_of_a_host(tmp_path):
    host = Host("n1")
    host.lspci(acs="+")
    names = {f.name for f in read_stack(host.folder(tmp_path)).settings}
    assert len(names) > 20 and all(map(is_name, names))
    assert any(n.isupper() for n in names) and any(n.startswith("mlxconfig ") for n in names)


def test_every_row_has_a_source():
    assert all(row.source for row in read_matrix())


def test_an_archive_is_its_folder(tmp_path):
    host = Host("n1")
    host.lspci(acs="+")
    folder, archive = stack(tmp_path, host), softib.stack([host.archive(tmp_path)])
    assert (
        [(f.check, f.where) for f in archive.faults]
        == [(f.check, f.where) for f in folder.faults]
        == [("acs", "0000:15:01.0")]
    )


def test_hosts_of_one_name_have_their_source_in_it(tmp_path):
    good, bad = Host("node"), Host("node")
    bad.lspci(acs="+")
    paths = [good.folder(tmp_path / "a"), bad.folder(tmp_path / "b")]
    assert {f.host for f in softib.stack(paths).faults} == {f"node ({paths[1]})"}


def test_a_hostile_archive_writes_nothing_outside(tmp_path):
    path = tmp_path / "bad.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("../escaped", "/tmp/softib-escaped", "proc/../../escaped"):
            info = tarfile.TarInfo(name)
            info.size = 4
            archive.addfile(info, io.BytesIO(b"oops"))
        link = tarfile.TarInfo("proc/self")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
        info = tarfile.TarInfo("proc/self/limits")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"oops"))
    with pytest.raises(InputError):
        softib.stack([path])
    assert sorted(os.listdir(tmp_path)) == ["bad.tgz"] and not Path("/tmp/softib-escaped").exists()
    for content in (b"", b"no archive", b"\x1f\x8b" + bytes(40)):
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            softib.stack([path])
        assert "\n" not in str(error.value) and "bad.tgz" in str(error.value)


def test_this_host_in_a_second(monkeypatch):
    """The collector's own archive, of a shell; this machine's kernel is what uname(1) prints."""
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    result = softib.stack()
    (host,) = result.hosts
    kernel = subprocess.run(["uname", "-r"], capture_output=True, text=True).stdout.strip()
    assert (
        host.values("kernel") == [kernel]
        and host.values("NCCL_DEBUG") == ["WARN"]
        and len(host.values("huge-pages")) == 1
    )
    assert host.values("os") and result.unreached == []
    if shutil.which("ucx_info"):
        printed = subprocess.run(["ucx_info", "-v"], capture_output=True, text=True).stdout
        assert host.values("ucx")[0] in printed


def test_a_host_that_does_not_answer(tmp_path, monkeypatch):
    ssh = tmp_path / "ssh"
    ssh.write_text(
        "#!/bin/sh\nfor last; do :; done\ncase \"$*\" in *good*) exec sh -s;; esac\necho 'no route to host' >&2; exit 255\n"
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    result = softib.stack(ssh=["good", "off"])
    assert (
        [h.source for h in result.hosts] == ["good"]
        and result.unreached == ["off: no route to host"]
        and not result.good
    )
    with pytest.raises(InputError, match="not a host name"):
        softib.stack(ssh=["-oProxyCommand=evil"])
