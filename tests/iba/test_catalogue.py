"""The catalogue of devices. Oracles: the PCI ID list, NodeInfo of real fabrics, and the rule that every figure has a source."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from softib.errors import SoftibError
from softib.fabric.formats import registry
from softib.iba import catalogue
from softib.iba.catalogue import ADAPTER_OF, ADAPTERS, CABLES, ETHERNET_SWITCHES, PART_BY_ID, SWITCH_OF, SWITCHES
from softib.iba.constants import NodeType
from softib.iba.rates import SPEED_BY_NAME
from tests.docs.scripts import script

PCI_IDS = Path("/usr/share/misc/pci.ids")
PCI_VENDORS = {"NVIDIA": ("15b3",), "QLogic": ("1077", "1fc1")}


@pytest.mark.parametrize("part", (*ADAPTERS, *SWITCHES, *ETHERNET_SWITCHES, *CABLES), ids=lambda p: p.name)
def test_every_figure_has_a_source(part):
    assert all(source.strip() for source in part.sources.values())
    assert set(part.sources) | set(part.unknown) == set(part.FIGURES)


def test_every_generation_has_its_devices_and_every_device_id_one_part():
    assert set(ADAPTER_OF) == set(SWITCH_OF) == set(SPEED_BY_NAME)
    ids = Counter(number for part in (*ADAPTERS, *SWITCHES) for number in part.device_ids)
    assert set(ids.values()) == {1} and len(ids) == len(PART_BY_ID) >= 20
    assert {part.generation for part in (*ADAPTERS, *SWITCHES, *CABLES)} <= set(SPEED_BY_NAME)


@pytest.mark.skipif(not PCI_IDS.is_file(), reason="no PCI ID list; install pci.ids")
def test_adapters_are_those_of_the_pci_id_list():
    vendor, names = "", {}
    for line in PCI_IDS.read_text("utf-8", "replace").splitlines():
        if match := re.match(r"([0-9a-f]{4})  ", line):
            vendor = match[1]
        elif match := re.match(r"\t([0-9a-f]{4})  (.*)", line):
            names[vendor, int(match[1], 16)] = match[2].lower()
    for part in ADAPTERS:
        for number in part.device_ids:
            listed = [names[v, number] for v in PCI_VENDORS[part.vendor] if (v, number) in names]
            assert listed, f"{part.name}: {number:#06x} is not in the PCI ID list"
            family = re.match(r"\w+", part.name.lower())[0]
            assert family in listed[0] or part.name.lower().split("(")[-1].strip(")") in listed[0], (
                part.name,
                listed[0],
            )


def test_ports_are_those_that_real_devices_read(shared_data):
    """A switch chip shows its radix, twice as many where ports are split, and one more for its aggregation node."""
    seen = 0
    for path in sorted(p for p in shared_data.glob("*/*") if re.search(r"ibnetdiscover|\.lst$", p.name)):
        try:
            f = registry.read(path).fabric
        except SoftibError:
            continue
        stated = f.node_stated & 8 > 0
        rows = np.stack([f.device_id, f.node_type, f.node_nports], 1)[stated]
        for number, kind, ports in np.unique(rows, axis=0).tolist():
            part = PART_BY_ID.get(number)
            if part is None:
                continue
            seen += 1
            assert (part.kind == "switch") == (kind == NodeType.SWITCH), (path.name, part.name)
            if kind == NodeType.SWITCH:
                assert {ports, ports - 1} & {part.ports, 2 * part.ports}, (path.name, part.name, ports)
            else:
                assert ports <= part.ports, (path.name, part.name, ports)
    assert seen >= 10


def test_a_figure_without_a_source_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "__file__", str(tmp_path / "__init__.py"))
    for row in ("reach_m = 3.0", 'reach_m = ["x"]', 'reech_m = [3.0, "x"]'):
        (tmp_path / "cables.toml").write_text(f'[[part]]\nname = "a"\nmedium = "DAC"\ngeneration = "EDR"\n{row}\n')
        with pytest.raises(ValueError, match="a figure must be"):
            catalogue._rows(catalogue.Cable, "cables.toml")


def test_no_other_file_is_a_table_of_devices():
    """A product's name in a table of numbers outside the catalogue: in Python a name and a number in one literal, in data
    files a name and a figure in one line. A price book has prices of products, and sources name them."""
    root = Path(__file__).resolve().parents[2] / "src/softib"
    names = {name for part in (*ADAPTERS, *SWITCHES) for name in (part.name, *getattr(part, "systems", ()))}
    orders = {part for cable in CABLES for part in cable.orders.values()}
    wrong = []
    for path in (p for p in root.rglob("*") if p.suffix in (".py", ".toml", ".yaml", ".h")):
        if "iba/catalogue" in path.as_posix() or path.name == "prices.yaml":
            continue
        text = path.read_text("utf-8")
        if path.suffix == ".py":
            literals = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Dict | ast.Tuple | ast.List)]
            for literal in literals:
                values = [n.value for n in ast.walk(literal) if isinstance(n, ast.Constant)]
                if any(v in names | orders for v in values if isinstance(v, str)) and any(
                    type(v) in (int, float) for v in values
                ):
                    wrong.append(f"{path.relative_to(root)}:{literal.lineno}")
        else:
            wrong += [
                f"{path.relative_to(root)}:{number}"
                for number, line in enumerate(text.splitlines(), 1)
                if re.search(r"[=:,{]\s*[\d.]+", line) and any(f'"{n}"' in line for n in names | orders)
            ]
    assert not wrong


def test_at_least_twenty_devices_and_their_unknown_figures_are_counted():
    devices = (*ADAPTERS, *SWITCHES, *ETHERNET_SWITCHES)
    assert len(devices) >= 20
    unknown = sum(len(part.unknown) for part in (*devices, *CABLES))
    page = (Path(__file__).resolve().parents[2] / "docs/devices.md").read_text("utf-8")
    assert f"{unknown} figures are unknown" in page


def test_the_page_lists_the_catalogue():
    page = Path(__file__).resolve().parents[2] / "docs" / "devices.md"
    assert page.read_text("utf-8") == script("make_devices").page(), "run python docs/make_devices.py"
