"""NIXL with its UCX backend: a write to the other agent's memory with a notification, and a read."""

import ctypes
import time

from meet import ROLE, SIZE, check, get, pattern, put
from nixl_cu12 import _api as nixl

memory = (ctypes.c_ubyte * SIZE)()
address = ctypes.addressof(memory)
agent = nixl.nixl_agent(ROLE, nixl.nixl_agent_config(backends=["UCX"]))
region = agent.register_memory([(address, SIZE, 0, "")], "DRAM")
local = agent.get_xfer_descs([(address, SIZE, 0)], "DRAM")


def move(operation: str, remote: object) -> None:
    handle = agent.initialize_xfer(operation, local, remote, "server", b"moved")
    state = agent.transfer(handle)
    while state == "PROC":
        time.sleep(0.001)
        state = agent.check_xfer_state(handle)
    if state != "DONE":
        raise SystemExit(f"{operation}: {state}")
    agent.release_xfer_handle(handle)


if ROLE == "server":
    put("server", agent.get_agent_metadata())
    put("memory", str(address))
    agent.add_remote_agent(get("client"))
    get("written")
    check(bytes(memory), 1)
    ctypes.memmove(address, pattern(2), SIZE)
    put("changed", "")
    get("read")
else:
    put("client", agent.get_agent_metadata())
    agent.add_remote_agent(get("server"))
    there = agent.get_xfer_descs([(int(get("memory")), SIZE, 0)], "DRAM")
    ctypes.memmove(address, pattern(1), SIZE)
    move("WRITE", there)
    put("written", "")
    get("changed")
    move("READ", there)
    check(bytes(memory), 2)
    put("read", "")
agent.deregister_memory(region)
