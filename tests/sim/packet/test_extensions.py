"""Congestion controls of installed packages: docs/tutorial/congestion-control.md as it is written, and packages that are at fault.

Oracle: importlib.metadata's format of an installed distribution.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from softib.errors import InputError, SoftibWarning, UnknownName
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.congestion_control import congestion_control, congestion_controls
from softib.sim.packet.options import ETHERNET_NAMES, network_of
from tests.sim.packet.fabrics import star

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "tutorial" / "congestion-control.md").read_text("utf-8")
GROUP = "softib.congestion_control"


def block(language: str) -> str:
    return re.search(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)[1]


def install(folder: Path, package: str, entries: dict[str, str], module: str, text: str) -> None:
    """What pip leaves of a package: its module and its metadata."""
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{package.replace('-', '_')}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    lines = [f"{name} = {value}\n" for name, value in entries.items()]
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n" + "".join(lines))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that Python finds packages in."""
    monkeypatch.syspath_prepend(str(tmp_path))
    congestion_controls.cache_clear()
    yield tmp_path
    congestion_controls.cache_clear()


def test_the_tutorial_runs_as_it_is_written(tmp_path):
    project = tomllib.loads(block("toml"))["project"]
    install(tmp_path, project["name"], project["entry-points"][GROUP], "aimd_kernels", block("python"))
    env = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    ran = []
    for command in block("sh").splitlines():
        argv = [sys.executable, "-m", *command.split()]
        ran.append(subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=400))
    for done in ran[:2]:
        assert (
            done.returncode == 0 and "4 messages completed" in done.stdout and "congestion control aimd" in done.stdout
        ), done
    assert ran[0].stdout != ran[1].stdout, "the option counts"
    wrong = "no option of Ethernet with cc=aimd named 'decreaze'; did you mean decrease"
    assert ran[2].returncode == 2 and wrong in ran[2].stderr


@pytest.mark.parametrize(
    ("text", "entry", "reason"),
    [
        ("import nothing_of_this_name", "p", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise SystemExit('bye')", "p", "SystemExit: bye"),
        ("AIMD = 3", "p", "the entry point is not a softib.sim.packet.congestion_control.CongestionControl"),
        (block("python"), "other", "its name is 'aimd'; use the name of the entry point"),
        (block("python").replace('"aimd"', '"swift"'), "swift", "softib has a congestion control of this name"),
        (
            block("python").replace('Option("decrease"', 'Option("mtu"'),
            "aimd",
            "its option mtu is an option of Ethernet",
        ),
        (
            block("python").replace('{"packets": "start"}', '{"packets": "begin"}'),
            "aimd",
            "its first values name packets: begin",
        ),
        (
            block("python").replace('"decrease", 0.5', '"decrease", 5.0'),
            "aimd",
            "decrease=5.0: use a number that is from 0 to 0.9",
        ),
        (block("python").replace("window=window,", "window=len,"), "aimd", "its window is not a kernel"),
        (block("python").replace("@inner\ndef window", "def window"), "aimd", "its window is not a kernel"),
        (block("python").replace("(net, state, stream):", "(net, stream):"), "aimd", "use window(net, state, stream)"),
    ],
)
def test_a_package_at_fault_costs_one_line_and_the_rest_goes_on(site, text, entry, reason):
    install(site, "bad-pkg", {entry: "bad_kernels:AIMD"}, "bad_kernels", text)
    install(
        site, "aimd-control", {"good": "good_kernels:AIMD"}, "good_kernels", block("python").replace('"aimd"', '"good"')
    )
    for module in ("bad_kernels", "good_kernels"):
        sys.modules.pop(module, None)
    with pytest.warns(SoftibWarning) as warnings:
        names = list(congestion_controls())
    lines = [str(w.message) for w in warnings if w.category is SoftibWarning]
    assert len(lines) == 1 and "\n" not in lines[0], lines
    assert lines[0].startswith(f"package bad-pkg: congestion control {entry} is left out: ") and reason in lines[0]
    assert names == ["dcqcn", "swift", "spray", "none", "good"]
    assert congestion_control("good").package == "aimd-control"


@pytest.mark.slow  # half a minute of compiling
def test_kernels_that_do_not_compile_end_with_one_line(site, capfd):
    broken = block("python").replace(
        "    return state.cc[stream].packets\n", "    return state.cc[stream].no_such_column\n"
    )
    install(site, "aimd-control", {"aimd": "broken_kernels:AIMD"}, "broken_kernels", broken)
    with pytest.raises(InputError) as error:
        run(star(2), messages([0], [1], 10_000), PacketOptions(network="roce", ethernet={"cc": "aimd"}))
    assert str(error.value).startswith("package aimd-control: congestion control aimd failed: ")
    assert "no_such_column" in str(error.value) and len(str(error.value)) < 400
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        ("roce,cc=swft", "no congestion control named 'swft'; did you mean swift?"),
        ("roce,cc=quick", "known: dcqcn, swift, spray, none"),
        ("roce,cc=swift,hop=2", "did you mean hop_us"),
        ("roce,cnp_us=0", "cnp_us=0: use a number that is at least 0.001"),
        ("roce,cc=swift,cnp_us=5", "no option of Ethernet with cc=swift named 'cnp_us'"),
        ("roce,cc=swift,decrease=-1", "decrease=-1: use a number that is from 0 to 1"),
        ("roce,cc=swift,decrease=nan", "decrease=nan: use a number"),
        ("tcp,cc=swift", "cc is an option of roce"),
        ("roce,cc_options=1", "no option of Ethernet with cc=dcqcn named 'cc_options'"),
    ],
)
def test_what_is_wrong_with_an_option_is_one_line(network, reason):
    with pytest.raises((InputError, UnknownName)) as error:
        network_of(network)
    assert reason in str(error.value)


def test_softib_s_own_follow_the_rules_for_packages():
    for name, control in congestion_controls().items():
        assert control.name == name and not {o.name for o in control.options} & ETHERNET_NAMES
        assert all(column.unit and column.text for column in (*control.flow, *control.columns))
        assert set(control.first) <= {c.name for c in control.flow}
        assert control.kernels()
