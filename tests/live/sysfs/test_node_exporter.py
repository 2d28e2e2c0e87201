"""Prometheus' node_exporter, a Go program that no library reaches, unmodified: what it scrapes is what perfquery reads."""

from __future__ import annotations

import re
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.live.serving import free_port, wait_for
from tests.live.umad.lab import needs_namespace

NODE, OTHER = "host-0002", "host-0003"
COUNTERS = {
    "PortXmitData": ("port_data_transmitted_bytes_total", 4),
    "PortRcvData": ("port_data_received_bytes_total", 4),
    "PortXmitPkts": ("port_packets_transmitted_total", 1),
    "PortRcvPkts": ("port_packets_received_total", 1),
    "PortUnicastXmitPkts": ("unicast_packets_transmitted_total", 1),
    "PortMulticastRcvPkts": ("multicast_packets_received_total", 1),
}
"""What perfquery -x calls it, what node_exporter does, and octets in one."""


def scrape(port: int) -> dict[str, float]:
    """Metrics of device mlx5_0, port 1, without their common prefix."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
            text = page.read().decode()
    except (urllib.error.URLError, OSError):
        return {}
    found = re.findall(r'^node_infiniband_(\w+)\{device="mlx5_0",port="1"\} (\S+)$', text, re.M)
    return {name: float(value) for name, value in found}


@pytest.mark.stock
@pytest.mark.parametrize("way", [pytest.param("namespace", marks=needs_namespace), "path"])
def test_its_metrics_are_those_of_perfquery(softib, stock, way):
    exporter, perfquery, ibnetdiscover = (stock(p) for p in ("prometheus-node-exporter", "perfquery", "ibnetdiscover"))
    softib("up", "one.yaml", "--detach")
    port = free_port()
    words = [
        exporter,
        "--collector.disable-defaults",
        "--collector.infiniband",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    options = ["--node", NODE, "--refresh", "0.2"]
    if way == "namespace":
        options.append("--ns")
    else:
        words.append(f"--path.sysfs={softib('run', '--node', NODE, '--sysfs').strip()}")
    one = subprocess.Popen(
        softib.words("run", *options, "--", *words), env=softib.env, cwd=softib.folder, stderr=subprocess.DEVNULL
    )
    try:
        assert wait_for(lambda: bool(scrape(port)))
        before = scrape(port)
        assert (before["state_id"], before["physical_state_id"]) == (4, 5)
        assert before["rate_bytes_per_second"] == 200e9 / 8
        softib("run", "--node", NODE, "--", ibnetdiscover)
        # From another host: the question itself comes to the port's agent, and is counted before it is answered.
        lid = re.search(
            r"^Lid:\.*(\d+)", softib("run", "--node", NODE, "--", stock("smpquery"), "-D", "portinfo", "0", "1"), re.M
        )[1]
        told = softib("run", "--node", OTHER, "--", perfquery, "-x", lid, "1")
        wanted = {n: int(v) for n, v in re.findall(r"^(\w+):\.*(\d+)$", told, re.M)}
        last = {n: wanted[n] * octets for n, (_, octets) in COUNTERS.items()}
        # What left after the answer was made up is the answer, one MAD of 288 octets.
        last["PortXmitData"] += 288
        last["PortXmitPkts"] += 1
        last["PortUnicastXmitPkts"] += 1

        def seen() -> dict[str, float]:
            now = scrape(port)
            return {n: now.get(name, -1) for n, (name, _) in COUNTERS.items()}

        assert wait_for(lambda: seen() == last), (seen(), last)
        assert scrape(port)["port_packets_transmitted_total"] > before["port_packets_transmitted_total"]
        softib("fault", "link-down", f"{NODE}[1]")
        assert wait_for(lambda: scrape(port).get("state_id") == 1 and scrape(port).get("link_downed_total") == 1)
    finally:
        one.terminate()
        one.wait()
