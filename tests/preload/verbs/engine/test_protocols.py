"""What processes do with locks, rings, receives and keys at the same time: the library's own code, run in every order of its steps.

``engine/explore.c`` runs the programs of a scenario (``engine/protocols.c``) as coroutines, one atomic operation or copy at a time, in
every order with up to two or three preemptions, and lets one of them die before any step. What is explored is the C that the library
is made of, not a model of it. Memory is sequentially consistent here, so what a fence does is not seen; ThreadSanitizer and the runs
between processes (``test_engine_fuzz.py``) are for that.

Each rule is also tested by a fault planted in the source, which must be found.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from softib.preload import build
from tests.preload.verbs.engine.engine_programs import HERE, VERBS, compiled
from tests.scratch import scratch

EXPLORED = ("-include", str(HERE / "explore.h"), "-ffunction-sections")
LIBRARY = (
    *(f"memory/heap/{name}.c" for name in ("mapping", "reserve", "heap", "ring", "number_table", "key_table")),
    *(f"memory/{name}.c" for name in ("identity", "locks", "hazards", "wake")),
    *(f"peers/{name}.c" for name in ("peer_mappings", "orders", "serve")),
    *(str(p.relative_to(VERBS)) for p in sorted((VERBS / "engine").rglob("*.c"))),
    "abi/cq.c",
    "abi/poll.c",
    "abi/post.c",
    "abi/srq.c",
)
SCENARIOS = {"locks": 3000, "ring": 40_000, "events": 7000, "receives": 2000, "keys": 300_000, "local": 40_000}
"""Orders that there are at least."""
SLOW = {"keys"}


def objects() -> list[Path]:
    if build.compiler() is None or not Path("/usr/include/infiniband/verbs.h").is_file():
        pytest.skip("no C compiler, or no infiniband/verbs.h; install libibverbs-dev")
    with ThreadPoolExecutor() as pool:
        made = list(
            pool.map(
                lambda source: compiled(source, EXPLORED), [*(VERBS / file for file in LIBRARY), HERE / "protocols.c"]
            )
        )
        return made + list(
            pool.map(
                lambda name: compiled(HERE / name, ("-ffunction-sections",)), ("explore.c", "rig.c", "stub_fabric.c")
            )
        )


def linked(parts: list[Path]) -> Path:
    to = scratch("softib-engine-") / "protocols"
    cc = build.compiler()
    assert cc is not None
    done = subprocess.run(
        [*cc.split(), "-Wl,--gc-sections", "-o", str(to), *map(str, parts), "-lpthread", "-lm"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return to


@functools.cache
def explorer() -> Path:
    return linked(objects())


def explored(made: Path, scenario: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """In a folder of its own: the rings' sockets and the shared file begin anew."""
    at = Path(tempfile.mkdtemp(prefix="x-", dir=folder))
    try:
        return subprocess.run([made, at, scenario], capture_output=True, text=True, timeout=240)
    finally:
        shutil.rmtree(at)


@pytest.mark.parametrize("scenario", [pytest.param(s, marks=pytest.mark.slow if s in SLOW else ()) for s in SCENARIOS])
def test_every_order(scenario, tmp_path):
    done = explored(explorer(), scenario, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.fullmatch(r"(\d+) orders\n", done.stdout)[1]) >= SCENARIOS[scenario]


FAULTS = {
    "a dead owner's lock is taken without a look at who has it now": (
        "locks", "memory/locks.c",
        "__atomic_compare_exchange_n(lock, &owner, w->owner, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))",
        "(__atomic_store_n(lock, w->owner, __ATOMIC_RELEASE), true))",
    ),
    "nobody takes a dead owner's lock": ("locks", "memory/locks.c", "!vm_owner_lives(w, owner)", "false && !vm_owner_lives(w, owner)"),
    "the sequence of a completion is written before the rest": (
        "ring", "engine/completion/complete.c", "    memcpy(to, cqe, offsetof(struct softib_cqe, seq));\n",
        "    __atomic_store_n(&to->seq, ve_cqe_seq(cq->producer), __ATOMIC_RELEASE);\n    memcpy(to, cqe, offsetof(struct softib_cqe, seq));\n",
    ),
    "who takes a dead one's lock does not count its completion": (
        "ring", "engine/completion/complete.c", "== ve_cqe_seq(cq->producer))\n", "== ve_cqe_seq(cq->producer) && false)\n",
    ),
    "an armed queue is looked at before the completion is there": (
        "events", "engine/completion/complete.c", "    ve_lock_cq(e, cq);\n    ring = vm_at(&e->w, cq->ring);\n    producer = cq->producer;\n",
        "    bool nobody = !__atomic_load_n(&cq->armed, __ATOMIC_RELAXED);\n    ve_lock_cq(e, cq);\n    ring = vm_at(&e->w, cq->ring);\n"
        "    producer = cq->producer;\n    if (nobody)\n        solicited = false, cq->channel = 0;\n",
    ),
    "a responder that is not ready is not looked at once more": (
        "receives", "engine/respond.c", "if (!outcome.wait || !ve_next_receive(m->q->e, m->peer, m->srq))", "if (true)",
    ),
    "nobody is woken": ("receives", "abi/srq.c", "    if (who)\n        vm_wake(&va_engine.w, who);\n", "    (void)who;\n"),
    "a hazard is raised after the look": (
        "keys", "memory/heap/number_table.c", "    *hazard = vm_hazard(w, process, level);\n    if (__atomic_load_n(at, __ATOMIC_SEQ_CST) != value) {",
        "    bool other = __atomic_load_n(at, __ATOMIC_SEQ_CST) != value;\n    *hazard = vm_hazard(w, w->process, level);\n    if (other) {",
    ),
    "nobody waits for hazards": (
        "keys", "memory/hazards.c", "if ((seen & 0xFFFF) != process)", "if (true || (seen & 0xFFFF) != process)",
    ),
    "nobody waits for a process's own copies": (
        "local", "engine/scheduling/quiesce.c", "seen % 2 && __atomic_load_n(&s->copies", "seen % 2 && false && __atomic_load_n(&s->copies",
    ),
    "a request says that it copies after it has looked at the key": (
        "local", "engine/scheduling/quiesce.h", "__atomic_store_n(&q->s->copies, q->s->copies + 1, __ATOMIC_RELAXED);", "(void)q;",
    ),
}  # fmt: skip # a table, its columns aligned


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault, tmp_path):
    scenario, file, right, wrong = FAULTS[fault]
    source = (VERBS / file).read_text()
    assert source.count(right) == 1, f"the step stands elsewhere in {file} now: {right}"
    tree = tmp_path / "verbs"
    shutil.copytree(VERBS, tree, ignore=shutil.ignore_patterns("*.c"))
    (tree / file).write_text(source.replace(right, wrong))
    made = objects()
    if file in LIBRARY:
        made[LIBRARY.index(file)] = compiled(tree / file, EXPLORED)
    else:  # a header: what the scenario has of it
        made[len(LIBRARY)] = compiled(HERE / "protocols.c", (f"-I{(tree / file).parent}", *EXPLORED))
    done = explored(linked(made), scenario, tmp_path)
    assert done.returncode == 1 and f"{scenario}: not true" in done.stdout, done.stdout + done.stderr
