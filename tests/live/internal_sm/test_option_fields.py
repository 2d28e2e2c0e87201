"""Options whose values no component of a MAD can hold: ``softib sm check-config`` against what stock ``opensm -o -F FILE`` writes, as
stock ``smpquery`` reads it."""

from __future__ import annotations

import random
import re
import subprocess

import pytest

import softib
from softib.sm.options.opensm_conf import PROGRAMMED
from tests.live.lab import Softib

pytestmark = pytest.mark.stock

SEEN = {
    "sm_sl": ("port 0", "SMSL"),
    "subnet_timeout": ("port 0", "SubnetTimeout"),
    "head_of_queue_lifetime": ("port 2", "HoqLife"),
    "leaf_head_of_queue_lifetime": ("port 1", "HoqLife"),
    "vl_stall_count": ("port 2", "VLStallCount"),
    "leaf_vl_stall_count": ("port 1", "VLStallCount"),
    "local_phy_errors_threshold": ("port 2", "LocalPhysErr"),
    "overrun_errors_threshold": ("port 1", "OverrunErr"),
    "packet_life_time": ("Switch", "LifeTime"),
}
"""Option → where smpquery shows it: the CA (port 0), or the switch with port 1 to the CA and port 2 to the other switch."""
EACH = """for f in f*.conf; do opensm -o -F $f -f $f.log; { smpquery -D portinfo 0; smpquery -D switchinfo 0,1
smpquery -D portinfo 0,1 1; smpquery -D portinfo 0,1 2; } > $f.wire; done"""


def test_every_option_of_a_port_is_on_the_wire_as_the_check_says(stock, tmp_path):
    command, chance, files = Softib(tmp_path), random.Random(29), 4
    (tmp_path / "small.yaml").write_text("name: one\ntopology: {kind: ring, switches: 2, hosts_per_switch: 1}\n")
    for number in range(files):
        values = {name: chance.randrange(2 * PROGRAMMED[name].mask + 2) if number else 255 for name in SEEN}
        values[
            "packet_life_time"
        ] &= ~3  # OpenSM keeps the two low bits that the switch had (ib_switch_info_set_life_time)
        text = "".join(f"{name} {value}\n" for name, value in values.items())
        (tmp_path / f"f{number}.conf").write_text(text)
    up = command.start("small.yaml", "--sm", "external")
    try:
        each = EACH.replace("opensm", stock("opensm")).replace("smpquery", stock("smpquery"))
        env = {**command.env, "OSM_CACHE_DIR": str(tmp_path), "OSM_TMP_DIR": str(tmp_path)}
        words = command.words("run", "--", "/bin/sh", "-c", each)
        subprocess.run(words, env=env, cwd=tmp_path, check=True, timeout=240, capture_output=True)
    finally:
        command("down", "one")
        up.wait(60)
    differing = 0
    for number in range(files):
        path = tmp_path / f"f{number}.conf"
        said = {line.split()[1]: line for line in softib.check_config(path).opensm}
        for line in path.read_text().splitlines():
            name, written = line.split()
            block, label = SEEN[name]
            (part,) = [
                b for b in path.with_suffix(".conf.wire").read_text().split("# ")[1:] if block in b.split("\n")[0]
            ]
            match = re.search(rf"^{label}:\.*(\d+)", part, re.MULTILINE)
            assert match, part
            if match[1] == written:
                assert name not in said, said[name]
            else:
                assert said[name].endswith(f"; OpenSM uses {match[1]}"), (line, match[0], said.get(name))
                differing += 1
    assert differing > len(SEEN)


def test_every_component_of_a_port_is_compared():
    assert set(SEEN) == {name for name in PROGRAMMED if not name.startswith("cc_")}
