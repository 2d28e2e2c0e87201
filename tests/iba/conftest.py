"""Stock libibmad, and the numbers of its fields."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

HEADER = Path("/usr/include/infiniband/mad.h")


@pytest.fixture(scope="module")
def mad():
    try:
        lib = ctypes.CDLL("libibmad.so.5")
    except OSError:
        pytest.skip("libibmad.so.5 is not installed")
    lib.mad_get_field.restype = ctypes.c_uint32
    lib.mad_get_field64.restype = ctypes.c_uint64
    lib.mad_get_field.argtypes = lib.mad_get_field64.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    lib.mad_set_field.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint32)
    lib.mad_set_field64.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint64)
    return lib


@pytest.fixture(scope="module")
def numbers():
    if not HEADER.is_file():
        pytest.skip(f"{HEADER} (libibmad-dev) is not installed")
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    body = re.search(r"enum MAD_FIELDS \{(.*?)\};", text, re.S)[1]
    known, number = {}, -1
    for item in filter(None, (x.strip() for x in body.split(","))):
        name, _, same = (x.strip() for x in item.partition("="))
        number = known[same] if same else number + 1
        known[name] = number
    return known
