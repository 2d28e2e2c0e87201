"""Offsets of rdma-core's structures in softib.ulp.nvmeof.rdma_core, as the C compiler has them from rdma-core's own headers."""

from __future__ import annotations

import ctypes
import subprocess

import pytest

from softib.preload import build
from softib.ulp.nvmeof import rdma, rdma_core

PLACES = {
    "struct ibv_context, ops": rdma_core.OPS_AT,
    **{f"struct ibv_context_ops, {name}": at for name, at in rdma_core.CALLS.items()},
    "struct ibv_mr, lkey": rdma.LKEY_AT,
    "struct ibv_mr, rkey": rdma.LKEY_AT + 4,
    "struct ibv_comp_channel, fd": rdma.CHANNEL_FD_AT,
    "struct rdma_event_channel, fd": 0,
    "struct rdma_cm_id, verbs": rdma_core.CmId.verbs.offset,
    "struct rdma_cm_id, qp": rdma_core.CmId.qp.offset,
    "struct rdma_cm_id, route.addr.src_sin.sin_addr": rdma_core.CmId.address.offset,
    **{
        f"struct rdma_cm_event, {name}": getattr(rdma_core.CmEventRecord, name).offset
        for name in ("id", "listen_id", "event", "status")
    },
    "struct rdma_cm_event, param.conn": rdma_core.CmEventRecord.conn.offset,
    **{
        f"struct rdma_conn_param, {name}": getattr(rdma_core.ConnParam, name).offset
        for name, *_ in rdma_core.ConnParam._fields_
    },
    "struct ibv_qp_init_attr, cap.max_inline_data": rdma_core.QpInitAttr.max_inline_data.offset,
    "struct ibv_qp_init_attr, sq_sig_all": rdma_core.QpInitAttr.sq_sig_all.offset,
    "struct ibv_send_wr, send_flags": 8 * 4,
    "struct ibv_send_wr, invalidate_rkey": 9 * 4,
    "struct ibv_send_wr, wr.rdma.remote_addr": 5 * 8,
    "struct ibv_send_wr, wr.rdma.rkey": 12 * 4,
    "struct ibv_recv_wr, num_sge": 6 * 4,
    "struct ibv_sge, lkey": 3 * 4,
    "struct ibv_wc, status": 2 * 4,
    "struct ibv_wc, byte_len": 5 * 4,
}
SIZES = {"struct ibv_send_wr": 128, "struct ibv_recv_wr": 32, "struct ibv_wc": 48, "struct ibv_sge": 16}


def test_offsets(tmp_path):
    if build.compiler() is None or build.missing_headers():
        pytest.skip("no C compiler, or libibverbs-dev and librdmacm-dev are not installed")
    lines = [f'printf("%zu\\n", offsetof({place}));' for place in PLACES] + [
        f'printf("%zu\\n", sizeof({name}));' for name in SIZES
    ]
    (tmp_path / "x.c").write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/rdma_cma.h>\nint main(void) {"
        + "".join(lines)
        + "return 0; }\n"
    )
    subprocess.run([build.compiler(), "-o", tmp_path / "x", tmp_path / "x.c"], check=True)
    output = subprocess.run([tmp_path / "x"], check=True, capture_output=True, text=True).stdout.split()
    assert dict(zip([*PLACES, *SIZES], map(int, output), strict=True)) == PLACES | SIZES
    assert ctypes.sizeof(rdma_core.ConnParam) == 24
