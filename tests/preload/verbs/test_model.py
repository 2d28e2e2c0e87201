"""The protocols of rings, locks and keys on small models: every interleaving, every death; and a mutation of each is caught."""

from __future__ import annotations

import pytest

from tests.preload.verbs.interleavings import END, explore


def put(name, value, to):
    def step(s, local):
        s[name] = value(s, local) if callable(value) else value
        return to

    return step


# -- a completion queue: who adds, who arms and sleeps (complete.c, cq.c) --


def completions(n: int, fenced: bool) -> int:
    """``n`` completions by one who adds; one who polls, arms, polls again and sleeps. ``fenced``: armed is read last."""

    def look(s, local):
        local["armed"] = s["armed"]
        return local["next"]

    def add(s, local):
        s["producer"] += 1
        local["next"] = 2
        return 1

    def notify(s, local):
        if local["armed"]:
            s["armed"], s["knocked"] = 0, 1
        local["n"] = local.get("n", 0) + 1
        return END if local["n"] == n else 0

    def early(s, local):  # the mutation: armed is read before the completion is there
        local["armed"] = s["armed"]
        return 1

    def add_after(s, local):
        s["producer"] += 1
        return 2

    def poll(s, local):
        s["consumer"] = s["producer"]
        return END if s["consumer"] == n else 1

    def arm(s, local):
        s["armed"] = 1
        return 2

    def poll_again(s, local):
        return 0 if s["producer"] != s["consumer"] else 3

    def sleep(s, local):
        if not s["knocked"]:
            return None
        s["knocked"] = 0
        return 0

    adds = [add, look, notify] if fenced else [early, add_after, notify]
    return explore([adds, [poll, arm, poll_again, sleep]], {"producer": 0, "consumer": 0, "armed": 0, "knocked": 0},
                   lambda s, local, at: s["consumer"] <= s["producer"])  # fmt: skip


def test_no_completion_is_slept_over():
    assert completions(3, True) > 50
    with pytest.raises(AssertionError, match="stuck"):
        completions(3, False)


# -- completions of several who add, of whom some die; the poller looks at `turn` alone (complete.c, ve_lock_cq) --


def sequences(adders: int, repairs: bool, last: bool = True) -> int:
    """Each of ``adders`` adds one completion, all but the last may die. ``repairs``: who takes a dead one's lock over moves
    ``producer`` where the completion is there. ``last``: the turn is written behind the rest."""

    def adder(me):
        def take(s, local):
            if s["lock"] == 0:
                s["lock"] = me + 1
                return 2
            return 1 if s["lock"] - 1 in s["dead"] else None

        def take_over(s, local):
            if s["lock"] - 1 not in s["dead"]:
                return 0
            s["lock"] = me + 1
            if repairs and s["turns"][s["producer"] % 2] == s["producer"] + 1:
                s["producer"] += 1
            return 2

        def write(s, local):
            if s["producer"] - s["consumer"] == 2:
                return None
            at = s["producer"] % 2
            s["ids"] = tuple(me if i == at else x for i, x in enumerate(s["ids"]))
            return 3

        def publish(s, local):
            at = s["producer"] % 2
            s["turns"] = tuple(s["producer"] + 1 if i == at else x for i, x in enumerate(s["turns"]))
            return 4

        def count(s, local):
            s["producer"] += 1
            return 5

        def leave(s, local):
            s["lock"] = 0
            s["done"] = (*s["done"], me)
            return END

        steps = [write, publish] if last else [lambda s, local: None if write(dict(s), local) is None else publish(s, local) - 1,
                                            lambda s, local: write(s, local) + 1]  # fmt: skip
        return [take, take_over, *steps, count, leave]

    def poll(s, local):
        at = s["consumer"] % 2
        if s["turns"][at] == s["consumer"] + 1:
            s["seen"] = (*s["seen"], s["ids"][at])
            s["consumer"] += 1
            return 0
        return END if len(s["done"]) + len(s["dead"]) == adders else None

    def holds(s, local, at):
        seen = s["seen"]
        return -1 not in seen and len(set(seen)) == len(seen) and (at[-1] != END or set(s["done"]) <= set(seen))

    shared = {
        "lock": 0,
        "ids": (-1, -1),
        "turns": (0, 0),
        "producer": 0,
        "consumer": 0,
        "done": (),
        "dead": (),
        "seen": (),
    }
    return explore([*(adder(i) for i in range(adders)), [poll]], shared, holds, mortal=range(adders - 1))


