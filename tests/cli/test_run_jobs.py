"""Ranks on nodes, what libraries are told, and the line about silent HCAs, without a fabric that runs."""

from __future__ import annotations

import pytest

from softib.errors import InputError
from softib.fabric.node_finder import NodeFinder
from softib.fabric.topologies.registry import generate
from softib.live.launch.preload import find_program, search_path
from softib.live.launch.tuning import MARK, RANK_VARIABLES, HcaTraffic, JobRank, communicates, job_rank, tuned
from softib.live.operations import Ranks


@pytest.fixture(scope="module")
def ranks() -> Ranks:
    """Four nodes of two rails."""
    return Ranks(NodeFinder(generate("rail-optimized", nodes=4, rails=2, radix=8, ufm=False)))


@pytest.mark.parametrize(("rank", "size"), RANK_VARIABLES)
def test_every_launcher_is_heard(rank, size):
    assert job_rank({rank: "3", size: "8"}) == JobRank(3, 8)


def test_who_is_no_rank():
    assert job_rank({}) is None
    assert job_rank({"RANK": "1"}) is None, "a word for anything, where no WORLD_SIZE stands beside it"
    assert job_rank({"PMI_RANK": "x", "PMI_SIZE": "2"}) is None
    assert job_rank({"SLURM_PROCID": "1"}) == JobRank(1, 0)


def test_rank_r_sits_on_the_rth_host_and_not_on_the_rth_adapter(ranks):
    f = ranks.finder.fabric
    names = [f.node_name(ranks.of("", r)[1]).split()[0] for r in range(6)]
    assert names == ["node-001", "node-002", "node-003", "node-004", "node-001", "node-002"]
    assert ranks.of("", None) == ("", None)


def test_several_names_are_taken_in_turn(ranks):
    assert [ranks.of("node-003, node-001", r)[0] for r in range(3)] == ["node-003", "node-001", "node-003"]
    assert [ranks.of("node-003", r) for r in (None, 0, 5)] == [("node-003", None)] * 3
    with pytest.raises(InputError, match="mpirun"):
        ranks.of("node-001,node-002", None)
    with pytest.raises(InputError, match="between the commas is empty"):
        ranks.of("node-001,", 0)


def test_a_name_with_a_comma_is_a_name():
    fabric = generate("ring", switches=3)
    row = int(fabric.cas[0])
    fabric.node_desc[row] = 0
    fabric.node_desc[row, :8] = list(b"rack,one")
    assert Ranks(NodeFinder(fabric)).of("rack,one", None) == ("rack,one", None)


@pytest.fixture
def view(tmp_path):
    """The tree of a host with two adapters."""
    for device in ("mlx5_10", "mlx5_2"):
        counters = tmp_path / f"sys/class/infiniband/{device}/ports/1/counters"
        counters.mkdir(parents=True)
        for name in ("port_xmit_data", "port_rcv_data"):
            (counters / name).write_text("100\n")
    return tmp_path


def test_what_libraries_are_told(view):
    told = tuned(view, {})
    assert told["UCX_NET_DEVICES"] == "mlx5_2:1,mlx5_10:1" and "sm" not in told["UCX_TLS"].split(",")
    assert told["MPIR_CVAR_NOLOCAL"] == "1" and told["FI_PROVIDER"] == "verbs" and told["I_MPI_FABRICS"] == "ofi"
    assert all(told[f"OMPI_MCA_{kind}"][0] == "^" for kind in ("pml", "osc", "mtl")), "no component by its name"
    assert set(told[MARK].split()) == set(told) - {MARK}


def test_what_the_user_set_wins_and_takes_its_row(view):
    told = tuned(view, {"UCX_TLS": "tcp", "OMPI_MCA_osc": "rdma", "FI_PROVIDER": "tcp"})
    assert not {"UCX_TLS", "UCX_NET_DEVICES", "OMPI_MCA_osc", "FI_PROVIDER"} & set(told)
    assert "OMPI_MCA_pml" in told
    told = tuned(view, {"UCX_NET_DEVICES": "mlx5_2:1"})
    assert "UCX_TLS" in told and "UCX_NET_DEVICES" not in told


