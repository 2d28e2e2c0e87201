"""``softib diagnose`` on a running fabric: a planted bit error rate is found by MADs alone, and the cable is named. An EDR link counts its errors (IBA 16.1.3.5)."""

from __future__ import annotations

import json

import pytest

from tests.cli.run import one_line
from tests.cli.run import softib as here

EDR = "name: pod\ngeneration: EDR\ntopology: {kind: fat-tree, radix: 8, levels: 2}\n"


def test_the_bad_cable_is_named_and_no_other(softib, tmp_path):
    (tmp_path / "pod.yaml").write_text(EDR)
    softib.start("pod.yaml", "--name", "pod")
    softib("fault", "--fabric", "pod", "ber", "leaf-2[5]", "1e-8")
    (tmp_path / "jobs.yaml").write_text("train: [host-0001, host-0008]\nidle: [host-0013, host-0014]\n")
    found = json.loads(
        softib("diagnose", "pod", "--rounds", "3", "--every", "0.5", "--jobs", "jobs.yaml", "--json", code=1)
    )
    (bad,) = [f for f in found["findings"] if f["severity"] != "info"]
    assert bad["code"] == "link-bit-errors"
    assert {f"{w['node']}[{w['portnum']}]" for w in bad["where"]} >= {"leaf-2[5]"}
    low, high = bad["evidence"]["ber_bounds"]
    assert low < 1.2e-8 and high > 0.8e-8  # 1,000 a second: SymbolErrorCounter has 16 bits
    assert "a ratio of" in softib("diagnose", "pod", "--rounds", "2", "--every", "0.5", "--severity", "error", code=1)


def test_a_port_that_leaves_out_flow_control_packets_is_named(softib, tmp_path):
    """The watchdog of its peer counts (IBA 7.9.4), 2 bits a VL that soon stand at 3: named all the same, and no cable accused for its recoveries."""
    (tmp_path / "pod.yaml").write_text(EDR)
    softib.start("pod.yaml", "--name", "pod")
    softib("fault", "--fabric", "pod", "flow-control", "leaf-2[5]", "0.13")
    assert "flow-control leaf-2[5] share 0.13" in softib("fault", "--fabric", "pod", "list")
    found = json.loads(softib("diagnose", "pod", "--rounds", "4", "--every", "1.5", "--json", code=1))
    bad = [f for f in found["findings"] if f["severity"] != "info"]
    assert bad[0]["code"] == "flow-control-errors" and {f["code"] for f in bad[1:]} <= {"counters-stuck"}
    guilty = bad[0]["where"][0]
    assert f"{guilty['node']}[{guilty['portnum']}]" == "leaf-2[5]"
    assert bad[0]["evidence"]["LinkErrorRecoveryCounter"] > 0
    softib("fault", "--fabric", "pod", "clear", "leaf-2[5]")
    assert "Findings   1 info" in softib(
        "diagnose", "pod", "--rounds", "2", "--every", "0.5", "--ignore", "counters-stuck"
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("examples/small.yaml",), "one file has only one reading"),
        (("nobody-runs-this",), "nobody-runs-this"),
        (("x", "--rounds", "1"), "2"),
        (("x", "--ignore", "link-bit-error"), "x"),
    ],
)
def test_what_cannot_be_read_is_one_line(args, says):
    assert says in one_line(here("diagnose", *args))
