"""Bindings of rdma-core's libraries with ctypes: functions, structures, and the calls of a device.

The structures are those of ``rdma_cma.h`` and ``verbs.h``, whose layout is a stable ABI. Kernels call the verbs of the
device's table (posting, polling) through symbols.
"""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

from softib.errors import InputError, PeerError

__all__ = [
    "CALLS",
    "OPS_AT",
    "CmEventRecord",
    "CmId",
    "ConnParam",
    "QpInitAttr",
    "bind_calls",
    "bind_first_device",
    "created",
    "failed_call",
    "rdmacm",
    "verbs",
    "word",
]

OPS_AT = 8
"""Offset of the table of calls in ``struct ibv_context``."""
CALLS = {"poll_cq": 88, "req_notify_cq": 96, "post_send": 200, "post_recv": 208}
"""Offset of each call in ``struct ibv_context_ops``, by name."""
SYMBOL = "softib_nvmeof_"


class CmId(ctypes.Structure):
    """The beginning of ``struct rdma_cm_id``, up to the source address of its route."""

    _fields_ = [
        ("verbs", c_void_p),
        ("channel", c_void_p),
        ("context", c_void_p),
        ("qp", c_void_p),
        ("family", c_uint16),
        ("port", c_uint16),
        ("address", c_uint8 * 4),
    ]


class ConnParam(ctypes.Structure):
    """``struct rdma_conn_param``."""

    _fields_ = [
        ("private_data", c_void_p),
        ("private_data_len", c_uint8),
        ("responder_resources", c_uint8),
        ("initiator_depth", c_uint8),
        ("flow_control", c_uint8),
        ("retry_count", c_uint8),
        ("rnr_retry_count", c_uint8),
        ("srq", c_uint8),
        ("qp_num", c_uint32),
    ]


class CmEventRecord(ctypes.Structure):
    """``struct rdma_cm_event``."""

    _fields_ = [
        ("id", POINTER(CmId)),
        ("listen_id", POINTER(CmId)),
        ("event", c_int),
        ("status", c_int),
        ("conn", ConnParam),
    ]


class QpInitAttr(ctypes.Structure):
    """``struct ibv_qp_init_attr``."""

    _fields_ = [
        ("qp_context", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("max_send_wr", c_uint32),
        ("max_recv_wr", c_uint32),
        ("max_send_sge", c_uint32),
        ("max_recv_sge", c_uint32),
        ("max_inline_data", c_uint32),
        ("qp_type", c_int),
        ("sq_sig_all", c_int),
    ]


def _library(name: str, purpose: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(name, use_errno=True)
    except OSError:
        raise InputError(f"{name} is missing, which {purpose}; on Debian install {name.partition('.')[0]}1") from None


@cache
def rdmacm() -> ctypes.CDLL:
    """Return librdmacm."""
    lib = _library("librdmacm.so.1", "connects storage over RDMA")
    lib.rdma_create_event_channel.restype = c_void_p
    lib.rdma_destroy_event_channel.argtypes = [c_void_p]
    lib.rdma_create_id.argtypes = [c_void_p, POINTER(POINTER(CmId)), c_void_p, c_int]
    lib.rdma_get_cm_event.argtypes = [c_void_p, POINTER(POINTER(CmEventRecord))]
    lib.rdma_create_qp.argtypes = [POINTER(CmId), c_void_p, POINTER(QpInitAttr)]
    lib.rdma_connect.argtypes = lib.rdma_accept.argtypes = [POINTER(CmId), POINTER(ConnParam)]
    lib.rdma_reject.argtypes = [POINTER(CmId), c_char_p, c_uint8]
    lib.rdma_resolve_addr.argtypes = [POINTER(CmId), c_void_p, c_char_p, c_int]
    return lib


@cache
def verbs() -> ctypes.CDLL:
    """Return libibverbs."""
    lib = _library("libibverbs.so.1", "has the verbs")
    for name, arguments in (
        ("ibv_alloc_pd", [c_void_p]),
        ("ibv_reg_mr", [c_void_p, c_void_p, ctypes.c_size_t, c_int]),
        ("ibv_create_comp_channel", [c_void_p]),
        ("ibv_create_cq", [c_void_p, c_int, c_void_p, c_void_p, c_int]),
    ):
        function = getattr(lib, name)
        function.argtypes, function.restype = arguments, c_void_p
    for name in ("ibv_dealloc_pd", "ibv_dereg_mr", "ibv_destroy_comp_channel", "ibv_destroy_cq"):
        getattr(lib, name).argtypes = [c_void_p]
    lib.ibv_query_qp.argtypes = [c_void_p, c_void_p, c_int, c_void_p]
    lib.ibv_query_port.argtypes = [c_void_p, c_uint8, c_void_p]
    lib.ibv_query_pkey.argtypes = [c_void_p, c_uint8, c_int, c_void_p]
    lib._ibv_query_gid_ex.argtypes = [c_void_p, c_uint32, c_uint32, c_void_p, c_uint32, ctypes.c_size_t]
    lib.ibv_get_cq_event.argtypes = [c_void_p, POINTER(c_void_p), POINTER(c_void_p)]
    lib.ibv_ack_cq_events.argtypes = [c_void_p, c_uint32]
    return lib


def failed_call(call: str) -> PeerError:
    """Return the error for a failed ``call``, with the reason from errno."""
    number = ctypes.get_errno() or errno.EIO
    return PeerError(f"{call}: {os.strerror(number)}")


def created(pointer: int | None, call: str) -> int:
    """Return the object that ``call`` created. Raises :class:`PeerError` for a null pointer."""
    if not pointer:
        raise failed_call(call)
    return pointer


def word(address: int, kind: Any = c_uint64) -> int:
    """Return the integer of C type ``kind`` at ``address``."""
    return int(kind.from_address(address).value)


_symbols: dict[str, int] = {}


def bind_calls(context: int) -> None:
    """Bind the calls of the device to the symbols that kernels call. Raises :class:`InputError` if the device's
    provider differs from that of the first device."""
    from llvmlite import binding

    for name, at in CALLS.items():
        address = word(context + OPS_AT + at)
        if _symbols.setdefault(name, address) != address:
            raise InputError(
                "RDMA devices of two providers cannot be used in one process; use the devices of one provider"
            )
        binding.add_symbol(SYMBOL + name, address)


def bind_first_device() -> None:
    """Bind the calls of the first device, before the first connection. Raises :class:`InputError` if there is no
    device."""
    lib, count = rdmacm(), c_int()
    lib.rdma_get_devices.restype = c_void_p
    devices = lib.rdma_get_devices(byref(count))
    if not devices or not count.value:
        raise InputError("no RDMA device is here; start the program with 'softib run -- ...'")
    bind_calls(word(devices))
    lib.rdma_free_devices.argtypes = [c_void_p]
    lib.rdma_free_devices(devices)
