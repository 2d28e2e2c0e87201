"""A comparison of networks: each row is what a fabric made of such links gives, and what cannot run
says why."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import softib
from softib.errors import InputError, UnknownName
from softib.fabric.generation import at_generation, main_generation
from softib.fabric.plugging import supported_speed_codes
from softib.fabric.power_up import active_speed_codes
from softib.iba.rates import SPEED_BY_NAME
from softib.iba.smp import PortInfo


def tree(generation: str = "EDR", **more):
    return softib.generate("fat-tree", radix=4, levels=2, generation=generation, **more)


@pytest.fixture(scope="module")
def compared():
    return softib.compare(tree(), "shift:256KiB,k=2", networks=["hdr", "XDR", "EDR", "tcp"])


@pytest.mark.parametrize("name", ["HDR", "XDR"])
@pytest.mark.parametrize("layer", ["fluid", "packet"])
def test_a_generation_is_the_fabric_that_is_built_of_it(name, layer):
    """The oracle is the generator, which makes the same tree of that generation from nothing."""
    found = softib.compare(tree(), "shift:256KiB,k=2", networks=[name], layer=layer)
    built = softib.simulate(tree(name), "shift:256KiB,k=2", layer=layer)
    assert (
        found.runs[name].simulated_us == built.simulated_us and found.runs[name].percentiles_us == built.percentiles_us
    )


def test_links_that_differ_stay_as_many_generations_apart():
    fabric = softib.load("examples/small.yaml")._result.fabric
    mixed = fabric.copy()
    slow = [int(p) for p in range(mixed.sizes.ports) if mixed.port_peer[p] >= 0][:1]
    slow.append(int(mixed.port_peer[slow[0]]))
    PortInfo.link_speed_ext_active.set(mixed.port_info, 1, slow)  # FDR
    made = at_generation(mixed, "NDR")
    codes = active_speed_codes(made.port_info, made.port_mlnx_speed)
    assert {int(c) for c in codes[slow]} == {SPEED_BY_NAME["HDR"].code}
    others = [p for p in range(made.sizes.ports) if made.linked[p] and p not in slow]
    assert {int(c) for c in codes[others]} == {SPEED_BY_NAME["NDR"].code}
    back = at_generation(made, "EDR")
    assert (back.port_info == mixed.port_info).all() and (back.port_mlnx_speed == mixed.port_mlnx_speed).all()
    assert main_generation(back) == "EDR" and set(supported_speed_codes(made, others)) == {SPEED_BY_NAME["NDR"].code}


def test_the_fabric_as_it_is_stands_first_and_once(compared):
    rows = compared.rows()
    assert [r["network"] for r in rows] == ["EDR", "HDR", "XDR", "tcp"] and rows[0]["ratio"] == 1.0
    assert rows[1]["gbps"] == 200 and rows[3]["gbps"] == 100
    assert 0.49 < rows[1]["ratio"] < 0.62 and rows[2]["ratio"] < rows[1]["ratio"]


def test_a_newer_generation_that_is_slower_has_its_cause():
    """Small messages wait for switches and adapters; what is said is what the run took
    (iba.catalogue)."""
    found = softib.compare(tree(), "all-to-all:256", networks=["HDR", "NDR"], layer="fluid")
    took = {name: run.simulated_us for name, run in found.runs.items()}
    assert took["EDR"] < took["HDR"] < took["NDR"]
    assert (
        found.notes[0].startswith("HDR, NDR slower than EDR here")
        and "90, 130, 200 ns (EDR, HDR, NDR)" in found.notes[0]
    )


def test_a_newer_generation_that_is_faster_needs_none(compared):
    assert not any("slower" in note for note in compared.notes)


def test_processors_work_as_the_stack_and_the_work_requests_say(compared):
    """TCP: what the packet layer counted (8 and 22.5 us a message, 89 and 42 Gb/s); verbs: 169 ns
    of the sender of a WRITE (its post_ns)."""
    rows = {r["network"]: r for r in compared.rows()}
    run = compared.runs["tcp"]
    each_us = 8 + 22.5 + (1 << 18) * 8e-3 * (1 / 89 + 1 / 42)
    assert rows["tcp"]["cpu_share"] == pytest.approx(each_us / run.simulated_us, rel=0.01)
    assert rows["EDR"]["cpu_share"] == pytest.approx(0.169 / compared.base.simulated_us)
    assert rows["EDR"]["cpu_share_most"] == pytest.approx(rows["EDR"]["cpu_share"])


def test_what_one_network_cannot_run_is_in_its_row():
    found = softib.compare(tree(), "shift:64KiB", networks=["HDR", "roce"], layer="fluid")
    rows = found.rows()
    assert rows[1]["completion_us"] and rows[2]["completion_us"] is None and "use layer packet" in rows[2]["why"]
    assert found.good


def test_half_the_price_is_not_made_up(compared):
    assert compared.to_json()["half_price"] is None and any("cost book" in note for note in compared.notes)


def test_it_shows_itself_everywhere(compared, tmp_path, capsys):
    from tests.cli.documents import check

    pytest.importorskip("polars")
    check("compare", compared.to_json())
    assert compared.table().height == 4
    page = compared.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page
    assert page.count("<rect") == 4 and not re.search(r"https?://|<script|src=", page)
    table = ElementTree.fromstring(re.search(r"<table.*</table>", page, re.DOTALL)[0])
    rows = [[cell.text or "" for cell in row] for row in table.findall(".//tr") if row.get("class") != "why"]
    assert len(rows) == 1 + 4 and all(map(any, zip(*rows[1:], strict=True))), "no column is empty"
    bars = [e for e in ElementTree.fromstring(str(compared.plot())).iter() if e.get("class") == "bar"]
    times = [row["completion_us"] for row in compared.rows()]
    widths = [float(bar.get("width")) for bar in bars]
    assert widths == pytest.approx([max(widths) * t / max(times) for t in times], abs=0.1)
    compared.print()
    assert "TCP" in capsys.readouterr().out and "<table" in compared._repr_html_()


@pytest.mark.parametrize(
    ("networks", "said"),
    [
        (["HRD"], "did you mean HDR"),
        (["roce,pcf=off"], "did you mean pfc"),
        (["tcp,mtu=1"], "576 to 9216"),
        ([], ("are a list")),
        ("HDR", "must be a list of texts"),
    ],
)
def test_a_network_that_is_none_is_one_line(networks, said):
    with pytest.raises((InputError, UnknownName)) as error:
        softib.compare(tree(), "shift:1MB", networks=networks)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_barriers_have_no_messages_to_compare():
    with pytest.raises(InputError, match="leave out barrier"):
        softib.compare(tree(), "all-to-all:1KB,barrier=yes", networks=["HDR"], layer="fluid")


def test_cores_that_nothing_waits_for_are_said():
    """Eight bytes at an adapter's rate, 169 ns of a processor each: more than a core, which bounds
    no pattern but perftest's."""
    notes = lambda workload: [
        n for n in softib.compare(tree(), workload, networks=["NDR"]).notes if n.startswith("CPU share above one core")
    ]
    assert len(notes("permutation:8,count=200")) == 1
    assert notes("latency:8,iterations=20") == []


