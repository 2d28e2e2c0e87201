"""The file of verbs: what C and Python read alike, and what killed programs leave (nothing)."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess

import numpy as np
import pytest

from softib.live.proc import is_running, process_start
from softib.live.verbs.shared_heap import HEADER, SharedHeap, constant, types
from softib.preload import build
from tests.preload.verbs.engine.engine_programs import program
from tests.scratch import scratch

NOTHING = {"programs": 0, "numbers": 0, "members": 0, "keys": 0, "chunks": 0}


@pytest.fixture
def memory():
    folder = scratch("svm-", memory=True)
    made = SharedHeap(folder / "verbs")
    yield made
    made.close()
    shutil.rmtree(folder)


class Victims:
    def __init__(self, memory):
        self.memory = memory
        self.run = subprocess.Popen(
            [str(program("victims")), str(memory.path.parent)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def say(self, line):
        self.run.stdin.write(line + "\n")
        self.run.stdin.flush()
        return self.run.stdout.readline().split()

    def kill(self, number, amount):
        """A program takes ``amount`` of everything and is killed; the daemon does not know yet."""
        reply = self.say(f"{number} {amount}")
        assert reply and reply[0] == "dead", reply
        return int(reply[1])


@pytest.fixture
def victims(memory):
    made = Victims(memory)
    yield made
    made.run.stdin.close()
    assert made.run.wait(120) == 0
    made.run.stdout.close()


def used(memory):
    found = memory.usage().to_json()
    octets = found.pop("octets")
    return found, octets


def test_c_and_python_agree_on_every_offset(tmp_path):
    cc = build.compiler()
    if cc is None:
        pytest.skip("no C compiler")
    lines = []
    for name, dtype in types().items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        lines += [f'printf("{name}.{f} %zu\\n", offsetof(struct {name}, {f}));' for f in dtype.names]
    text = "\n".join(lines)
    source = (
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER.path}"\nint main(void) {{ {text} return 0; }}\n'
    )
    (tmp_path / "a.c").write_text(source)
    subprocess.run([*cc.split(), "-o", str(tmp_path / "a"), str(tmp_path / "a.c")], check=True)
    reply = dict(line.split() for line in subprocess.check_output([tmp_path / "a"], text=True).splitlines())
    ours = {name: str(d.itemsize) for name, d in types().items()}
    ours |= {f"{name}.{f}": str(d.fields[f][1]) for name, d in types().items() for f in d.names}
    assert reply == ours and len(reply) > 100


def test_the_tables_do_not_overlap():
    size = {name: types()[f"softib_{name}"].itemsize for name in ("verbs", "process", "member", "key")}
    chunks = (constant("SIZE") - constant("HEAP")) // constant("CHUNK")
    spans = [
        (0, size["verbs"]),
        (constant("PROCESSES"), constant("PROCESSES_N") * size["process"]),
        (constant("NUMBERS"), constant("NUMBERS_N") * 8),
        (constant("MEMBERS"), constant("MEMBERS_N") * size["member"]),
        (constant("BLOCKS"), constant("BLOCKS_N") * 4),
        (constant("KEYS"), constant("KEYS_N") * size["key"]),
        (constant("OWNERS"), chunks * 4),
        (constant("HEAP"), chunks * constant("CHUNK")),
    ]
    for (a, length), (b, _) in itertools.pairwise(spans):
        assert a + length <= b
    assert constant("BLOCKS_N") * constant("BLOCK_KEYS") == constant("KEYS_N")
    assert types()["softib_process"]["hazard"].shape == (constant("HAZARDS"),)


def test_what_a_killed_program_had_is_free(memory, victims):
    pid = victims.kill(7, 40)
    found, octets = used(memory)
    assert found["programs"] == 1 and found["numbers"] == 40 and found["keys"] == 40 and found["members"] == 14
    assert found["chunks"] > 30 and octets > 2_000_000
    assert len(list(memory.path.parent.glob("wake-7-*"))) == 2
    memory.leave(7, pid, 1)
    assert used(memory)[0] == NOTHING and not memory.pending
    assert used(memory)[1] < octets - 1_900_000
    assert not list(memory.path.parent.glob("wake-*"))


def test_it_waits_for_who_looks_at_it(memory, victims):
    victims.say("stay 9 7")
    pid = victims.kill(7, 10)
    memory.leave(7, pid, 1)
    found = used(memory)[0]
    assert found["numbers"] == found["members"] == 0 and not memory.keys["key"][:4096].any()  # nobody finds it any more
    assert found["chunks"] > 0 and list(memory.pending) == [7]
    memory.tick()
    assert used(memory)[0]["chunks"] > 0
    victims.say("go")
    memory.tick()
    assert used(memory)[0] == NOTHING | {"programs": 1} and not memory.pending


def test_it_waits_for_who_has_hung_up_but_runs(memory, victims):
    victims.kill(7, 10)
    local = process_start(os.getpid())
    assert is_running(os.getpid(), local) and not is_running(os.getpid(), local + 1)
    memory.leave(7, os.getpid(), local)
    assert used(memory)[0]["chunks"] > 0 and 7 in memory.pending


def test_the_living_keep_what_they_have(memory, victims):
    victims.kill(3, 25)
    before = {n: memory.numbers[memory._numbers_of(3)].tolist() for n in (3,)}
    for n in range(20):
        memory.leave(4 + n, victims.kill(4 + n, 10), 1)
    found = used(memory)[0]
    assert found["numbers"] == found["keys"] == 25 and found["members"] == 9
    assert before == {3: memory.numbers[memory._numbers_of(3)].tolist()}
    assert (memory.owners[memory._chunks_of(3)] == 3).all()


def test_a_forked_child_owns_what_it_takes_itself(memory, victims):
    reply = victims.say("fork 3 4 20")
    assert reply[0] == "dead"
    assert used(memory)[0]["numbers"] == used(memory)[0]["keys"] == 40
    memory.leave(4, int(reply[1]), 1)
    found = used(memory)[0]
    assert found["numbers"] == found["keys"] == 20 and found["programs"] == 1
    assert len(memory._numbers_of(3)) == 20 and (memory.owners[memory._chunks_of(3)] == 3).all()
    memory.leave(3, int(reply[1]), 1)
    assert used(memory)[0] == NOTHING


def kill_many(memory, victims, n):
    after = []
    for i in range(n):
        number = 1 + i % 200
        memory.leave(number, victims.kill(number, 12), 1)
        assert used(memory)[0] == NOTHING
        after.append(used(memory)[1])
    return after


def test_many_killed_programs_leave_nothing(memory, victims):
    after = kill_many(memory, victims, 300)
    assert after[-1] <= after[200] + 64 * 1024  # the table of numbers goes on round


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_killed_programs_leave_nothing(memory, victims):
    after = kill_many(memory, victims, 10_000)
    assert after[-1] - after[200] <= 8 * 1024 * 1024 + 65536  # the table of numbers, once round
    assert int(memory.head["chunk_high"][0]) < 64 and int(memory.head["block_high"][0]) < 8


@pytest.mark.parametrize("seed", (1, 2))
def test_what_is_freed_goes_back_while_the_program_lives(memory, seed):
    """Against a model: nothing overlaps, all is zero when it is given; objects, chunks and keys that are free take no memory."""
    done = subprocess.run(
        [str(program("heap")), str(memory.path.parent), str(seed), "20000"], capture_output=True, text=True
    )
    assert done.stdout == "ok\n", done.stderr


def test_the_keys_of_a_dead_program_take_no_memory(memory, victims):
    """A suite that registers as many regions as the device has would leave a gigabyte. Looking at free keys takes none, either."""
    memory.leave(1, victims.kill(1, 20), 1)
    before = used(memory)[1]
    pids = [victims.kill(2 + n, 500) for n in range(20)]
    assert used(memory)[1] > before + 10_000 * types()["softib_key"].itemsize
    for n, pid in enumerate(pids):
        memory.leave(2 + n, pid, 1)
    assert used(memory) == (NOTHING, pytest.approx(before, abs=256 * 1024))  # the table of numbers goes on round


def test_hostile_marks_do_not_hurt(memory):
    """Programs write the file: marks beyond the tables are not believed."""
    for name in ("process_high", "member_high", "block_high", "number_high"):
        memory.head[name] = np.iinfo(np.uint32).max
    memory.head["chunk_high"] = np.iinfo(np.uint64).max
    assert memory._high("process_high", 5) == 5
    assert memory._high("chunk_high", memory.chunks_n) == memory.chunks_n


def test_a_stale_file_is_replaced(memory):
    memory.path.write_bytes(b"old")
    second = SharedHeap(memory.path)
    assert memory.path.stat().st_size == constant("SIZE") and memory.path.stat().st_mode & 0o777 == 0o600
    second.close()
    assert not memory.path.exists()
