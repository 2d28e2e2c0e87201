"""The MADs of one burst of a program's, in tables that every kernel on the way takes whole.

A server of one protocol puts what a program sent into ``requests``; :func:`softib.live.answer_kernels.answer` fills
``answers`` and says in ``burst`` what goes where; the server reads it from there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.agents.layout import OUTCOME_FIELDS
from softib.jit import table
from softib.mad.batch import mad_columns

__all__ = ["BURST", "COUNTS", "Burst", "burst_of"]

BURST = 64
"""MADs that are answered in one call: more than a socket's queue holds (10), so a burst is drained at once."""
COUNTS = 7

Burst: Any = table(
    "Burst",
    [*OUTCOME_FIELDS, "fate", "reply_row", "reply_answer", "forward_row", "forward_answer", "forward_port", "counts"],
)
"""What became of a burst; arrays int64[n], each in the order of the requests.

The first are those of :data:`softib.agents.layout.Outcome`. What goes back to the sender: ``reply_row`` the request,
``reply_answer`` the row of ``answers``, or -1 for a request that comes back as timed out. What another program must handle:
``forward_row`` the request, ``forward_answer`` the row of ``answers`` with the MAD as it arrives, ``forward_port`` the end
port that it is for. ``counts`` int64[7]: see :mod:`softib.live.answer_kernels`. ``fate`` is scratch.
"""


def burst_of(n: int = BURST) -> tuple[Any, Any, Any]:
    """Requests and answers (:data:`~softib.mad.batch.MadColumns`) and :data:`Burst` of ``n`` rows."""
    columns = {name: np.zeros(n, np.int64) for name in Burst._fields}
    columns |= {"served": np.zeros(2, np.int64), "counts": np.zeros(COUNTS, np.int64)}
    return mad_columns(n), mad_columns(n), Burst(**columns)
