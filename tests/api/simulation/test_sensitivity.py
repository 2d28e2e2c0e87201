"""``--sensitivity``: the verdict below the table follows from what both directions of a factor do."""

from __future__ import annotations

import pytest

import softib

INCAST = "num_ranks 16\nrank 0 {\n" + "".join(f"recv 2000000b from {r}\n" for r in range(4, 16)) + "}\n"
INCAST += "".join(f"rank {r} {{\n{'send 2000000b to 0' if r >= 4 else 'calc 1'}\n}}\n" for r in range(1, 16))
SHIFT = "num_ranks 16\n" + "".join(
    f"rank {r} {{\nsend 5000000b to {(r + 4) % 16}\nrecv 5000000b from {(r - 4) % 16}\n}}\n" for r in range(16)
)


@pytest.mark.parametrize(
    ("program", "spines", "verdict"),
    [
        (INCAST, 4, "depends on bandwidth most"),
        (SHIFT, 4, "depends on bandwidth most"),
        (SHIFT, 1, "depends on congestion most"),
    ],
)
def test_congestion_is_named_where_less_of_it_would_help(tmp_path, capsys, program, spines, verdict):
    """The last link of an incast, and full links everywhere: wider links between switches gain nothing, so it is not congestion. One spine for four hosts a leaf: it is."""
    (tmp_path / "x.goal").write_text(program)
    fabric = softib.generate("fat-tree", m=(4, 4), w=(1, spines), p=(1, 1), generation="EDR")
    softib.simulate(fabric, str(tmp_path / "x.goal"), what_if="sensitivity").print()
    assert capsys.readouterr().out.splitlines()[-1] == verdict
