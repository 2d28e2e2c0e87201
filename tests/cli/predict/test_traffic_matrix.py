"""``softib report --traffic``: the user's own matrix, against hand-made sums over links."""

from __future__ import annotations

import numpy as np
import pytest

from softib.analysis.endpoints import Endpoints
from softib.workloads.traffic_matrix import matrix_of, read_rows
from softib.workloads.units import size_of
from tests.cli.run import softib

TREE = "name: tree\ngeneration: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 2, hosts: 8}\n"
GBPS = 400.0


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Four leaves of two hosts, two spines."""
    path = tmp_path_factory.mktemp("tree") / "tree.yaml"
    path.write_text(TREE)
    return path


def traffic(tree, tmp_path, text: str) -> dict:
    (tmp_path / "m.csv").write_text(text)
    ran = softib("report", tree, "--traffic", tmp_path / "m.csv", "--json")
    assert ran.code == 0, ran.err
    return ran.json()["traffic"]


def test_bytes_and_times_of_links(tree, tmp_path):
    """Both hosts of a leaf send to one host: the ejection link carries both and decides, alone."""
    t = traffic(tree, tmp_path, "source,destination,bytes\nhost-0001,host-0008,1e9\nhost-0002,host-0008,3 GB\n")
    assert (t["entries"], t["flows"], t["bytes"], t["unrouted"]) == (2, 2, 4e9, 0)
    rate = t["busiest"][0]["gbps"]
    assert t["time_us"] == pytest.approx(4e9 * 8 / rate / 1e3, rel=1e-6) and t["relative"] == pytest.approx(1.0)
    assert sum(b["bytes"] for b in t["busiest"]) in (8e9,), "two links between switches on each way"


def test_links_between_switches_can_be_the_limit(tmp_path):
    """Three hosts of a leaf with one uplink: three times the time that their own links need."""
    source = tmp_path / "thin.net"
    rows = ['Switch 8 "A"', *(f'[{i}] "H{i}"[1]' for i in (1, 2, 3)), '[8] "B"[8]', "", 'Switch 8 "B"']
    rows += [*(f'[{i - 3}] "H{i}"[1]' for i in (4, 5, 6)), '[8] "A"[8]', ""]
    rows += [
        line for i in range(1, 7) for line in (f'Hca 1 "H{i}"', f'[1] "{"A" if i < 4 else "B"}"[{(i - 1) % 3 + 1}]', "")
    ]
    source.write_text("\n".join(rows))
    t = traffic(source, tmp_path, "".join(f"H{i},H{i + 3},1GB\n" for i in (1, 2, 3)))
    assert t["relative"] == pytest.approx(1 / 3)
    assert [(b["place"], b["bytes"]) for b in t["busiest"]] == [("A[8]", 3e9)]


def test_both_forms_are_the_same_matrix(tree, tmp_path):
    dense = traffic(tree, tmp_path, "from\\to;host-0001;host-0008\nhost-0002;1GiB;\nhost-0003;0;5\n")
    listed = traffic(tree, tmp_path, f"# mine\n\nhost-0002,host-0001,{1 << 30}\nhost-0003,host-0008,5\n")
    assert {**dense, "path": 0} == {**listed, "path": 0}


def ends(*names: str) -> Endpoints:
    return Endpoints(np.arange(len(names), dtype=np.int32), list(names), np.zeros(len(names), np.int32))


def columns(tmp_path, text: str, *names: str) -> list[tuple[int, int, float]]:
    (tmp_path / "m.csv").write_text(text)
    found = matrix_of("m.csv", read_rows(tmp_path / "m.csv"), ends(*names).name)
    return list(zip(*(c.tolist() for c in found.demand), strict=True))


RAILS = ("a mlx5_0", "a mlx5_1", "b mlx5_0", "b mlx5_1", "c")


def test_a_host_shares_its_bytes_among_its_rails(tmp_path):
    assert columns(tmp_path, "a,b,100\n", *RAILS) == [(0, 2, 50.0), (1, 3, 50.0)]
    assert columns(tmp_path, "a,c,100\nc,a,7\n", *RAILS) == [(0, 4, 50.0), (1, 4, 50.0), (4, 0, 7.0)]
    assert columns(tmp_path, "a mlx5_1\tb mlx5_0\t3\n", *RAILS) == [(1, 2, 3.0)]


@pytest.mark.parametrize(
    ("text", "octets"),
    [("0", 0), ("1e6", 1e6), ("1.5 GB", 1.5e9), ("2KiB", 2048), ("1Mi", 1 << 20), ("3b", 3), ("7k", 7000)],
)
def test_sizes(text, octets):
    assert size_of(text) == octets


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("", 0, "source,destination,bytes"),
        ("host-0001,host-0002\n", 1, "2 cells"),
        ("host-0001,host-0002,3,4\n", 1, "4 cells"),
        ("host-0001,host-0002,3\nhost-0001,host-2,3\n", 2, "did you mean host-0002"),
        ("source,destination,bytes\nhost-9,host-0001,3\n", 2, "no host 'host-9'"),
        ("host-0001,host-0002,-3\n", 1, "'-3'"),
        ("host-0001,host-0002,nan\n", 1, "'nan'"),
        ("host-0001,host-0002,1iB\n", 1, "'1iB'"),
        (",host-0001,host-2\nhost-0003,1,2\n", 1, "host-0002"),
        (",host-0001,host-0002\nhost-0003,1\n", 2, "2 cells"),
        (",host-0001,host-0002\n", 1, "without bytes"),
        ("\0\n", 0, "binary data"),
    ],
)
def test_mistakes_are_one_line_with_file_and_line(tree, tmp_path, text, line, hint):
    path = tmp_path / "m.csv"
    path.write_text(text)
    ran = softib("report", tree, "--traffic", path)
    assert ran.code == 2 and not ran.out
    said = ran.err.splitlines()[-1]
    assert f"{path}:{line}:" in said if line else str(path) in said
    assert hint in said and "Traceback" not in ran.err


def test_a_file_that_is_not_there_fails_before_the_work(tree, tmp_path):
    ran = softib("report", tree, "--traffic", tmp_path / "absent.csv")
    assert ran.code == 2 and len(ran.complaints) == 1


def test_people_and_pages_are_told(tree, tmp_path):
    (tmp_path / "m.csv").write_text("host-0001,host-0008,1e9\n")
    ran = softib("report", tree, "--traffic", tmp_path / "m.csv", "--html", tmp_path / "r.html")
    assert "Traffic of" in ran.out and "1 GB" in ran.out
    assert "Your traffic" in (tmp_path / "r.html").read_text()