def test_a_completion_of_the_dead_is_neither_lost_nor_covered():
    assert sequences(3, True) > 500
    with pytest.raises(AssertionError):
        sequences(3, False)
    with pytest.raises(AssertionError):
        sequences(2, True, last=False)


# -- receives: who waits for one is woken by who posts it (request.c, post.c) --


def receives(twice: bool) -> int:
    def look(s, local):
        return END if s["tail"] else 1

    def wait(s, local):
        s["waiter"] = 1
        return 2 if twice else 3

    def poll_again(s, local):
        return END if s["tail"] else 3

    def sleep(s, local):
        return 0 if s["woken"] else None

    def post(s, local):
        s["tail"] = 1
        return 1

    def wake(s, local):
        s["woken"], s["waiter"] = s["woken"] or s["waiter"], 0
        return END

    return explore(
        [[look, wait, poll_again, sleep], [post, wake]], {"tail": 0, "waiter": 0, "woken": 0}, lambda *_: True
    )


def test_no_receive_is_waited_for_in_vain():
    receives(True)
    with pytest.raises(AssertionError, match="stuck"):
        receives(False)


# -- a lock whose owner may die (waiting.c), around a receive that is taken, then completed --


def locks(n: int, compares: bool) -> int:
    """``n`` programs of which the first may die. ``compares``: only the dead one's own mark is taken off."""

    def program(me):
        def take(s, local):
            if s["lock"] == 0:
                s["lock"] = me + 1
                return 3
            local["seen"] = s["lock"]
            return 1

        def look(s, local):
            return 2 if local["seen"] - 1 in s["dead"] else 0

        def seize(s, local):
            if not compares or s["lock"] == local["seen"]:
                s["lock"] = 0
            return 0

        def enter(s, local):
            local["head"] = s["head"]
            return 4

        def commit(s, local):
            s["head"] = local["head"] + 1
            s["commits"] += 1
            return 5

        def leave(s, local):
            s["lock"] = 0
            return END

        return [take, look, seize, enter, commit, leave]

    inside = range(3, 6)
    return explore([program(i) for i in range(n)], {"lock": 0, "head": 0, "commits": 0, "dead": ()},
                   lambda s, local, at: sum(a in inside for a in at) <= 1 and s["head"] == s["commits"], mortal=(0,))  # fmt: skip


def test_a_lock_of_the_dead_is_taken_over_by_one():
    assert locks(3, True) > 200
    with pytest.raises(AssertionError):
        locks(3, False)


# -- keys: a reference and its taking away (keys.c, vm_quiesce) --


def keys(initiators: int, published_first: bool, waits: bool = True) -> int:
    """Nobody copies when dereg has returned; who died with a reference in its hands is not waited for."""

    def initiator(me):
        hold = put(f"hazard{me}", 1, 1 if published_first else 2)

        def check(s, local):
            if s["key"]:
                return 2 if published_first else 0
            return 4 if published_first else END

        def begin(s, local):
            return 3

        def copy(s, local):
            return 4

        def let_go(s, local):
            s[f"hazard{me}"] = 0
            return END

        return [hold, check, begin, copy, let_go]

    def scan(me):
        def step(s, local):
            if waits and s[f"hazard{me}"] and me not in s["dead"]:
                return None
            return me + 2

        return step

    over = initiators + 1
    dereg = [put("key", 0, 1), *(scan(i) for i in range(initiators)), lambda s, local: END]
    programs = [initiator(i) for i in range(initiators)]
    if not published_first:  # the mutation looks at the key before it says so
        programs = [[p[1], p[0], *p[2:]] for p in programs]
        programs = [[lambda s, local: 1 if s["key"] else END, p[1], *p[2:]] for p in programs]
    shared = {"key": 1, "dead": (), **{f"hazard{i}": 0 for i in range(initiators)}}

    def holds(s, local, at):
        return not (at[-1] in (over, END) and any(a == 3 for a in at[:-1]))

    return explore([*programs, dereg], shared, holds, mortal=range(initiators))


def test_nobody_copies_after_dereg():
    assert keys(2, True) > 100
    with pytest.raises(AssertionError):
        keys(2, False)
    with pytest.raises(AssertionError):
        keys(2, True, waits=False)