def test_a_run_inside_a_run_has_its_own_devices(view):
    outer = {**tuned(view, {"FI_PROVIDER": "tcp"}), "FI_PROVIDER": "tcp", "UCX_NET_DEVICES": "of the outer:1"}
    inner = tuned(view, outer)
    assert inner["UCX_NET_DEVICES"] == "mlx5_2:1,mlx5_10:1" and "FI_PROVIDER" not in inner


def test_who_communicates(tmp_path):
    linked, other = tmp_path / "bench", tmp_path / "tool"
    linked.write_bytes(b"\x7fELF...\0libucp.so.0\0libc.so.6\0")
    other.write_bytes(b"\x7fELF...\0libibverbs.so.1\0")
    pair = {"PMI_RANK": "0", "PMI_SIZE": "2"}
    assert communicates(linked, ["bench"], {}) and communicates(other, ["tool"], pair)
    assert communicates(tmp_path / "mpirun", ["mpirun", "-np", "2", "./x"], {})
    for path, words, env in (
        (other, ["tool"], {}),
        (linked, ["bench", "--help"], {}),
        (other, ["tool"], {**pair, "PMI_RANK": "1"}),
        (other, ["tool"], {**pair, "PMI_SIZE": "1"}),
        (tmp_path / "mpirun", ["mpirun", "softib", "run", "--", "x"], {}),
        (tmp_path / "absent", ["absent"], {}),
    ):
        assert not communicates(path, words, env), (path, words, env)
    linked.rename(tmp_path / "ucx_info")
    assert not communicates(tmp_path / "ucx_info", ["ucx_info", "-d"], {})


def test_the_line_says_why(view):
    def moved(octets: int, tune: bool = True, **env: str) -> str | None:
        readings = iter([(400, 0), (400 + octets, 0)])
        watch = HcaTraffic(lambda: next(readings))
        watch.begin()
        watch.end()
        return watch.line("host-1[1]", tune, env)

    assert moved(1 << 20) is None and moved(0, SOFTIB_QUIET="1") is None
    assert "moved no data over the HCAs" in moved(400), "a library's connections are no traffic of an application"
    assert "leave out --no-tuning" in moved(0, tune=False)
    assert "UCX_TLS" in moved(0, UCX_TLS="sm")
    outer = tuned(view, {})
    assert "your environment" not in moved(0, **outer), "a softib run around this one set these"
    assert "your environment sets FI_PROVIDER;" in moved(
        0, **{**tuned(view, {"FI_PROVIDER": "tcp"}), "FI_PROVIDER": "tcp"}
    )
    assert moved(0, PMI_RANK="0", PMI_SIZE="4").startswith("rank 0 of 4 on host-1[1]")


def test_sbin_is_searched_last(monkeypatch, tmp_path):
    """A plain user of Debian has no /usr/sbin in PATH, where opensm and ibnetdiscover are."""
    for folder in ("bin", "sbin"):
        (tmp_path / folder).mkdir()
        for name in ("both", folder):
            (tmp_path / folder / name).write_text("#!/bin/sh\n")
            (tmp_path / folder / name).chmod(0o755)
    monkeypatch.setattr("softib.live.launch.preload.SBIN", (str(tmp_path / "sbin"),))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_program("sbin") == str(tmp_path / "sbin/sbin") and find_program("both") == str(tmp_path / "bin/both")
    assert search_path() == f"{tmp_path}/bin:{tmp_path}/sbin"
    monkeypatch.setenv("PATH", search_path())
    assert search_path() == f"{tmp_path}/bin:{tmp_path}/sbin"
    with pytest.raises(InputError, match="no such program"):
        find_program("nowhere")
