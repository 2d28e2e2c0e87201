"""What programs reach under ``softib up --pace``, against what the slowest link of the way carries.

    python bench/verbs_pace.py [--rounds 5]

One cable is downgraded again and again (4x NDR first); perftest with shared-memory buffers between two hosts on two leaves. Each
figure is the best of the rounds (a busy machine makes one slower, never faster), and stands beside the model's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.preload.verbs.applications import Applications
from tests.preload.verbs.fabric.test_pace import FABRIC, MIB, downgrade, payload_mib_s, row

LINKS = (
    ("4x NDR", 400, ()),
    ("4x EDR", 100, ("--speed", "EDR")),
    ("1x NDR", 100, ("--width", "1")),
    ("1x EDR", 25, ("--width", "1", "--speed", "EDR")),
    ("4x SDR", 8, ("--speed", "SDR")),
)
PATH_US = 1.2
"""Two adapters and three switches of NDR (docs/verbs.md, "The wire's time")."""
RATES = {100: "100 Gb/sec", 25: "25 Gb/sec", 8: "10 Gb/sec"}


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    rounds = range(options.parse_args().rounds)
    fabric = Applications(FABRIC.format("NDR"), "--pace")
    print(f"{'link':8} {'ib_write_bw 1 MB, MB/s':>28} {'ib_write_lat 1 MB, us':>28}")
    try:
        for name, gbps, arguments in LINKS:
            if arguments:
                downgrade(fabric, RATES[gbps], *arguments)
            model = payload_mib_s(gbps, MIB)
            rate = max(row(fabric, f"ib_write_bw -s {MIB} -n 2000")[3] for _ in rounds)
            over = min(row(fabric, f"ib_write_lat -s {MIB} -n 300")[4] for _ in rounds)
            us = MIB / (model * MIB) * 1e6 + PATH_US
            print(
                f"{name:8} {rate:10.0f} of {model:7.0f} = {rate / model:4.0%} {over:10.1f} for {us:7.1f} = {over / us:4.0%}"
            )
    finally:
        fabric.close()


if __name__ == "__main__":
    main()
