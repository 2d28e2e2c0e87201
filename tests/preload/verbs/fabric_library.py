"""``preload/verbs/fabric`` compiled by itself, and its structures in ctypes."""

from __future__ import annotations

import ctypes as ct
import functools
import subprocess
from pathlib import Path

import pytest

from softib.live.shared_fabric import SharedFabric
from softib.preload import build
from tests.scratch import scratch

SOURCES = Path(build.__file__).parent / "verbs" / "fabric"
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
LINKS, NO_PORT = 128, 0xFFFFFFFF
REASONS = ("ok", "not active", "link down", "no route", "loop", "no vl", "mtu", "pkey", "pkey at switch", "gid", "slow")


class RouteKey(ct.Structure):
    _fields_ = [
        ("port", ct.c_uint32),
        ("dlid", ct.c_uint16),
        ("pkey", ct.c_uint16),
        ("dest_pkey", ct.c_uint16),
        ("sl", ct.c_uint8),
        ("mtu", ct.c_uint8),
        ("transport", ct.c_uint8),
        ("number", ct.c_uint16),
        ("is_global", ct.c_bool),
        ("dgid", ct.c_uint8 * 16),
    ]


class Path_(ct.Structure):
    _fields_ = [
        ("epoch", ct.c_uint64),
        ("reason", ct.c_int),
        ("dest", ct.c_uint32),
        ("drop", ct.c_uint32),
        ("counter", ct.c_uint8),
        ("mtu", ct.c_uint8),
        ("vl", ct.c_uint8),
        ("choices", ct.c_uint16),
        ("rest", ct.c_uint32),
        ("keep_us", ct.c_uint32),
        ("links", ct.c_uint16),
        ("egress", ct.c_uint32 * LINKS),
    ]


class Tree(ct.Structure):
    _fields_ = [
        ("epoch", ct.c_uint64),
        ("reason", ct.c_int),
        ("dests_n", ct.c_uint32),
        ("links_n", ct.c_uint32),
        ("dests", ct.POINTER(ct.c_uint32)),
        ("egress", ct.POINTER(ct.c_uint32)),
    ]


class Direction(ct.Structure):
    _fields_ = [("egress", ct.c_void_p), ("links", ct.c_uint32), ("drop", ct.c_uint32), ("counter", ct.c_uint8)]


class Label(ct.Structure):
    _fields_ = [
        ("key", ct.c_uint32),
        ("qp", ct.c_uint32 * 2),
        ("slid", ct.c_uint16),
        ("dlid", ct.c_uint16),
        ("sl", ct.c_uint8),
        ("multicast", ct.c_bool),
    ]


class WireSize(ct.Structure):
    _fields_ = [("packets", ct.c_uint64), ("dwords", ct.c_uint64)]


class Flow(ct.Structure):
    _fields_ = [
        ("epoch", ct.c_uint64),
        ("dest", ct.c_uint32),
        ("reason", ct.c_uint8 * 2),
        ("mtu", ct.c_uint8),
        ("vl", ct.c_uint8),
        ("links", ct.c_uint16 * 2),
        ("choices", ct.c_uint16),
        ("keep_us", ct.c_uint32),
        ("cell", ct.c_void_p),
        ("loss", ct.c_double * 4),
    ]


