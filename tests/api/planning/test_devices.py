"""The catalogue as a result. Oracle: the TOML files of its rows, read without softib."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import softib
from softib.iba import catalogue
from tests.cli.documents import check
from tests.cli.run import softib as run

ROWS = {
    row["name"]: {key: value for key, value in row.items() if isinstance(value, list)}
    for path in sorted(Path(catalogue.__file__).parent.glob("*.toml"))
    for row in tomllib.loads(path.read_text("utf-8"))["part"]
}


def sourced(row):
    """Figures of a row: [value, source]."""
    return {k: v for k, v in row.items() if len(v) == 2 and isinstance(v[1], str) and not isinstance(v[0], str)}


def test_every_figure_of_the_files_is_listed_and_the_rest_is_unknown():
    every = softib.devices()
    assert {d.name for d in every.devices} == ROWS.keys()
    for device in every.devices:
        known = {f.figure: [f.value, f.source] for f in device.figures if f.source is not None}
        assert known == sourced(ROWS[device.name])
        assert all(f.value is None for f in device.figures if f.source is None)
    sources = [source for row in ROWS.values() for _, source in sourced(row).values()]
    assert every.assumed == sum(s.startswith("assumed") for s in sources) > 100
    assert every.fitted == sum(s.startswith("fitted") for s in sources)
    assert every.sourced == len(sources) - every.assumed - every.fitted
    assert len(sources) + every.unknown == sum(len(d.figures) for d in every.devices)


def test_an_assumed_figure_is_not_counted_as_sourced():
    (row,) = softib.devices("ConnectX-7").devices
    assert row.sourced == sum("vendor" in (f.source or "") and "assumed" not in f.source for f in row.figures) == 3


def test_the_command_prints_the_list_one_device_and_near_names():
    document = run("plan", "devices", "--json").json()
    check("plan-devices", document)
    text = " ".join(run("plan", "devices").out.split())  # whatever the width
    named = [d for d in document["devices"] if d["kind"] != "cable"]
    assert len(named) >= 20 and all(d["name"] in text for d in document["devices"])
    assert f"{document['unknown']} unknown" in text
    one = " ".join(run("plan", "devices", "connectx-7").out.split())
    assert all(
        f["source"] in one
        for d in document["devices"]
        if d["name"] == "ConnectX-7"
        for f in d["figures"]
        if f["source"]
    )
    with pytest.raises(softib.UnknownName, match="ConnectX-7"):
        softib.devices("ConnectX7")
