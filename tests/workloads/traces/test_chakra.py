"""Chakra traces: real files, the laws of collectives, the wire format by hand, and hostile octets."""

from __future__ import annotations

import contextlib
import tarfile

import numpy as np
import pytest

from softib.errors import InputError
from softib.sim import fluid
from softib.workloads.schedule.builder import Builder
from softib.workloads.schedule.schedule import Kind, matched
from softib.workloads.traces.chakra import Node, NodeType, _node, rank_files
from softib.workloads.traces.chakra_groups import Grouping, grouping_of
from softib.workloads.traces.chakra_schedule import schedule_of
from softib.workloads.traces.forms import read_trace
from softib.workloads.traces.plain_collectives import COLLECTIVES, expand
from softib.workloads.traces.protobuf_wire import fields, signed
from tests.sim.packet.fabrics import tree
from tests.workloads.programs import on_hosts
from tests.workloads.traces.chakra_files import et, field, node, written

PACKED = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
"""Steps of n - 1 that the ring or the pairwise exchange takes."""


@pytest.mark.parametrize("name", sorted(PACKED))
@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_collectives_of_astra_sim_send_what_their_algorithms_say(shared_data, name, ranks):
    """1 MiB: ring all-reduce sends 2 (n - 1) / n of it from each rank, reduce-scatter and
    all-to-all (n - 1) / n, all-gather n - 1 times."""
    folder = shared_data / "astra-et"
    found = list(folder.glob(f"*{name}__{ranks}npus_1MB__{name}.0.et"))
    if not found:
        pytest.skip(f"no {name} of {ranks} in {folder}")
    s = read_trace(found[0])
    s.check()
    matched(s)
    part = (1 << 20) if name == "all_gather" else (1 << 20) // ranks
    assert s.ranks == ranks and s.octets == PACKED[name] * (ranks - 1) * ranks * part
    if ranks == 16:
        return
    made, _ = on_hosts(s, tree(4, 3), np.arange(ranks))
    assert fluid.run(tree(4, 3), made, judge=False).done


def test_every_chakra_file_of_the_project_becomes_a_schedule(shared_data, tmp_path):
    """A recorded training step (protobuf and JSON) and PyTorch's own form; the eight ranks of a
    custom ring."""
    for archive in sorted((shared_data / "chakra-tests").glob("*gz")):
        with tarfile.open(archive) as packed:
            packed.extractall(tmp_path, [m for m in packed if m.isfile() and "._" not in m.name], filter="data")
    files = [p for p in tmp_path.rglob("*") if p.suffix in (".et", ".json")]
    ring = list((shared_data / "astra-et").glob("*custom_allreduce.3.et"))
    if not files or not ring:
        pytest.skip("no Chakra files here")
    for path in files:
        s = read_trace(path, 2)
        s.check()
        matched(s)
        assert s.ranks == 2 and s.compute_ps.sum() >= 0 and len(s) > 10
    assert len(files) == 4
    s = read_trace(ring[0])
    assert (s.ranks, s.octets) == (8, 8 * 14 * 131072), "14 steps of an eighth of 1 MiB, as the trace's own sends say"


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_everybody_has_what_the_collective_promises(name, n):
    """Pieces of information flow with the messages of each step: whose contributions does each rank
    have at the end? And all operations match."""
    size, root = 1000, n // 2
    ops = expand(name, n, size, root)
    build = Builder(n)
    for r, k, p, z, step in zip(ops.rank, ops.kind, ops.peer, ops.size, ops.step, strict=True):
        build.message(Kind(int(k)), int(r), int(p), int(z), int(step))
    if n > 1:
        matched(build.schedule("x"))
    known = [{r} for r in range(n)]
    sends = ops.kind == Kind.SEND
    for step in range(int(ops.step.max(initial=-1)) + 1):
        moved = [
            (int(p), set(known[int(r)]))
            for r, p in zip(ops.rank[sends & (ops.step == step)], ops.peer[sends & (ops.step == step)], strict=True)
        ]
        for to, what in moved:
            known[to] |= what
    everybody = set(range(n))
    if name in ("reduce", "gather"):
        assert known[root % n] == everybody
    elif name in ("broadcast", "scatter"):
        assert all(root % n in one for one in known)
    else:
        assert all(one == everybody for one in known)
    sent = int(ops.size[sends].sum())
    least = {
        "all-reduce": 2 * (n - 1) * size,
        "reduce": (n - 1) * size,
        "all-gather": n * (n - 1) * size,
        "gather": (n - 1) * size,
        "broadcast": (n - 1) * size,
    }
    if name in least:
        assert sent == least[name]


