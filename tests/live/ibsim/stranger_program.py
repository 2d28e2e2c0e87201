"""A small program over pyverbs, unmodified: one UD queue pair. ``serve QKEY`` prints its LID and number and waits until its
input ends; ``send LID QPN QKEY PKEY`` sends ten datagrams there, from the P_Key index that holds PKEY."""

from __future__ import annotations

import sys

import pyverbs.device as device
import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

ENTRIES = 128


def opened(qkey: int, pkey: int) -> tuple:
    context = device.Context(name=device.get_device_list()[0].name.decode())
    index = next(
        i for i in range(ENTRIES) if int.from_bytes(context.query_pkey(1, i).to_bytes(2, "little"), "big") == pkey
    )
    pd, cq = PD(context), CQ(context, 64)
    cap = QPCap(max_send_wr=32, max_recv_wr=32, max_send_sge=1, max_recv_sge=1)
    attr = QPAttr(port_num=1)
    attr.qkey, attr.pkey_index = qkey, index
    return context, pd, cq, QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=cap), attr)


def serve(qkey: str) -> None:
    context, _pd, _cq, qp = opened(int(qkey, 0), 0xFFFF)
    print(context.query_port(1).lid, qp.qp_num, flush=True)
    sys.stdin.read()


def send(lid: str, qpn: str, qkey: str, pkey: str) -> None:
    _context, pd, cq, qp = opened(0x1111, int(pkey, 0))
    memory, there = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE), AH(pd, attr=AHAttr(dlid=int(lid), port_num=1))
    for _ in range(10):
        work = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(memory.buf, 64, memory.lkey)])
        work.set_wr_ud(there, int(qpn), int(qkey, 0))
        qp.post_send(work)
    done = 0
    while done < 10:
        done += cq.poll(10)[0]
    print("sent", qp.qp_num, flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
