"""Rounds through umad devices: stock ibsim under its own library, and stock perfquery as the oracle of what is exported."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from softib.fabric.topologies.registry import generate
from tests.live.serving import PRELOAD
from tests.scenario.ibsim import Ibsim

pytestmark = [pytest.mark.slow, pytest.mark.stock]
OURS = (sys.executable, "-m", "softib.cli.main")


@pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent")
def test_stock_ibsim_is_read(stock, tmp_path):
    fabric = generate("fat-tree", radix=4, levels=2)
    sim = Ibsim(stock("ibsim"), fabric, tmp_path)
    try:
        env = sim.environment(f"H-{int(fabric.node_guid[fabric.cas[0]]):016x}")

        def run(*words: str) -> str:
            done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, (words, done.stdout[-500:], done.stderr[-500:])
            return done.stdout

        run(*OURS, "sm", "run", "--once")
        text = run(*OURS, "exporter", "umad:", "--once")
        assert 'softib_ports{read="yes"} 32.0' in text and "softib_devices_silent 0.0" in text
        assert text.count("infiniband_switch_port_symbol_error_total{") == 24
        assert text.count("infiniband_hca_port_receive_packets_total{") == 8
    finally:
        sim.stop()


def test_what_is_exported_is_what_perfquery_reads(softib, stock):
    perfquery = stock("perfquery")
    softib.start("one.yaml", "--name", "one")
    softib("fault", "flap", "leaf-1[3]", "--period", "0.4", "--count", "2")
    text = softib("run", "--", *OURS, "exporter", "umad:", "--once")
    info = re.search(r'infiniband_switch_info\{guid="(\w+)",switch="leaf-1",lid="(\d+)"\}', text)
    said = softib("run", "--", perfquery, info[2], "3")
    for name, field in (
        ("link_downed", "LinkDownedCounter"),
        ("symbol_error", "SymbolErrorCounter"),
        ("transmit_discards", "PortXmitDiscards"),
    ):
        ours = re.search(rf'infiniband_switch_port_{name}_total\{{guid="{info[1]}",port="3"\}} (\d+)', text)
        theirs = re.search(rf"^{field}:\.*(\d+)", said, re.MULTILINE)
        assert int(ours[1]) == int(theirs[1]), name
    assert re.search(r"^LinkDownedCounter:\.*[1-9]", said, re.MULTILINE)
