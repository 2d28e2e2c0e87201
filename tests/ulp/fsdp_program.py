"""One rank under torchrun: ``fsdp_program.py BACKEND FOLDER [RANK_THAT_DIES]``. Trains with FSDP; writes its weights."""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

backend, folder = sys.argv[1], Path(sys.argv[2])
dies = int(sys.argv[3]) if len(sys.argv) > 3 else -1
if backend == "softib":
    import softib.ulp.torch  # noqa: F401 (registers the backend)
torch.set_num_threads(1)
dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 12))
mesh = DeviceMesh("cpu", list(range(size)))
for layer in (net[0], net[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(net, mesh=mesh)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.Generator().manual_seed(rank)
for step in range(20):
    x = torch.randn(32, 64, generator=data)
    y = torch.randint(0, 12, (32,), generator=data)
    optimizer.zero_grad()
    try:
        torch.nn.functional.cross_entropy(net(x), y).backward()
    except Exception as error:
        (folder / f"told{rank}").write_text(f"{step} {error}")
        os._exit(3)
    optimizer.step()
    if step == 5 and rank == dies:
        os.kill(os.getpid(), signal.SIGKILL)
shard = torch.cat([p.to_local().detach().flatten() for p in net.parameters()])
whole = torch.empty(size * shard.numel())
dist.all_gather_into_tensor(whole, shard)
torch.save(whole, folder / f"{backend}{rank}")
dist.destroy_process_group()
# gloo's threads let go of tensors while Python ends, and now and then abort (pytorch/pytorch pull request 179291)
if backend == "gloo":
    sys.stdout.flush()
    os._exit(0)
