"""Every interleaving of a few small programs over shared words, one step at a time, and every moment at which one may die.

A program is a list of steps. A step takes the shared words (a dict) and the program's own (a dict), changes them, and returns
the next step's number; None: it cannot go on yet; END: it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Variables = dict[str, Any]
Step = Callable[[Variables, Variables], int | None]
END = -1
DEAD = -2


def explore(programs: Sequence[Sequence[Step]], initial: Variables, holds: Callable[[Variables, list[Variables], list[int]], bool],
            mortal: Sequence[int] = ()) -> int:  # fmt: skip
    """How many states there are. ``holds`` must be true in each, and the living must not be stuck: AssertionError names the
    steps that led to where it is not so. ``mortal`` programs may die before any step (``words["dead"]`` has them)."""
    freeze = lambda d: tuple(sorted(d.items()))
    first = (freeze(initial), tuple(freeze({}) for _ in programs), (0,) * len(programs))
    seen, todo = {first}, [(first, ())]
    while todo:
        (shared, owns, at), path = todo.pop()
        assert holds(dict(shared), [dict(local) for local in owns], list(at)), path
        after = []
        for i, program in enumerate(programs):
            if at[i] < 0:
                continue
            now, local = dict(shared), dict(owns[i])
            to = program[at[i]](now, local)
            if to is not None:
                after.append((now, i, local, to, f"{i}.{at[i]}"))
            if i in mortal:
                dead = dict(shared)
                dead["dead"] = (*dead.get("dead", ()), i)
                after.append((dead, i, dict(owns[i]), DEAD, f"{i} dies"))
        moves = [step for step in after if step[3] != DEAD]
        assert moves or all(a < 0 for a in at), ("stuck", path, at)
        for now, i, local, to, name in after:
            state = (
                freeze(now),
                tuple(freeze(local) if j == i else o for j, o in enumerate(owns)),
                tuple(to if j == i else a for j, a in enumerate(at)),
            )
            if state not in seen:
                seen.add(state)
                todo.append((state, (*path, name)))
    return len(seen)
