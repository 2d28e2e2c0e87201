"""DLSlime: an endpoint on each node, a write and a read over its queue pairs."""

import ctypes
import json
from pathlib import Path

from dlslime import _slime_c as slime
from meet import ROLE, SIZE, check, get, pattern, put

memory = (ctypes.c_ubyte * SIZE)()
address = ctypes.addressof(memory)
device = slime.available_nic()[0]
layer = Path(f"/sys/class/infiniband/{device}/ports/1/link_layer").read_text().strip()
link = {"InfiniBand": "IB", "Ethernet": "RoCE"}[layer]
endpoint = slime.RDMAEndpoint(device_name=device, ib_port=1, link_type=link, num_qp=2)
here = endpoint.register_memory_region("memory", address, 0, SIZE)
put(ROLE, json.dumps([endpoint.endpoint_info(), endpoint.mr_info()]))
info, regions = json.loads(get("client" if ROLE == "server" else "server"))
endpoint.connect(info)
there = endpoint.register_remote_memory_region("memory", regions["memory"])
if ROLE == "server":
    put("connected", "")
    get("written")
    check(bytes(memory), 1)
    ctypes.memmove(address, pattern(2), SIZE)
    put("changed", "")
    get("read")
else:
    get("connected")
    ctypes.memmove(address, pattern(1), SIZE)
    endpoint.write([(here, there, 0, 0, SIZE)]).wait()
    put("written", "")
    get("changed")
    endpoint.read([(here, there, 0, 0, SIZE)]).wait()
    check(bytes(memory), 2)
    put("read", "")