def test_a_collective_that_is_not_known_names_those_that_are():
    with pytest.raises(InputError, match="all-reduce, reduce"):
        expand("all-reduse", 4, 8)


def test_nodes_wait_for_data_and_control_dependencies_and_gpu_computes_beside_the_cpu(tmp_path):
    """Compute 5 us, send 8 octets behind it to rank 1, which receives and computes."""
    a = et(node(1, 4, micros=5), node(2, 5, data=b"\x01", comm_dst=1, comm_size=8, comm_tag=3))
    b = et(node(7, 6, comm_src=0, comm_size=8, comm_tag=3), node(9, 4, data=b"\x07", micros=2, is_cpu_op=1))
    s = read_trace(written(tmp_path, a, b))
    assert s.compute_ps.tolist() == [5_000_000, 0, 0, 2_000_000]
    assert s.needs.tolist() == [0, 2] and s.first.tolist() == [0, 0, 1, 1, 2]
    assert s.processor.tolist() == [1, 2, 2, 0] and s.where(3) == "rank 1, node 9"
    assert rank_files(tmp_path / "t") == rank_files(tmp_path / "t.1.et") == [tmp_path / "t.0.et", tmp_path / "t.1.et"]


def test_another_library_s_algorithms_go_in_at_one_place():
    """All to rank 0 and back, instead of a ring."""
    call = Node(1, "x", NodeType.COMM_COLL, attributes={"comm_type": 0, "comm_size": 100})
    calls = []

    def star(collective, ranks, size, root=0):
        calls.append((collective, ranks, size, root))
        return expand("gather", ranks, size, 0)

    s = schedule_of("x", [[call]] * 3, star)
    assert calls == [("all-reduce", 3, 100, 0)] and s.octets == 200


WRONG = (
    ((et(node(1, 4, data=b"\x05")),), "node 1 .*depends on node 5.*never ends"),
    ((et(node(1, 4), node(1, 4)),), "occurs twice"),
    ((et(node(1, 9)),), "type 9"),
    ((et(node(1, 5, comm_size=8)),), "comm_dst is missing"),
    ((et(node(1, 5, comm_dst=1)),), "comm_size is missing"),
    ((et(node(1, 7, comm_type=77, comm_size=8)),), "comm_type 77"),
    ((et(node(1, 7, comm_type=0, comm_size=-5)),), "comm_size -5"),
    ((et(node(1, 5, comm_dst=1, comm_size=(1 << 63) - 1)),), "is not a valid number"),
    ((et(node(1, 4, micros=1 << 63)),), "duration"),
    (
        (et(node(1, 7, comm_type=0, comm_size=8)), et(node(2, 7, comm_type=0, comm_size=9))),
        ("rank 1, node 2: comm_size 9 where rank 0 has 8"),
    ),
    (
        (
            et(node(1, 7, comm_type=0, comm_size=8)),
            et(node(2, 7, comm_type=0, comm_size=8), node(3, 7, comm_type=0, comm_size=8)),
        ),
        ("rank 1, node 3: it never ends"),
    ),
    ((et(node(1, 4))[:-1],), "ends inside"),
    ((et(),), "no node"),
    ((b"\xff" * 20,), "not a Chakra trace"),
    ((et(b"\x0b"),), "wire type 3"),
    ((et(b"\x12\x05ab"),), "message 1 of the file ends inside a field"),
)


