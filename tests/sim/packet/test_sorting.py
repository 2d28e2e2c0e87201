"""Events of a bucket are sorted by time and by what they are: NumPy's order is the oracle."""

import numpy as np
import pytest

from softib.jit import table
from softib.sim.packet.kernels.engine.events import FEW
from softib.sim.packet.tables.engine import EVENT

from .sorting_kernels import sort_rows

Lists = table("Lists", "due sorting digits")


def in_order(due: np.ndarray) -> np.ndarray:
    rows, room = EVENT.zeros(len(due) + 3), EVENT.zeros(len(due) + 3)
    rows["time"], rows["what"] = np.concatenate([due, np.full((3, 2), -7)]).T
    s = Lists(rows, room, np.zeros(256, np.int64))
    sort_rows(s, len(due))
    made = np.stack([s.due["time"], s.due["what"]], axis=1)
    assert (made[len(due) :] == -7).all(), "rows behind the last are not touched"
    return made[: len(due)]


@pytest.mark.parametrize("many", [0, 1, 2, FEW, FEW + 1, 300, 5000])
@pytest.mark.parametrize("bits", [1, 9, 28, 62])
def test_order_is_that_of_time_then_of_what_the_event_is(many, bits):
    """Few times, so that many events share one; entities, kinds and payloads of all lengths, also all alike."""
    rng = np.random.default_rng(many + bits)
    due = np.stack([(1 << 40) + rng.integers(0, 9, many), rng.integers(0, 1 << bits, many)], axis=1)
    expected = due[np.lexsort((due[:, 1], due[:, 0]))]
    assert in_order(due).tobytes() == expected.tobytes()


def test_what_is_all_alike_and_what_runs_backwards():
    """Nothing varies, and every place of eight bits does."""
    same = np.full((200, 2), 12345)
    assert (in_order(same) == 12345).all()
    down = np.stack([np.zeros(200, np.int64), (np.int64(1) << 62) - np.arange(200) * 0x10101010101010], axis=1)
    assert (in_order(down) == down[::-1]).all()
