"""What a running fabric is called where ``--name`` does not say it."""

from __future__ import annotations

import os

import pytest

from softib.fabric.topologies.spec import stated_name
from softib.live.instances import name_of


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("fabric.yaml", "name: pod-1\ntopology: {kind: ring, switches: 3}\n", "pod-1"),
        ("fabric.yaml", "name: Pod 1/a\ntopology: {kind: ring, switches: 3}\n", "Pod-1-a"),
        ("site.yaml", "topology: {kind: ring, switches: 3}\n", "site"),
        ("site.v2.topo", 'Hca 1 "name: x"\n', "site"),
        ("broken.yaml", "name: [\n", "broken"),
    ],
)
def test_it_has_the_name_that_its_file_states(tmp_path, file, text, name):
    (tmp_path / file).write_text(text)
    assert name_of(stated_name(tmp_path / file)) == name


def test_a_pipe_is_not_read_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    assert stated_name(tmp_path / "pipe.yaml") == "pipe"
