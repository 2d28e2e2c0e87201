"""A fabric that runs, from Python: programs, faults, counters. Oracles: stock ibstat and perfquery."""

from __future__ import annotations

import subprocess

import pytest

import softib
from tests.scratch import scratch

pytest.importorskip("polars")


@pytest.fixture(scope="module")
def fabric():
    patch = pytest.MonkeyPatch()
    folder = scratch("sa-")
    folder.chmod(0o700)
    patch.setenv("XDG_RUNTIME_DIR", str(folder))
    with softib.up(softib.generate("fat-tree", radix=4, levels=2), name="api") as f:
        yield f
    assert not list(folder.rglob("control")), "down leaves no socket"
    patch.undo()


def test_it_is_up(fabric):
    now = fabric.snapshot()
    assert now.format == "running"
    assert now.ports.filter(state="ACTIVE").height == 2 * 16 + 6, "and port 0 of switches"
    assert fabric.status().sm.state == "MASTER"
    assert softib.verify(now).good


@pytest.mark.stock
def test_programs_see_their_host(fabric, stock):
    assert fabric.run("host-0003", [stock("ibstat"), "-l"]).stdout.strip() == "mlx5_0"


@pytest.mark.stock
def test_counters_are_what_perfquery_prints(fabric, stock):
    lid = fabric.snapshot().ports.filter(node="leaf-1", port=0)["lid"][0]
    printed = fabric.run("host-0001", [stock("perfquery"), "-x", str(lid), "3"]).stdout
    sent = int(next(line for line in printed.splitlines() if line.startswith("PortXmitPkts:")).split(".")[-1])
    after = fabric.counters().filter(node="leaf-1", port=3)["port_xmit_pkts"][0]
    assert sent <= after <= sent + 50 and sent > 0  # the manager goes on sweeping


def test_a_fault_is_planted_and_cleared(fabric):
    with fabric_without(fabric, "leaf-1[3]"):
        assert fabric.snapshot().cables == 15
        assert softib.diff(softib.generate("fat-tree", radix=4, levels=2), fabric.snapshot()).of_kind("cable-removed")
    assert fabric.snapshot().cables == 16


def test_its_documents_are_what_their_schemas_say(fabric):
    pytest.importorskip("jsonschema")
    from tests.cli.documents import check
    from tests.cli.run import softib as command

    status = check("status", command("status", "--json").json())
    assert [one["name"] for one in status["fabrics"]] == ["api"] and status["fabrics"][0][
        "version"
    ] == softib.__version__
    check("sm", command("sm", "sweep", "--json").json())
    orders = (
        "link-down leaf-1[3]",
        "link-up leaf-1[3]",
        "ber leaf-1[3] 1e-9",
        "switch-down spine-1",
        "switch-up spine-1",
        "flap leaf-1[3]",
        "sys-guid leaf-2 --guid 0x1234",
        "list",
        "clear",
    )
    for order in orders:
        check("fault", command("fault", *order.split(), "--json").json())


def test_another_version_is_refused_with_both_named(fabric, monkeypatch):
    """A daemon of one version and a command of another would misread each other's arrays; only ``down`` is for both."""
    from softib.live import control as client

    monkeypatch.setattr(client, "VERSION", "9.9.9")
    for call in (
        fabric.status,
        fabric.snapshot,
        fabric.nodes,
        lambda: fabric.fault("list"),
        lambda: fabric.call(["true"]),
    ):
        with pytest.raises(softib.InputError) as refused:
            call()
        assert (
            softib.__version__ in str(refused.value)
            and "9.9.9" in str(refused.value)
            and "softib down" in str(refused.value)
        )
    other = softib.up(softib.generate("ring", switches=3), name="other", sm="none")
    other.down()
    assert [f.name for f in softib.running_fabrics()] == ["api"]


def test_nodes_by_prefix_and_type(fabric):
    assert fabric.nodes("spine") == ["spine-1", "spine-2"]
    assert len(fabric.nodes()) == 14 and len(fabric.nodes(type="ca")) == 8
    with pytest.raises(softib.UnknownName, match="switch"):
        fabric.nodes(type="switches")


def test_a_shell_completes_what_runs(fabric, monkeypatch):
    from tests.cli.shared.completing import completed

    assert completed(monkeypatch, "down", "") == ["plain,api"]
    assert completed(monkeypatch, "check", "a")[0] == "plain,api"
    assert completed(monkeypatch, "run", "--node", "spine") == ["plain,spine-1", "plain,spine-2"]
    assert completed(monkeypatch, "run", "--fabric", "nosuch", "--node", "spine") == []
    assert "plain,host-0001,host-0002" in completed(monkeypatch, "run", "--node", "host-0001,host")
    assert completed(monkeypatch, "fault", "link-down", "leaf-2") == ["plain,leaf-2"]


def test_options_of_up_are_keywords(fabric):
    with pytest.raises(softib.InputError, match=r"no option --lmcc; did you mean --lmc"):
        softib.up(softib.generate("ring", switches=3), name="two", lmcc=1)
    with pytest.raises(softib.InputError, match="--lmc: 9 is out of range"):
        softib.up(softib.generate("ring", switches=3), name="two", lmc=9)
    noted = []
    with softib.up(
        softib.generate("ring", switches=3), name="two", engine="updn", lmc=1, sweep=0, notice=noted.append
    ) as two:
        assert two.status().sm.engine == "updn"
        assert softib.check(two).good, "a running fabric is a source"
        assert two.snapshot().ports.filter(lmc=1).height and two.sweep().sweeps >= 2
    assert any("ready in" in line for line in noted)


class fabric_without:
    def __init__(self, fabric: softib.RunningFabric, port: str):
        self.fabric, self.port = fabric, port

    def __enter__(self) -> None:
        self.fabric.fault("link-down", self.port)

    def __exit__(self, *_: object) -> None:
        self.fabric.fault("link-up", self.port)


def test_wrong_names_are_one_line(fabric):
    with pytest.raises(softib.InputError, match="host-0001"):
        fabric.run("host-001", ["true"])
    with pytest.raises(softib.InputError):
        fabric.run("host-0001", ["no-such-program"])
    with pytest.raises(softib.InputError, match="a list of texts"):
        fabric.run("host-0001", "ibstat -l")
    with pytest.raises(softib.SoftibError):
        fabric.fault("link-down", "leaf-9[1]")
    with pytest.raises(softib.InputError, match="is already running"):
        softib.up(softib.generate("fat-tree", radix=4, levels=2), name="api")
    with pytest.raises(subprocess.CalledProcessError):
        fabric.run("host-0001", ["false"])
