"""Mooncake's transfer engine: a synchronous write to the other node's memory, and a read of it."""

import ctypes

from meet import ROLE, SIZE, check, get, pattern, put
from mooncake.engine import TransferEngine

engine = TransferEngine()
if engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", ""):
    raise SystemExit("initialize failed")
memory = engine.allocate_managed_buffer(SIZE)
data = (ctypes.c_ubyte * SIZE).from_address(memory)
if ROLE == "server":
    ctypes.memset(memory, 0, SIZE)
    put("target", f"127.0.0.1:{engine.get_rpc_port()} {memory}")
    get("written")
    check(bytes(data), 1)
    ctypes.memmove(memory, pattern(2), SIZE)
    put("changed", "")
    get("read")
else:
    peer, address = get("target").decode().split()
    ctypes.memmove(memory, pattern(1), SIZE)
    if engine.transfer_sync_write(peer, memory, int(address), SIZE):
        raise SystemExit("write failed")
    put("written", "")
    get("changed")
    if engine.transfer_sync_read(peer, memory, int(address), SIZE):
        raise SystemExit("read failed")
    check(bytes(data), 2)
    put("read", "")
