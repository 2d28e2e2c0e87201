"""PyPI's ibverbs: an RC queue pair on each node, a WRITE and a READ of the whole region."""

import ctypes

import ibverbs as ib
from meet import ROLE, SIZE, check, get, pattern, put

memory = (ctypes.c_ubyte * SIZE)()
address = ctypes.addressof(memory)
context = ib.get_device_list()[0].open()
domain, queue = context.alloc_pd(), context.create_cq(16)
access = ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_WRITE | ib.AccessFlags.REMOTE_READ
region = domain.reg_mr(address, SIZE, access)
pair = domain.create_qp(ib.QPInitAttr(send_cq=queue, recv_cq=queue))
here = ib.local_qp_info(pair, context.query_port(1), context.query_gid(1, 0), port=1)
put(ROLE, here.to_bytes() + b"%d %d" % (address, region.rkey))
there = get("client" if ROLE == "server" else "server")
length = len(here.to_bytes())
ib.connect_rc(pair, ib.QPInfo.from_bytes(there[:length]), port=1, sgid_index=0, access=access)
remote, key = map(int, there[length:].split())


def move(opcode: int) -> None:
    pair.post_send(
        ib.SendWR(sg_list=[region.sge()], opcode=opcode, send_flags=ib.SendFlags.SIGNALED, remote_addr=remote, rkey=key)
    )
    while not (done := queue.poll(1)):
        pass
    if done[0].status != ib.WCStatus.SUCCESS:
        raise SystemExit(f"{opcode}: status {done[0].status}")


if ROLE == "server":
    put("connected", "")
    get("written")
    check(bytes(memory), 1)
    ctypes.memmove(address, pattern(2), SIZE)
    put("changed", "")
    get("read")
else:
    get("connected")
    ctypes.memmove(address, pattern(1), SIZE)
    move(ib.WROpcode.RDMA_WRITE)
    put("written", "")
    get("changed")
    move(ib.WROpcode.RDMA_READ)
    check(bytes(memory), 2)
    put("read", "")
