"""Our recording and alert rules by promtool's unit tests."""

from __future__ import annotations

import importlib.resources
import shutil
import subprocess
from pathlib import Path

import pytest

RULES = importlib.resources.files("softib.monitor") / "rules" / "softib.rules.yaml"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian's prometheus) is absent")


@needs_promtool
def test_rules_by_promtool(tmp_path):
    (tmp_path / "softib.rules.yaml").write_text(RULES.read_text())
    shutil.copy(Path(__file__).parent / "rules" / "softib_test.yaml", tmp_path)
    done = subprocess.run(
        ["promtool", "test", "rules", "softib_test.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_every_alert_has_a_unit_test():
    yaml = pytest.importorskip("yaml")
    alerts = {r["alert"] for g in yaml.safe_load(RULES.read_text())["groups"] for r in g["rules"] if "alert" in r}
    tests = yaml.safe_load((Path(__file__).parent / "rules" / "softib_test.yaml").read_text())["tests"]
    fired = {a["alertname"] for t in tests for a in t.get("alert_rule_test", []) if a["exp_alerts"]}
    assert alerts == fired
