"""pyverbs 59: an RC queue pair on each node, a WRITE and a READ of the whole region."""

import pyverbs.libibverbs_enums as e
from meet import ROLE, SIZE, check, get, pattern, put
from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

context = Context(name=get_device_list()[0].name.decode())
domain, queue = PD(context), CQ(context, 16)
access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
region = MR(domain, SIZE, access)
pair = QP(domain, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=queue, rcq=queue, cap=QPCap(max_send_wr=4, max_recv_wr=4)))
put(ROLE, f"{pair.qp_num} {context.query_port(1).lid} {region.buf} {region.rkey}")
number, lid, remote, key = map(int, get("client" if ROLE == "server" else "server").split())
attributes = QPAttr(port_num=1)
attributes.qp_access_flags = access
attributes.dest_qp_num, attributes.path_mtu = number, e.IBV_MTU_4096
attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4
attributes.min_rnr_timer, attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 12, 18, 7, 7
attributes.ah_attr = AHAttr(dlid=lid, port_num=1)
pair.to_rts(attributes)


def move(opcode: int) -> None:
    request = SendWR(num_sge=1, sg=[SGE(region.buf, SIZE, region.lkey)], opcode=opcode, send_flags=e.IBV_SEND_SIGNALED)
    request.set_wr_rdma(key, remote)
    pair.post_send(request)
    while not (polled := queue.poll())[0]:
        pass
    if polled[1][0].status != e.IBV_WC_SUCCESS:
        raise SystemExit(f"{opcode}: status {polled[1][0].status}")


if ROLE == "server":
    put("connected", "")
    get("written")
    check(region.read(SIZE, 0), 1)
    region.write(pattern(2), SIZE)
    put("changed", "")
    get("read")
else:
    get("connected")
    region.write(pattern(1), SIZE)
    move(e.IBV_WR_RDMA_WRITE)
    put("written", "")
    get("changed")
    move(e.IBV_WR_RDMA_READ)
    check(region.read(SIZE, 0), 2)
    put("read", "")
