"""The table of every result. Oracles: polars and pandas on the same columns, closed forms of fat trees."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import numpy as np
import pytest

import softib
from softib.api.table import Table


@pytest.fixture(scope="module")
def tree() -> softib.Fabric:
    return softib.generate("fat-tree", radix=4, levels=2)


@pytest.fixture
def no_polars(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)


def test_without_an_extra_a_table_is_read_and_shown(tree, no_polars):
    links = tree.links
    assert links.shape == (16, 10) and len(links) == 16, "k² cables (Leiserson 1985)"
    assert links.column("node_a").count("leaf-1") == 4, "a leaf of radix 4"
    rows = links.rows(named=True)
    assert list(rows[0]) == links.columns and type(rows[0]["port_a"]) is int
    assert [row["node_b"] for row in rows[:3]] == [row[2] for row in links.head(3).rows()] == links.column("node_b")[:3]
    assert links["gbps"].sum() == 16 * 400, "NDR is 400 Gb/s (IBA 1.7)"
    shown = repr(links).splitlines()
    assert shown[0] == "<Table: 16 rows × 10 columns>" and len(shown) == 2 + 10 + 1
    html = ElementTree.fromstring(f"<p>{links._repr_html_()}</p>")
    assert len(html.findall(".//tr")) == 1 + 10


def test_without_an_extra_its_name_is_said(tree, no_polars, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(softib.MissingLibrary, match=r"pip install .*\[tables\]'$"):
        tree.nodes.to_polars()
    with pytest.raises(softib.MissingLibrary, match=r"pip install .*\[pandas\]'$"):
        tree.nodes.to_pandas()
    with pytest.raises(AttributeError, match=r"Table\.filter needs polars: .*pip install .*\[tables\]'"):
        tree.nodes.filter(type="switch")


def test_methods_of_polars_give_what_polars_gives(tree):
    polars = pytest.importorskip("polars")
    ours, theirs = tree.ports, tree.ports.to_polars()
    assert isinstance(theirs, polars.DataFrame) and ours.equals(theirs) and theirs.rows() == ours.rows()
    assert ours.columns == theirs.columns and ours.shape == theirs.shape
    assert ours.filter(node="leaf-1").equals(theirs.filter(node="leaf-1"))
    assert ours.join(ours, on=["node", "port"]).height == len(ours), "a table is taken for a frame"
    assert polars.DataFrame(ours).equals(theirs)
    assert [s.name for s in ours] == ours.columns
    with pytest.raises(AttributeError, match="fliter"):  # codespell:ignore fliter
        ours.fliter(node="leaf-1")  # codespell:ignore fliter


def test_pandas_has_the_same(tree):
    pandas = pytest.importorskip("pandas")
    frame = tree.ports.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame["peer"].notna().sum() == 2 * 16


def test_a_wrong_column_suggests_the_near_one(tree):
    for asked in (tree.links.column, tree.links.__getitem__):
        with pytest.raises(softib.UnknownName, match="did you mean gbps"):
            asked("gpbs")


def test_wide_long_and_hostile_values_stay_short_and_escaped():
    table = Table({f"column {i}": np.arange(3.0).astype(">f8") for i in range(40)} | {"text": ["<b>" * 99] * 3})
    assert all(len(line) <= 140 for line in repr(table).splitlines())
    assert "<b>" not in table._repr_html_()
    assert "NaN" not in repr(Table({"x": [float("nan"), None]})) and len(repr(Table({})).splitlines()) <= 2


def test_a_table_is_not_a_window_into_the_fabric(tree):
    pytest.importorskip("polars")
    before = tree.ports.rows()
    tree.ports.to_polars().with_columns(lid=0)
    values = tree.ports["lid"]
    assert tree.ports.rows() == before and len(values) == len(before)


def test_what_polars_refuses_is_an_error_of_ours():
    polars = pytest.importorskip("polars")
    links = softib.generate("fat-tree", radix=4, levels=2).links
    for refused in (lambda: links.filter(polars.col("nix") > 3), lambda: links.sort("nix"), lambda: links[["nix"]]):
        with pytest.raises(softib.InputError, match="nix") as caught:
            refused()
        assert "\n" not in str(caught.value)


def test_what_polars_refuses_late_or_as_another_error_is_an_error_of_ours_too(tree, tmp_path):
    """``group_by`` looks for its columns when it is used; polars raises TypeError, IndexError and OSError, too. Its own results stay."""
    polars = pytest.importorskip("polars")
    links, theirs = tree.links, tree.links.to_polars()
    for refused in (
        lambda: links.group_by("nix").agg(),
        lambda: links.group_by("nix").len(),
        lambda: list(links.group_by("nix")),
        lambda: links.group_by("speed").agg("nix"),
        lambda: links.group_by_dynamic("nix", every="1d").agg(),
        lambda: links[10**6, 0],
        lambda: links[object()],
        lambda: links.filter("nix"),
        lambda: links.join(3, on="speed"),
        lambda: links.slice("nix"),
        lambda: links.item(),
        lambda: links.write_csv(tmp_path / "none" / "x.csv"),
    ):
        with pytest.raises(softib.SoftibError, match=r"^Table\."):
            refused()
    longest = polars.col("gbps").max()
    assert links.group_by("speed").agg(longest).equals(theirs.group_by("speed").agg(longest))
    assert dict(links.group_by("speed")).keys() == dict(theirs.group_by("speed")).keys()


def test_a_drawing_is_saved_as_what_it_is(tmp_path):
    plot = softib.generate("fat-tree", radix=4, levels=2).plot()
    with pytest.raises(softib.InputError, match=r"x\.svg"):
        plot.save(tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == [] and plot.save(tmp_path / "x.svg").read_text().startswith("<svg")
