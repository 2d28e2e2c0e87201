"""Programs and headers newer than Debian 12's: what today's rdma-core declares and perftest asks for, without either installed."""

from __future__ import annotations

import ctypes
import re
import subprocess

import pytest

from softib.preload import build

NEWER = build.VERBS_SOURCES / "abi" / "newer.c"
DECLARED = """
#include <infiniband/verbs.h>
struct ibv_mr_init_attr; struct ibv_dmah; struct ibv_dmah_init_attr; struct ibv_buf; struct ibv_buf_init_attr; struct ibv_comp_cntr;
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *cntr);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);
"""
"""As rdma-core 65 declares them."""


def test_headers_that_declare_the_newer_functions_are_no_error(tmp_path):
    """gcc 16 with rdma-core 65 refused the file: conflicting types."""
    if build.missing_headers():
        pytest.skip("libibverbs-dev and librdmacm-dev are not installed")
    newer = tmp_path / "newer_verbs.h"
    newer.write_text(DECLARED)
    command = [
        build.compiler(),
        *build.FLAGS,
        *build.include_flags(),
        "-Werror",
        "-include",
        str(newer),
        "-fsyntax-only",
        str(NEWER),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_newer_function_is_exported_under_libibverbs_name():
    """Each of them has an assembler name, so nothing but the library's table of symbols shows that it is right."""
    library = ctypes.CDLL(str(_library()))
    names = set(re.findall(r"^NO(?:_POINTER)?\((\w+)", NEWER.read_text(), re.M)) | {
        "ibv_reg_mr_ex",
        "ibv_query_port_speed",
    }
    assert len(names) >= 19
    assert [name for name in sorted(names) if not hasattr(library, name)] == []


def test_a_device_with_mellanox_vendor_id_has_nothing_optional_of_mlx5():
    """mlx5dv_query_device(3): 0, and the bits of comp_mask that the device does not know are cleared."""
    head = (ctypes.c_uint64 * 3)(~0 & 0xFF, 2**64 - 1, 2**64 - 1)
    assert ctypes.CDLL(str(_library())).mlx5dv_query_device(None, head) == 0
    assert list(head) == [0, 0, 0]


def _library():
    if not build.VERBS_LIBRARY.is_file():
        pytest.skip(build.why_no_verbs())
    return build.VERBS_LIBRARY
