"""Slow parts planted in made-up acceptance runs: how many the tomography names, and how often it accuses others.

    python bench/acceptance_stories.py [--stories 50] [--rounds 4]

Measurements are what the model expects of each pair, with 2 % of spread, 1 % of them disturbed by 30 % on average, and a loss of 10 to 60 % (drawn) on all
that cross a planted part. A cable counts as named where the finding has one of its ends; a cable that no measured pair takes is not planted.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.analysis.acceptance.stories import Lab, tally

FABRICS = (
    ("fat tree, 250 hosts, 3 tiers", {"kind": "fat-tree", "radix": 10, "levels": 3}),
    ("fat tree, 512 hosts, 2 tiers", {"kind": "fat-tree", "radix": 32, "levels": 2}),
    ("rail-optimized, 64 hosts of 4 rails", {"kind": "rail-optimized", "nodes": 64, "rails": 4, "radix": 32}),
)
STORIES = (
    ("nothing", ()),
    ("host", ("host",)),
    ("adapter", ("adapter",)),
    ("cable", ("cable",)),
    ("several", ("host", "adapter", "cable", "cable")),
)


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--stories", type=int, default=50)
    options.add_argument("--rounds", type=int, default=4)
    given = options.parse_args()
    print(
        f"{'fabric':38} {'planted':9} {'stories':>7} {'parts':>6} {'named':>6} {'false alarms':>13} {'CPU s a story':>14}"
    )
    for name, parameters in FABRICS:
        lab = Lab(given.rounds, **parameters)
        for label, kinds in STORIES:
            began = time.process_time()
            planted, named, false = tally(lab, range(given.stories), kinds)
            spent = (time.process_time() - began) / given.stories
            print(f"{name:38} {label:9} {given.stories:7} {planted:6} {named:6} {false:13} {spent:14.2f}", flush=True)


if __name__ == "__main__":
    main()
