"""docs/metrics.md has every metric with its meaning, and names none that does not exist."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from softib.monitor.exporter.names import PORT_COUNTERS, SCHEMES, metrics

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
PORT = re.compile(r"infiniband_(?:switch|hca)_port_(\w+)_total")
SUFFIXES = {c.treydock for c in PORT_COUNTERS}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_metric_is_documented(scheme):
    for metric in metrics(scheme):
        port = PORT.fullmatch(metric.name)
        if port:
            assert f"| `…{port[1]}_total` |" in PAGE, metric.name
        else:
            assert f"`{metric.name}`" in PAGE, metric.name
            if metric.name.startswith("softib_"):
                assert metric.help in PAGE, metric.name


def test_rules_and_dashboard_ask_for_metrics_that_exist():
    known = {m.name for scheme in SCHEMES for m in metrics(scheme)} | {"infiniband_switch_uplink_info"}
    known |= {f"{m.name}_count" for scheme in SCHEMES for m in metrics(scheme) if m.kind == "histogram"}
    package = files("softib.monitor")
    rules = (package / "rules" / "softib.rules.yaml").read_text()
    dashboard = json.loads((package / "dashboards" / "softib-fabric.json").read_text())
    text = rules + " ".join(t["expr"] for p in dashboard["panels"] for t in p["targets"])
    used = {w for w in re.findall(r"\b(?:softib|infiniband)_\w+", text) if not w.startswith("infiniband_(")}
    assert used - {"infiniband_"} <= known
