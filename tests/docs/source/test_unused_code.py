"""No capability without a door, and no production code for tests alone: what src has, something in src uses.

Oracle: vulture's list of unused names.
"""

from __future__ import annotations

import pytest

FOREIGN = {
    "cli/main.py format_commands": "Click",
    "cli/manage/sm.py format_commands": "Click",
    "cli/run/nvme.py convert": "Click",
    "cli/run/nvme.py list_": "Click",
    "cli/shared/named_files.py convert": "Click",
    "fabric/formats/slurm.py write_blocks": "the registry of formats, by its name",
    "fabric/formats/ibnetdiscover/writer.py write_ibsim": "the registry of formats, by its name",
    "fabric/formats/lft/dump.py write_fabric_lfts": "the registry of formats, by its name",
    "routing/engines/updn.py route_dnup": "the registry of engines, by its name",
    "job_logs/flight_recorder.py find_class": "pickle",
    "job_logs/flight_recorder.py persistent_load": "pickle",
    "jit/table_types.py TableColumns": "Numba",
    "jit/table_types.py generic_resolve": "Numba",
    "jit/table_types.py mangling_args": "Numba",
    "jit/table_types.py unbox_table": "Numba",
    "jit/units.py finalize": "Numba",
    "jit/units.py load_overload": "Numba",
    "jit/units.py save_overload": "Numba",
    "monitor/exporter/service.py do_GET": "http.server",
    "monitor/exporter/service.py log_message": "http.server",
    "monitor/prometheus_answers.py http_open": "urllib",
    "monitor/prometheus_answers.py https_open": "urllib",
    "ulp/torch/group.py getBackendName": "torch",
    "ulp/torch/group.py getGroupDesc": "torch",
    "ulp/torch/group.py getGroupName": "torch",
    "ulp/torch/group.py get_future": "torch",
    "ulp/torch/group.py is_completed": "torch",
    "ulp/torch/group.py recv_anysource": "torch",
    "ulp/torch/group.py setGroupDesc": "torch",
    "ulp/torch/group.py setGroupName": "torch",
    "web/server.py capture_signals": "uvicorn",
}
"""Who calls it."""
API = {
    "api/graph.py _repr_svg_",
    "api/fabric.py to_networkx",
    "api/monitor/diagnosing.py with_slow_ports",
    "api/simulation/comparison.py half_price",
    "api/simulation/result.py what_if_text",
    "api/table.py to_pandas",
}
"""Methods of public classes that Python users call, and documents that are found by name."""


def without_folder(place: str) -> str:
    """File and name: a file may move."""
    return place.rpartition("/")[2]


def test_everything_has_a_user():
    pytest.importorskip("vulture", reason="vulture is not installed (pip install vulture)")
    from tests.docs.source.unused_code import unused

    known = {without_folder(place) for place in (*FOREIGN, *API)}
    found = {place for place in unused() if without_folder(place) not in known}
    assert not found, "nothing in src uses these; delete them, or give them a user"


def test_a_function_of_tests_alone_is_found(tmp_path, monkeypatch):
    pytest.importorskip("vulture", reason="vulture is not installed (pip install vulture)")
    from tests.docs.source import unused_code

    source = tmp_path / "src" / "softib"
    source.mkdir(parents=True)
    (source / "a.py").write_text(
        '__all__ = ["used", "alone"]\ndef used(): pass\ndef alone(): pass\nclass S(Structure): pass\n'
    )
    (source / "b.py").write_text("from softib.a import used\nused()\n")
    monkeypatch.setattr(unused_code, "ROOT", tmp_path)
    monkeypatch.setattr(unused_code, "SOURCE", source)
    assert unused_code.unused() == {"a.py alone": "function"}
