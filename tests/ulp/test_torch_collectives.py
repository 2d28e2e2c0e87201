"""Collectives of the torch backend against what torch computes itself, over links within the process."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402

from softib.errors import InputError, PeerError  # noqa: E402
from softib.ulp.torch.group import SoftibProcessGroup  # noqa: E402
from tests.ulp.fake_links import world  # noqa: E402

SIZES = (1, 2, 3, 4, 7)
NUMELS = (0, 1, 5, 1000, 30_011)
"""Nothing, less than ranks, uneven chunks; the last takes the ring."""


class Options:
    """What torch hands over."""

    def __init__(self, op: object = dist.ReduceOp.SUM, root: int = 0):
        self.reduceOp, self.rootRank, self.rootTensor = op, root, 0


def run(size: int, act, timeout_s: float = 20.0) -> list:
    """``act(group, rank)`` in one thread a rank; their results, or the first error."""
    groups = [SoftibProcessGroup(r, size, timedelta(seconds=timeout_s), links) for r, links in enumerate(world(size))]
    results: list = [None] * size

    def one(rank: int) -> None:
        try:
            results[rank] = act(groups[rank], rank)
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for group in groups:
        group.shutdown()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def tensors(size: int, numel: int, dtype=torch.float32) -> list:
    generator = torch.Generator().manual_seed(size * 1000 + numel)
    return [torch.randint(-9, 9, (numel,), generator=generator).to(dtype) for _ in range(size)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("numel", NUMELS)
def test_every_rank_has_the_sum_with_the_same_bits(size, numel):
    given = [t * 0.1 for t in tensors(size, numel)]  # sums of these depend on the order

    def act(group, rank):
        mine = given[rank].clone()
        group.allreduce([mine], Options()).wait()
        return mine

    results = run(size, act)
    assert all(torch.equal(results[0], other) for other in results)
    torch.testing.assert_close(results[0], torch.stack(given).sum(0))


@pytest.mark.parametrize(
    "op, oracle",
    [
        (dist.ReduceOp.PRODUCT, lambda s: s.prod(0)),
        (dist.ReduceOp.MIN, lambda s: s.amin(0)),
        (dist.ReduceOp.MAX, lambda s: s.amax(0)),
        (dist.ReduceOp.AVG, lambda s: s.sum(0) // len(s)),
    ],
)
@pytest.mark.parametrize("numel", (10, 30_011))
def test_each_reduction_is_torchs_own(op, oracle, numel):
    given = tensors(3, numel, torch.int64)

    def act(group, rank):
        mine = given[rank].clone()
        group.allreduce([mine], Options(op)).wait()
        return mine

    for result in run(3, act):
        assert torch.equal(result, oracle(torch.stack(given)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("root", (0, -1))
def test_broadcast_and_reduce_have_a_root(size, root):
    root %= size
    given = tensors(size, 5000)

    def act(group, rank):
        mine, summed = given[rank].clone(), given[rank].clone()
        group.broadcast([mine], Options(root=root)).wait()
        group.reduce([summed], Options(root=root)).wait()
        return mine, summed

    results = run(size, act)
    assert all(torch.equal(mine, given[root]) for mine, _ in results)
    torch.testing.assert_close(results[root][1], torch.stack(given).sum(0))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("numel", (3, 7000))
def test_gathers_scatters_and_exchanges_permute(size, numel):
    given = [tensors(size, numel * size)[r].view(size, numel) for r in range(size)]

    def act(group, rank):
        gathered = [torch.empty(numel) for _ in range(size)]
        group.allgather([gathered], [given[rank][0].clone()]).wait()
        swapped = [torch.empty(numel) for _ in range(size)]
        group.alltoall(swapped, list(given[rank].clone().unbind())).wait()
        scattered, base = torch.empty(numel), torch.empty(numel)
        group.reduce_scatter([scattered], [list(given[rank].unbind())], Options()).wait()
        group._reduce_scatter_base(base, given[rank], Options()).wait()
        return gathered, swapped, scattered, base

    for rank, (gathered, swapped, scattered, base) in enumerate(run(size, act)):
        for peer in range(size):
            assert torch.equal(gathered[peer], given[peer][0])
            assert torch.equal(swapped[peer], given[peer][rank])
        torch.testing.assert_close(scattered, torch.stack([g[rank] for g in given]).sum(0))
        assert torch.equal(scattered, base)


def test_uneven_exchange_by_rows():
    def act(group, rank):
        rows = torch.arange(3).repeat_interleave(2) + 10 * rank  # two rows to each
        out = torch.empty(6, dtype=torch.int64)
        group.alltoall_base(out, rows, [2, 2, 2], [2, 2, 2]).wait()
        return out.tolist()

    for rank, out in enumerate(run(3, act)):
        assert out == [rank, rank, 10 + rank, 10 + rank, 20 + rank, 20 + rank]


def test_a_strided_tensor_gets_its_result():
    def act(group, rank):
        whole = torch.zeros(100, 4)
        whole[:, 1] = rank + 1
        group.allreduce([whole[:, 1]], Options()).wait()
        return whole

    for whole in run(2, act):
        assert torch.equal(whole[:, 1], torch.full((100,), 3.0))
        assert not whole[:, 0].any()


def test_messages_match_by_tag_not_by_arrival():
    big, small = torch.arange(50_000), torch.tensor([7])

    def act(group, rank):
        if rank == 0:
            works = [group.send([big], 1, 5), group.send([small], 1, 6)]
        else:
            one, two = torch.empty(1, dtype=torch.int64), torch.empty_like(big)
            works = [group.recv([one], 0, 6), group.recv([two], 0, 5)]
        for work in works:
            work.wait()
        return None if rank == 0 else (one, two)

    one, two = run(2, act)[1]
    assert torch.equal(one, small)
    assert torch.equal(two, big)


def test_both_may_send_first():
    def act(group, rank):
        mine, theirs = torch.full((100_000,), rank), torch.empty(100_000, dtype=torch.int64)
        works = [group.send([mine], 1 - rank, 0), group.recv([theirs], 1 - rank, 0)]
        for work in works:
            work.wait()
        return theirs

    for rank, theirs in enumerate(run(2, act)):
        assert (theirs == 1 - rank).all()


def test_a_receive_from_anybody_takes_what_comes():
    def act(group, rank):
        if rank:
            group.send([torch.tensor([rank])], 0, 3).wait()
            return None
        got = []
        for _ in range(3):
            room = torch.empty(1, dtype=torch.int64)
            group.recv_anysource([room], 3).wait()
            got.append(int(room))
        return sorted(got)

    assert run(4, act)[0] == [1, 2, 3]


def test_nobody_leaves_a_barrier_early():
    arrived: list[int] = []

    def act(group, rank):
        threading.Event().wait(0.02 * rank)
        arrived.append(rank)
        group.barrier().wait()
        return len(arrived)

    assert run(5, act) == [5] * 5


def test_another_length_is_an_error_on_the_receiver():
    def act(group, rank):
        if rank == 0:
            group.send([torch.zeros(3)], 1, 0).wait()
            return
        with pytest.raises(PeerError, match="12 octets where 20"):
            group.recv([torch.zeros(5)], 0, 0).wait()
        return

    run(2, act)


def test_a_lost_rank_fails_who_waits_for_it():
    links = world(2)
    group = SoftibProcessGroup(0, 2, timedelta(seconds=240), links[0])
    work = group.allreduce([torch.zeros(100_000)], Options())
    links[0].lose(1)
    with pytest.raises(PeerError, match="rank 1 is lost: transport retry counter exceeded"):
        work.wait()
    group.shutdown()


def test_who_only_receives_asks_whether_its_peer_lives():
    """Nothing is outstanding on its connection, so no timer of an HCA runs: a receiver alone never learns of a death."""
    links = world(2)
    links[0].silent.add(1)
    group = SoftibProcessGroup(0, 2, timedelta(seconds=240), links[0])
    with pytest.raises(PeerError, match="rank 1 is lost"):
        group.recv([torch.zeros(4)], 1, 0).wait()
    group.shutdown()


def test_an_error_of_the_device_reaches_who_waits():
    links = world(2)
    group = SoftibProcessGroup(0, 2, timedelta(seconds=240), links[0])
    work = group.recv([torch.zeros(4)], 1, 0)
    links[0].poll = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        work.wait()
    with pytest.raises(PeerError, match="closed"):
        group.barrier()
    group.shutdown()


def test_a_rank_that_never_comes_is_named_after_the_timeout():
    group = SoftibProcessGroup(0, 2, timedelta(seconds=0.2), world(2)[0])
    with pytest.raises(PeerError, match=r"all_reduce: no end after 0.2 s; waits for a .* rank 1"):
        group.allreduce([torch.zeros(4)], Options()).wait()
    group.shutdown()
    with pytest.raises(PeerError, match="closed"):
        group.barrier()


def test_memory_elsewhere_is_refused():
    group = SoftibProcessGroup(0, 1, timedelta(seconds=1), world(1)[0])
    with pytest.raises(InputError, match="host memory; this tensor is on meta"):
        group.allreduce([torch.zeros(4, device="meta")], Options())
    with pytest.raises(InputError, match="dense"):
        group.broadcast([torch.eye(3).to_sparse()], Options())
    group.shutdown()
