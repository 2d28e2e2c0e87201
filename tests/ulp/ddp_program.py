"""One rank of a training run: ``ddp_program.py BACKEND RANK SIZE PORT FILE``. Writes the weights and what collectives gave."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

backend, rank, size, port, file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
if backend == "softib":
    import softib.ulp.torch  # noqa: F401 (registers the backend)
torch.set_num_threads(1)
dist.init_process_group(backend, rank=rank, world_size=size)


def collectives() -> dict:
    """Every collective on integers, whose results do not depend on the order of additions."""
    mine = torch.arange(1000, dtype=torch.int64) + 1000 * rank
    got = {}
    got["broadcast"] = mine.clone()
    dist.broadcast(got["broadcast"], 1)
    got["all_reduce"] = mine.clone()
    dist.all_reduce(got["all_reduce"])
    parts = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(parts, mine)
    got["all_gather"] = torch.cat(parts)
    got["reduce_scatter"] = torch.empty(1000 // size, dtype=torch.int64)
    if backend == "gloo":  # which has none: the sum, and the own part of it
        got["reduce_scatter"] = got["all_reduce"].chunk(size)[rank].clone()
    else:
        dist.reduce_scatter(got["reduce_scatter"], [c.contiguous() for c in mine.chunk(size)])
    got["all_to_all"] = torch.empty_like(mine)
    dist.all_to_all_single(got["all_to_all"], mine)
    around = torch.empty_like(mine)
    sent = dist.isend(mine, (rank + 1) % size)
    dist.recv(around, (rank - 1) % size)
    sent.wait()
    got["send_recv"] = around
    dist.barrier()
    return got


def train() -> torch.Tensor:
    """Fifty steps; the weights at the end."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(rank)
    for _ in range(50):
        x = torch.randn(32, 64, generator=data)
        y = torch.randint(0, 10, (32,), generator=data)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


torch.save({"weights": train(), **collectives()}, file)
dist.destroy_process_group()
if backend == "gloo":  # as in fsdp_program.py
    os._exit(0)
