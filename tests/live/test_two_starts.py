"""Two ``softib up --detach`` of one name at the same time."""

from __future__ import annotations

import subprocess


def test_one_wins_and_the_other_says_so(softib):
    """Each process reports only on its own fabric."""
    starts = [
        subprocess.Popen(
            softib.words("up", f"{name}.yaml", "--name", "dup", "--sm", "none", "--detach"),
            env=softib.env,
            cwd=softib.folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    texts = [start.communicate(timeout=240)[1] for start in starts]
    won, lost = sorted(range(2), key=lambda i: starts[i].returncode)
    assert (starts[won].returncode, starts[lost].returncode) == (0, 2)
    assert texts[won].startswith("softib: dup: ") and texts[won].count("\n") == 1
    assert texts[lost] == (
        "softib: a fabric named 'dup' is already running; 'softib down dup' stops it, --name gives another name\n"
    )
    assert softib.status()[0]["source"] == ("one.yaml", "two.yaml")[won]
