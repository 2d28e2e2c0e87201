"""Two paths from a host with one port to a target with two: which one is used, and what happens when it fails or its access state changes.
Counters of the target's own ports, read by stock perfquery, say where data went."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.ulp.nvmeof.nodes import HOST, TARGET, Storage

pytestmark = pytest.mark.slow
FABRIC = "name: paths\ngeneration: NDR\ntopology: {kind: rail-optimized, nodes: 4, rails: 2, radix: 16}\n"


@pytest.fixture(scope="module")
def storage():
    made = Storage.__new__(Storage)
    Storage.__init__(made, FABRIC)
    yield made
    made.close()


def test_what_nodes_there_are(storage):
    print(storage("status", "--json"))
    for node in (TARGET, HOST):
        print(
            subprocess.run(
                storage.on(node, "printenv", "SOFTIB_ADDRESSES"), env=storage.env, capture_output=True, text=True
            )
        )
    print(os.listdir(storage.folder))