@pytest.mark.parametrize(("ranks", "message"), WRONG, ids=range(len(WRONG)))
def test_bad_traces_are_one_line_with_rank_and_node(tmp_path, ranks, message):
    with pytest.raises(InputError, match=message) as wrong:
        s = read_trace(written(tmp_path, *ranks), 2)
        s.check()
        matched(s)
    assert "\n" not in str(wrong.value)


def test_a_rank_that_nobody_answers_and_one_that_is_missing(tmp_path):
    one = written(tmp_path, et(node(1, 6, comm_src=1, comm_size=8)), et(node(4, 4)))
    with pytest.raises(InputError, match="rank 0, node 1: the operation never ends"):
        matched(read_trace(one))
    (tmp_path / "t.3.et").write_bytes(et(node(1, 4)))
    with pytest.raises(InputError, match=r"rank 2 of 4 has no file t\.2\.et"):
        read_trace(one)


def test_any_octets_are_read_or_refused(tmp_path):
    """200 damaged copies of a trace: a schedule, or one line."""
    good = et(
        *(
            node(
                k,
                4 + k % 4,
                data=bytes([k - 1]) if k > 1 else b"",
                micros=k,
                comm_dst=1,
                comm_src=1,
                comm_size=9,
                comm_type=0,
            )
            for k in range(1, 9)
        )
    )
    rng = np.random.default_rng(7)
    for _ in range(200):
        damaged = bytearray(good)
        for at in rng.integers(0, len(good), 3):
            damaged[at] = int(rng.integers(256))
        with contextlib.suppress(ValueError):
            list(fields(bytes(damaged)))
        try:
            read_trace(written(tmp_path, bytes(damaged[: int(rng.integers(1, len(good) + 1))])), 2)
        except InputError as error:
            assert "\n" not in str(error)


def test_numbers_are_two_s_complement():
    assert [signed(v) for v in (0, 5, (1 << 64) - 1)] == [0, 5, -1]
    assert list(fields(field(7, -3))) == [(7, (1 << 64) - 3)]


def test_dumpi_and_liballprof_are_refused_in_one_line(shared_data):
    refused = [*(shared_data / "dumpi-test").glob("testtrace*"), *(shared_data / "goal2-samples").glob("*pmpi-trace*")]
    if not refused:
        pytest.skip("no such traces here")
    for path in refused:
        with pytest.raises(InputError, match=r"(DUMPI trace|liballprof).*which is not supported; convert it to GOAL"):
            read_trace(path)


def test_portals_operations_in_binary_are_those_of_its_text(shared_data):
    """LogGOPSim2's own pair."""
    pair = [shared_data / "goal2-samples" / f"tests__testsim__test.{form}" for form in ("goal", "bin")]
    if not all(p.is_file() for p in pair):
        pytest.skip("not here")
    a, b = (read_trace(p) for p in pair)
    for column in ("rank", "kind", "peer", "size", "tag", "compute_ps", "first"):
        assert np.array_equal(getattr(a, column), getattr(b, column)), column
    for i in range(len(a)):
        assert sorted(a.needs[a.first[i] : a.first[i + 1]]) == sorted(b.needs[b.first[i] : b.first[i + 1]])


def call(k, size=1000, **attributes):
    return Node(k, "x", NodeType.COMM_COLL, attributes={"comm_type": 0, "comm_size": size, **attributes})


def pairs(s) -> set[tuple[int, int]]:
    """(source, destination) of all messages."""
    sends = s.kind == Kind.SEND
    return set(zip(s.rank[sends].tolist(), s.peer[sends].tolist(), strict=True))


def test_dimensions_choose_the_ranks_that_share_all_other_coordinates():
    """Eight ranks as 4 x 2: dimension 0 are the neighbours 0-3 and 4-7, dimension 1 the pairs that
    are 4 apart."""
    of = lambda involved, dims: pairs(
        schedule_of("x", [[call(1, involved_dim=involved)]] * 8, grouping=Grouping(dims=dims))
    )
    assert of([True, False], (4, 2)) == {(4 * b + a, 4 * b + (a + 1) % 4) for b in range(2) for a in range(4)}
    assert of([0, 1], (4, 2)) == {(r, (r + 4) % 8) for r in range(8)}
    assert of([True, True], (4, 2)) == of([True] * 5, ()) == {(r, (r + 1) % 8) for r in range(8)}


