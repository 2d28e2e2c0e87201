"""An RDMA WRITE between two nodes in Python, over pyverbs (Debian: python3-pyverbs).

    softib run --node host-0001 -- /usr/bin/python3 examples/pyverbs_write.py &
    softib run --node host-0002 -- /usr/bin/python3 examples/pyverbs_write.py 127.0.0.1

Without an argument it waits for the write; with one it writes. What both must know of each other
(LID, QPN, address and key of the memory) goes over TCP: both processes are on this machine,
whatever nodes they sit on.
"""

import json
import os
import socket
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

PORT, ROOM = 18515, 64
TEXT = f"written by {os.environ.get('SOFTIB_PLACE', 'a node')}".encode()


def meet(server: str | None) -> socket.socket:
    """The other process."""
    if server is None:
        with socket.create_server(("", PORT)) as listener:
            return listener.accept()[0]
    for _ in range(200):
        try:
            return socket.create_connection((server, PORT))
        except ConnectionRefusedError:
            time.sleep(0.05)  # it does not listen yet
    sys.exit(f"nobody listens at {server}:{PORT}")


def main(server: str | None) -> None:
    context = Context(name=get_device_list()[0].name.decode())
    pd, cq = PD(context), CQ(context, 16)
    rights = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
    memory = MR(pd, ROOM, rights)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4)))

    peer = meet(server)
    mine = {"lid": context.query_port(1).lid, "qpn": qp.qp_num, "address": memory.buf, "rkey": memory.rkey}
    peer.sendall(json.dumps(mine).encode() + b"\n")
    file = peer.makefile()
    theirs = json.loads(file.readline())

    attr = QPAttr(port_num=1)
    attr.qp_access_flags = rights
    qp.to_init(attr)
    attr.path_mtu, attr.dest_qp_num, attr.rq_psn = e.IBV_MTU_4096, theirs["qpn"], 0
    attr.max_dest_rd_atomic, attr.min_rnr_timer = 1, 12
    attr.ah_attr = AHAttr(dlid=theirs["lid"], port_num=1)
    qp.to_rtr(attr)
    attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.sq_psn, attr.max_rd_atomic = 14, 7, 7, 0, 1
    qp.to_rts(attr)
    peer.sendall(b"ready\n")
    file.readline()  # both are ready

    if server is not None:
        memory.write(TEXT, len(TEXT))
        request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(memory.buf, len(TEXT), memory.lkey)])
        request.set_wr_rdma(theirs["rkey"], theirs["address"])
        qp.post_send(request)
        count, done = 0, []
        while not count:
            count, done = cq.poll()
        if done[0].status != e.IBV_WC_SUCCESS:
            sys.exit(f"the write ended with status {done[0].status}")
        peer.sendall(b"written\n")
        file.readline()
    else:
        file.readline()
        print(memory.read(ROOM, 0).rstrip(b"\0").decode())
        peer.sendall(b"seen\n")


main(sys.argv[1] if len(sys.argv) > 1 else None)