@functools.cache
def library_path() -> Path:
    """Compiled once a test run."""
    cc = build.compiler()
    if cc is None:
        pytest.skip("no C compiler")
    to = scratch("softib-fabric-") / "fabric.so"
    sources = [str(p) for p in sorted(SOURCES.rglob("*.c"))]
    probe = Path(__file__).with_name("fabric_probe.c")
    done = subprocess.run(
        [
            *cc.split(),
            *FLAGS,
            *build.include_flags(),
            "-I",
            str(SOURCES),
            "-o",
            str(to),
            *sources,
            str(probe),
            "-lpthread",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return to


def library() -> ct.CDLL:
    made = ct.CDLL(str(library_path()))
    made.sv_wire_size_of.restype = WireSize
    made.sv_wire_size_of.argtypes = [ct.c_int, ct.c_uint, ct.c_uint64, ct.c_uint32]
    made.probe_walk_many.restype = ct.c_double
    made.sv_cell_new.restype = ct.c_void_p
    made.sv_cell_new.argtypes = [ct.c_void_p, ct.POINTER(Direction * 2), ct.POINTER(Label)]
    made.sv_cell_is_on.restype = ct.c_bool
    made.sv_cell_is_on.argtypes = [ct.c_void_p, ct.c_void_p, ct.POINTER(Direction * 2)]
    for name in ("probe_count", "probe_count_shared"):
        getattr(made, name).argtypes = [ct.c_void_p, ct.c_uint, ct.c_uint64, ct.c_uint64]
    made.sv_cell_retire.argtypes = [ct.c_void_p]
    return made


class SharedFabricInC:
    """A fabric's board as C walks it."""

    def __init__(self, folder: Path, fabric) -> None:
        self.library = library()
        self.shared = SharedFabric.create(folder / "shared_fabric", fabric)
        self.fabric = self.shared.fabric
        self.memory = ct.create_string_buffer(4096)
        why = ct.create_string_buffer(512)
        error = self.library.sv_shared_fabric_map(
            self.memory, *self.shared.files, b"shared_fabric", why, ct.c_size_t(len(why))
        )
        assert error == 0, why.value

    def walk(self, port: int, dlid: int, **more: int) -> Path_:
        route, path = RouteKey(port=int(port), dlid=int(dlid), **({"pkey": 0xFFFF} | more)), Path_()
        self.library.sv_path_walk(self.memory, ct.byref(route), ct.byref(path))
        return path

    def tree(self, port: int, mlid: int, **more: int) -> tuple[str, list[int], list[int]]:
        """(reason, ports that a copy reaches, ports that one leaves)."""
        route, tree = RouteKey(port=int(port), dlid=int(mlid), **({"pkey": 0xFFFF} | more)), Tree()
        assert self.library.sv_tree_walk(self.memory, ct.byref(route), ct.byref(tree)) == 0
        result = REASONS[tree.reason], tree.dests[: tree.dests_n], tree.egress[: tree.links_n]
        self.library.sv_tree_free(ct.byref(tree))
        return result


def reason(path: Path_) -> str:
    return REASONS[path.reason]


def egress(path: Path_) -> list[int]:
    return list(path.egress[: path.links])


class Device(ct.Structure):
    _fields_ = [
        ("name", ct.c_char * 64),
        ("node", ct.c_uint32),
        ("node_guid", ct.c_uint64),
        ("sys_image_guid", ct.c_uint64),
        ("vendor_id", ct.c_uint32),
        ("vendor_part_id", ct.c_uint32),
        ("hw_ver", ct.c_uint32),
        ("fw", ct.c_char * 64),
        ("desc", ct.c_char * 65),
        ("node_type", ct.c_uint8),
        ("ports", ct.c_uint8),
        ("portnums", ct.c_uint8 * 256),
        ("portnums_n", ct.c_uint),
    ]


class Port(ct.Structure):
    _fields_ = [
        *((n, ct.c_uint16) for n in ("lid", "sm_lid", "pkey_tbl_len", "gid_tbl_len", "bad_pkeys", "bad_qkeys")),
        ("cap_mask", ct.c_uint32),
        ("cap_mask2", ct.c_uint16),
        *(
            (n, ct.c_uint8)
            for n in (
                "state",
                "phys_state",
                "lmc",
                "sm_sl",
                "subnet_timeout",
                "init_type_reply",
                "max_vl_num",
                "max_mtu",
                "active_mtu",
                "active_width",
            )
        ),
        ("is_ethernet", ct.c_bool),
        ("active_speed", ct.c_uint32),
    ]