def test_a_list_of_ranks_and_a_file_of_groups_choose_members(tmp_path):
    """Groups 0, 2 and 1, 3 of one name in a list, and of two names in ASTRA-sim's file beside the
    traces."""
    parts = {0: [0, 2], 1: [1, 3], 2: [0, 2], 3: [1, 3]}
    wanted = {(0, 2), (2, 0), (1, 3), (3, 1)}
    assert pairs(schedule_of("x", [[call(1, comm_group=parts[r])] for r in range(4)])) == wanted
    path = written(tmp_path, *(et(node(1, 7, comm_type=0, comm_size=8, pg_name=b"%d" % (r % 2))) for r in range(4)))
    assert pairs(read_trace(path)) == wanted
    path.with_name("t.json").write_text('{"0": [0, 2], "1": [1, 3]}')
    assert pairs(read_trace(path)) == wanted
    path.with_name("t.json").write_text('{"0": [0, 1, 2], "1": [1, 3]}')
    with pytest.raises(InputError, match="rank 1 is in its group, and never calls"):
        read_trace(path)
    (tmp_path / "other").write_text('{"0": [0, 1], "1": [2, 3]}')
    with pytest.raises(InputError, match=r"rank 1, node 1 .*does not have this rank"):
        read_trace(path, groups=str(tmp_path / "other"))


def test_lists_are_read_from_the_wire():
    """AttributeProto of et_def.proto: bool_list is field 28, int64_list 10, values packed or one by
    one."""
    for values in (b"\x0a\x03\x01\x00\x01", b"\x08\x01\x08\x00\x08\x01"):
        held = b"\x0a\x0cinvolved_dim" + b"\xe2\x01" + bytes([len(values)]) + values
        assert _node(b"\x52" + bytes([len(held)]) + held).attributes == {"involved_dim": [True, False, True]}
    held = b"\x0a\x0acomm_group" + b"\x52\x04\x0a\x02\x05\x07"
    assert _node(b"\x52" + bytes([len(held)]) + held).attributes == {"comm_group": [5, 7]}


@pytest.mark.parametrize(
    ("attributes", "grouping", "message"),
    [
        ({"involved_dim": [1, 0]}, {}, "add dims=4x2"),
        ({"involved_dim": [1, 0]}, {"dims": (4, 4)}, "their product is the number of ranks"),
        ({"involved_dim": [1, 0]}, {"dims": (2, 2, 2)}, "one size for each dimension"),
        ({"involved_dim": "all"}, {}, "is not a list of booleans"),
        ({"comm_group": [5]}, {}, "does not contain the rank itself"),
        ({"pg_name": "7"}, {"members": {"0": (0, 1)}, "file": "g.json"}, "group '7' is not in g.json, which has 0"),
        ({"pg_name": "1", "comm_group": 2}, {}, "differ"),
        ({"pg_ranks": [0, 1]}, {}, "pg_ranks chooses ranks, but is not supported"),
        ({"involved_dims": [1, 0]}, {}, "involved_dims chooses ranks"),
    ],
)
def test_what_chooses_members_and_is_not_understood_is_an_error(attributes, grouping, message):
    with pytest.raises(InputError, match=message):
        schedule_of("x", [[call(1, **attributes)]] * 4, grouping=Grouping(**grouping))


@pytest.mark.parametrize("text", ("{}", "[1]", '{"0": 3}', '{"0": [0, 0]}', '{"0": [-1]}', "nothing"))
def test_a_wrong_file_of_groups_is_one_line(tmp_path, text):
    (tmp_path / "g.json").write_text(text)
    with pytest.raises(InputError, match=r"g\.json"):
        grouping_of(tmp_path / "t.0.et", str(tmp_path / "g.json"), None)


@pytest.mark.parametrize("dims", ("4x", "0x4", "a", "4*2"))
def test_wrong_dims_are_one_line(tmp_path, dims):
    with pytest.raises(InputError, match="for example 4x2"):
        grouping_of(tmp_path / "t.0.et", None, dims)