def test_the_latencies_by_generation_that_the_page_states():
    """The log of virtual time, "A newer generation is not faster": what its own command prints."""
    page = " ".join((Path(__file__).parents[3] / "docs/evidence/log/2026-11-virtual-time.md").read_text().split())
    runs = [
        softib.simulate(
            softib.generate("fat-tree", radix=36, levels=2, hosts=32, generation=g),
            "all-to-all:256,window=1",
            layer="packet",
        )
        for g in ("EDR", "HDR", "NDR", "XDR")
    ]
    median = [f"{run.percentiles_us['p50']:.2f}" for run in runs]
    whole = [f"{run.simulated_us:.0f}" for run in runs]
    assert "256 bytes take {} µs on EDR, {} on HDR, {} on NDR and {} on XDR".format(*median) in page
    assert "takes {}, {}, {} and {} µs".format(*whole) in page


def test_other_links_keep_the_gpus():
    """A fabric of EDR is assumed to have DGX-1, and HDR's has DGX A100: a comparison changes links, so both runs have the GPUs of the fabric as it is."""
    edr = softib.generate("rail-optimized", nodes=2, rails=4, radix=36, generation="EDR")
    compared = softib.compare(edr, "nccl-all-reduce:64MB", networks=["NDR"], layer="fluid")
    machines = [run.to_json()["jobs"][0]["nccl"]["machine"] for run in compared.runs.values()]
    assert len(machines) == 2 and all("V100" in machine for machine in machines)
    assert any("GPU nodes are dgx-1" in note for note in compared.notes)
    named = softib.compare(edr, "nccl-all-reduce:64MB,machine=dgx-1", networks=["NDR"], layer="fluid")
    assert [r.simulated_us for r in named.runs.values()] == [r.simulated_us for r in compared.runs.values()]
    changed = softib.simulate(edr, "nccl-all-reduce:64MB", what_if=["generation=HDR"], layer="fluid").to_json()
    assert "V100" in changed["what_if"]["jobs"][0]["nccl"]["machine"]
