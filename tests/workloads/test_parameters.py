"""Every parameter says its unit, its source and what it was fitted to; an unknown name is one line."""

import csv

import pytest

from softib.errors import InputError
from softib.workloads.parameters import _read, section


def test_every_parameter_has_unit_and_source():
    for name, rows in _read().items():
        for key, row in rows.rows.items():
            assert row.unit and len(row.source) > 10, f"{name}.{key}"


def test_fitted_to_names_datasets_that_exist(shared_data):
    measured = shared_data.parent / "reference" / "measured.csv"
    if not measured.exists():
        pytest.skip("shared/reference/measured.csv is absent")
    known = {row["dataset"] for row in csv.DictReader(measured.open())} | {p.name for p in shared_data.iterdir()}
    parts = tuple(f"{k}-" for k in known)  # abci2-intra-anode: a part of the folder abci2
    for rows in _read().values():
        for key, row in rows.rows.items():
            assert all(d in known or d.startswith(parts) for d in row.fitted_to), key


def test_unknown_names_are_one_line():
    with pytest.raises(InputError, match=r"no parameters of nothing; use one of .*nccl"):
        section("nothing")
    with pytest.raises(InputError, match="storage has no parameter speed"):
        section("storage")["speed"]
