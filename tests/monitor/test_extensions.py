"""Exporters of installed packages: docs/tutorial/exporter.md as it is written, and packages that are at fault.

Oracles: importlib.metadata's format of an installed distribution; InfluxDB's line protocol reference (measurement, tags, unsigned integer
fields, nanoseconds); errors that the hardware counted at the two ends of one cable.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from softib.errors import InputError, SoftibWarning, UnknownName
from softib.monitor.exporter import round_exporter
from softib.monitor.exporter.round_exporter import open_exporters
from softib.monitor.opening import Opened
from softib.monitor.perfmgr import Pace
from tests.monitor.lab import Wire, fabric_up, port_of
from tests.packages import install

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "exporter.md").read_text("utf-8")
LINE = re.compile(r"infiniband,guid=0x[0-9a-f]{16},port=\d+ (\w+=\d+u)(,\w+=\d+u)* \d{19}")
GROUP = "softib.exporters"
GOOD = """
from softib.monitor.exporter.round_exporter import RoundExporter
class E(RoundExporter):
    def export(self, ports, reading, interval):
        {body}
"""


def block(language: str) -> str:
    return re.search(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)[1]


def install_tutorial(folder: Path) -> None:
    project = tomllib.loads(block("toml"))["project"]
    install(folder, project["name"], GROUP, project["entry-points"][GROUP], "influx_lines", block("python"))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that Python finds packages in."""
    monkeypatch.syspath_prepend(str(tmp_path))
    round_exporter.exporters.cache_clear()
    for module in ("influx_lines", "bad_mod"):
        sys.modules.pop(module, None)
    yield tmp_path
    round_exporter.exporters.cache_clear()


@pytest.fixture
def served():
    """A function that starts a service on a fabric in this process: (service, fabric, notices)."""
    from softib.monitor.exporter.service import ExporterService

    services = []

    def begin(*to: str):
        fabric, notices = fabric_up(), []
        services.append(
            ExporterService(
                Opened(Wire(fabric), "lab", None, lambda: None),
                port=0,
                pace=Pace(timeout_ps=5 * 10**9),
                notice=notices.append,
            )
        )
        services[-1].sinks += open_exporters("lab", to)
        return services[-1], fabric, notices

    yield begin
    for service in services:
        service.close()


def test_the_tutorial_runs_as_it_is_written(tmp_path, softib):
    install_tutorial(tmp_path)
    softib.env["PYTHONPATH"] += f":{tmp_path}"
    up, good, misspelt, down = (line.split()[1:] for line in block("sh").splitlines())
    up[up.index("examples/small.yaml")] = str(Path(__file__).resolve().parents[2] / "examples/small.yaml")
    softib(*up)
    metrics = softib(*good)
    assert 'softib_ports{read="no"} 0.0' in metrics
    lines = (softib.folder / "rounds.txt").read_text().splitlines()
    ports = int(float(re.search(r'softib_ports\{read="yes"\} (\S+)', metrics)[1]))
    assert len(lines) == ports and all(LINE.fullmatch(line) for line in lines), "one line a port"
    assert "no exporter named 'inflx'; did you mean influx?" in softib(*misspelt, code=2)
    softib(*down)


def test_the_rows_of_a_round_are_the_ports_that_counted(site, served, tmp_path):
    install_tutorial(site)
    service, fabric, notices = served(f"influx={tmp_path / 'rounds.txt'}")
    host = port_of(fabric, "host-0007", 1)
    counted = {host: 3, int(fabric.port_peer[host]): 11}
    service.step()
    for port, n in counted.items():
        fabric.counters["symbol_error_counter"][port] += n
    service.step()
    lines = (tmp_path / "rounds.txt").read_text()
    rose = re.findall(r"guid=(\w+),port=(\d+) .*\bsymbol_error_counter=([1-9]\d*)u", lines)
    assert {(int(guid, 16), int(number), int(n)) for guid, number, n in rose} == {
        (int(fabric.node_guid[fabric.port_node[port]]), int(fabric.port_num[port]), n) for port, n in counted.items()
    }
    assert not notices


@pytest.mark.parametrize(
    ("text", "entry", "reason"),
    [
        ("import nothing_of_this_name", "e", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise SystemExit('bye')", "e", "SystemExit: bye"),
        ("E = 3", "e", "the entry point is not a subclass of softib.monitor.exporter.round_exporter.RoundExporter"),
        (
            GOOD.format(body="pass").replace("export(", "other("),
            "e",
            "it has no method export(ports, reading, interval)",
        ),
        (GOOD.format(body="pass"), "history", "softib has a round exporter of this name"),
    ],
)
def test_a_package_at_fault_costs_one_line_and_the_rest_goes_on(site, tmp_path, text, entry, reason):
    install(site, "bad-pkg", GROUP, {entry: "bad_mod:E"}, "bad_mod", text)
    install_tutorial(site)
    with pytest.warns(SoftibWarning) as warnings:
        (sink,) = open_exporters("lab", [f"influx={tmp_path / 'rounds.txt'}"])
    sink.close()
    lines = [str(w.message) for w in warnings if w.category is SoftibWarning]
    assert len(lines) == 1 and lines[0].startswith(f"package bad-pkg: round exporter {entry} is left out: ")
    assert reason in lines[0] and "\n" not in lines[0]


@pytest.mark.parametrize(
    ("to", "kind", "reason"),
    [
        ("influx", InputError, "'influx' does not name an exporter and a target; use NAME=TARGET"),
        ("inflx=x", UnknownName, "no exporter named 'inflx'; did you mean influx?"),
        ("influx=/nowhere/x", InputError, "/nowhere/x: No such file or directory; name a file to write lines to"),
    ],
)
def test_an_exporter_that_cannot_be_opened_is_one_line(site, to, kind, reason):
    install_tutorial(site)
    with pytest.raises(kind, match=re.escape(reason)):
        open_exporters("lab", [to])


@pytest.mark.parametrize("option", ["--to=influx=x", "--history=x", "--expect=x"])
def test_files_have_no_rounds(softib, option):
    if option.startswith("--expect"):
        (softib.folder / "x").touch()
    said = softib("exporter", "one.yaml", "--once", option, code=2)
    assert f"{option.split('=')[0]} needs rounds of a running fabric or umad:DEVICE; files have none" in said


def test_without_packages_the_message_names_the_tutorial(site):
    with pytest.raises(InputError, match="no installed package declares one"):
        open_exporters("lab", ["influx=x"])


@pytest.mark.parametrize("body", ["1 / 0", "raise SystemExit(3)"])
def test_an_exporter_that_fails_costs_one_line_until_it_works_again(site, served, body):
    text = GOOD.format(body=f"self.n = getattr(self, 'n', 0) + 1\n        if self.n != 3: {body}")
    install(site, "raising-pkg", GROUP, {"e": "bad_mod:E"}, "bad_mod", text)
    service, _, notices = served("e=x")
    for lines in (1, 1, 1, 2, 2):  # it takes the third round
        service.step()
        assert len(notices) == lines, notices
    assert notices[0].startswith("package raising-pkg: round exporter e failed: ")
    assert notices[0].endswith("; metrics are still served, these rounds are not exported") and "\n" not in notices[0]
    assert b"softib_up 1.0" in b"".join(service.metrics())
