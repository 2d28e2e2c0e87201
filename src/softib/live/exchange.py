"""What a program sent at once and what becomes of it, in tables that kernels take whole.

A server of one protocol puts a program's MADs into ``requests``;
:func:`softib.live.answer_kernels.answer` fills ``answers`` and says in the :data:`Exchange` what
goes where; the server reads it from there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.agents.layout import OUTCOME_FIELDS
from softib.jit import table
from softib.mad.batch import COLUMNS, MadBatch, mad_columns

__all__ = ["BATCH", "COUNTS", "Exchange", "exchange_of", "replies_of"]

BATCH = 64
"""MADs that are answered in one call: more than a socket's queue holds (10), so they are drained at
once."""
COUNTS = 7

Exchange: Any = table(
    "Exchange",
    [*OUTCOME_FIELDS, "fate", "reply_row", "reply_answer", "forward_row", "forward_answer", "forward_port", "counts"],
)
"""What became of a batch; arrays int64[n], each in the order of the requests.

The first are those of :data:`softib.agents.layout.Outcome`. What goes back to the sender:
``reply_row`` the request, ``reply_answer`` the row of ``answers``, or -1 for a request that comes
back as timed out. What another program must handle: ``forward_row`` the request, ``forward_answer``
the row of ``answers`` with the MAD as it arrives, ``forward_port`` the end port that it is for.
``counts`` int64[7]: see :mod:`softib.live.answer_kernels`. ``fate`` is scratch.
"""


def exchange_of(n: int = BATCH) -> tuple[Any, Any, Any]:
    """Requests and answers (:data:`~softib.mad.batch.MadColumns`) and :data:`Exchange` of ``n``
    rows."""
    columns = {name: np.zeros(n, np.int64) for name in Exchange._fields}
    columns |= {"served": np.zeros(2, np.int64), "counts": np.zeros(COUNTS, np.int64)}
    return mad_columns(n), mad_columns(n), Exchange(**columns)


def replies_of(exchange: Any, sent: MadBatch, answered: MadBatch, first: int, end: int) -> MadBatch:
    """Replies ``first`` to ``end`` - 1 of a batch: answers, and requests that come back as timed
    out.

    ``sent`` and ``answered`` are the requests and answers of ``exchange``; what is returned may
    share their memory.
    """
    taken = exchange.reply_answer[first:end]
    came_back = np.flatnonzero(taken < 0)
    if not len(came_back):  # the agents' answers are in the order of their requests
        return answered[int(taken[0]) : int(taken[0]) + len(taken)] if len(taken) else answered[:0]
    replies, rows = answered[taken], exchange.reply_row[first:end][came_back]
    for name in ("mad", *COLUMNS):
        getattr(replies, name)[came_back] = getattr(sent, name)[rows]
    return replies
