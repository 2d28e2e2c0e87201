"""An alternate path from the second port of one adapter to the second port of another (IBA 17.2.8)."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.preload.verbs.applications import Applications, ended, stop
from tests.preload.verbs.c_programs import output, program

HCAS = {"host-a": 0xA0, "host-b": 0xB0}
SWITCHES = {"plane-1": 0x10, "plane-2": 0x20}


def netlist() -> str:
    """Two adapters of two ports, each port on a switch of its own; the switches are cabled (``ibnetdiscover``'s format)."""
    guid = "{:016x}".format
    text = ""
    for plane, (name, of) in enumerate(SWITCHES.items(), 1):
        other, other_name = next((g, n) for n, g in SWITCHES.items() if g != of)
        text += f"vendid=0x2c9\ndevid=0xd2f0\nsysimgguid=0x{of + 1:x}\nswitchguid=0x{of:x}({of:x})\n"
        text += f'Switch\t4 "S-{guid(of)}"\t\t# "{name}" enhanced port 0 lid 0 lmc 0\n'
        for port, (host, ca) in enumerate(HCAS.items(), 1):
            text += f'[{port}]\t"H-{guid(ca)}"[{plane}]({ca + plane:x}) \t\t# "{host} mlx5_0" lid 0 4xEDR\n'
        text += f'[3]\t"S-{guid(other)}"[3]\t\t# "{other_name}" lid 0 4xEDR\n\n'
    for port, (host, ca) in enumerate(HCAS.items(), 1):
        text += f"vendid=0x2c9\ndevid=0x101b\nsysimgguid=0x{ca + 8:x}\ncaguid=0x{ca:x}\n"
        text += f'Ca\t2 "H-{guid(ca)}"\t\t# "{host} mlx5_0"\n'
        for plane, (name, of) in enumerate(SWITCHES.items(), 1):
            text += f'[{plane}]({ca + plane:x}) \t"S-{guid(of)}"[{port}]\t\t# lid 0 lmc 0 "{name}" lid 0 4xEDR\n'
        text += "\n"
    return text


def is_active(fabric) -> bool:
    """The first port of host-b; the subnet manager sits on that of host-a."""
    info = subprocess.run(fabric.on("host-b", "ibv_devinfo", "-i", "1"), env=fabric.env, capture_output=True, text=True)
    return "PORT_ACTIVE" in info.stdout


@pytest.mark.slow
@pytest.mark.stock
def test_a_connection_migrates_to_the_second_port(tmp_path):
    """The first port of one adapter goes down: both ends go on from and to their second ports, and say so. Then they are told
    to migrate back, and refuse a path that leads elsewhere."""
    apm = program("apm")
    fabric = Applications(netlist(), file="f.net")
    ends = []
    try:
        ends = [
            fabric.begin(node, apm, str(tmp_path), name, "ports")
            for node, name in (("host-b", "first"), ("host-a", "second"))
        ]
        assert ends[0].stdout.readline() == "armed\n", [output(end) for end in ends]
        fabric("fault", "link-down", "host-b[1]")
        assert ends[0].stdout.readline() == "migrated\n", [output(end) for end in ends]
        fabric("fault", "link-up", "host-b[1]")
        end = time.monotonic() + 240
        while not is_active(fabric):
            assert time.monotonic() < end
            time.sleep(0.1)
        (tmp_path / "mended").write_bytes(b"\0")
        (tmp_path / "mended").rename(tmp_path / "mended-4")
        ended(*ends, 90)
    finally:
        for one in ends:
            stop(one)
        fabric.close()
