"""The kernel's ABI: layouts and numbers against the C header of the system (``rdma/ib_user_mad.h``)."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from softib.live.umad_client import abi

PROGRAM = """
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <stddef.h>
#include <stdio.h>
#define AT(field) printf(#field " %zu\\n", offsetof(struct ib_user_mad_hdr, field))
int main(void)
{
    AT(id); AT(status); AT(timeout_ms); AT(retries); AT(length); AT(qpn); AT(qkey); AT(lid); AT(sl); AT(path_bits); AT(grh_present);
    AT(gid_index); AT(hop_limit); AT(traffic_class); AT(gid); AT(flow_label); AT(pkey_index);
    printf("HEAD %zu\\nOLD %zu\\nREQ %zu\\n", sizeof(struct ib_user_mad_hdr), sizeof(struct ib_user_mad_hdr_old),
           sizeof(struct ib_user_mad_reg_req));
    printf("REGISTER %lu\\nPKEY %lu\\n", (unsigned long)IB_USER_MAD_REGISTER_AGENT, (unsigned long)IB_USER_MAD_ENABLE_PKEY);
    printf("CLASS %zu\\nMASK %zu\\nRMPP %zu\\n", offsetof(struct ib_user_mad_reg_req, mgmt_class),
           offsetof(struct ib_user_mad_reg_req, method_mask), offsetof(struct ib_user_mad_reg_req, rmpp_version));
    return 0;
}
"""


def test_layouts_and_numbers_are_the_kernels(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "p.c").write_text(PROGRAM)
    built = subprocess.run([compiler, "-o", tmp_path / "p", tmp_path / "p.c"], capture_output=True, text=True)
    if built.returncode:
        pytest.skip("rdma/ib_user_mad.h is not installed")
    lines = subprocess.run([tmp_path / "p"], capture_output=True, text=True, check=True).stdout.splitlines()
    kernel = {name: int(value) for name, value in (line.split() for line in lines)}
    fields = abi.HEAD.fields
    assert fields is not None
    for name, (_, at, *_more) in fields.items():
        assert name == "reserved" or kernel[name] == at, name
    assert (kernel["HEAD"], kernel["OLD"]) == (abi.HEAD_SIZE, abi.OLD_HEAD_SIZE)
    assert (kernel["REGISTER"], kernel["PKEY"]) == (abi.REGISTER_AGENT, abi.ENABLE_PKEY)
    request = abi.registration(0x03, 2, 1 << 0x12 | 1 << 0x41, 1)
    assert len(request) == kernel["REQ"]
    assert request[kernel["CLASS"]] == 0x03 and request[kernel["RMPP"]] == 1
    mask = np.frombuffer(bytes(request[kernel["MASK"] : kernel["MASK"] + 16]), np.uint64)
    assert mask.tolist() == [1 << 0x12, 1 << (0x41 - 64)]  # as set_bit writes it
