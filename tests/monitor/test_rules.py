"""Our recording and alert rules by promtool's unit tests."""

from __future__ import annotations

import importlib.resources
import shutil
import subprocess
from pathlib import Path

import pytest

RULES = importlib.resources.files("softib.monitor") / "rules" / "softib.rules.yaml"
TESTS = sorted((Path(__file__).parent / "rules").glob("*_test.yaml"))
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian's prometheus) is absent")


@needs_promtool
def test_rules_by_promtool(tmp_path):
    (tmp_path / "softib.rules.yaml").write_text(RULES.read_text())
    for file in TESTS:
        shutil.copy(file, tmp_path)
    done = subprocess.run(
        ["promtool", "test", "rules", *(f.name for f in TESTS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stdout.count("SUCCESS") == len(TESTS), done.stdout + done.stderr


def test_every_alert_has_a_unit_test():
    yaml = pytest.importorskip("yaml")
    alerts = {r["alert"] for g in yaml.safe_load(RULES.read_text())["groups"] for r in g["rules"] if "alert" in r}
    tests = [t for file in TESTS for t in yaml.safe_load(file.read_text())["tests"]]
    fired = {a["alertname"] for t in tests for a in t.get("alert_rule_test", []) if a["exp_alerts"]}
    assert alerts == fired
