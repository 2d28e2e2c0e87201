"""Mooncake's store: objects that one client puts into the segment of the other, and that the other gets back."""

import os

from meet import ROLE, check, get, pattern, put
from mooncake.store import MooncakeDistributedStore

SEGMENT = 64 << 20
KEYS = 8
store = MooncakeDistributedStore()
# The client that puts has no segment, so that its objects go to the other node.
done = store.setup(
    "127.0.0.1", "P2PHANDSHAKE", SEGMENT if ROLE == "server" else 0, SEGMENT, "rdma", "", os.environ["MASTER"]
)
if done:
    raise SystemExit(f"setup failed: {done}")
if ROLE == "server":
    put("segment", "")
    get("stored")
    for key in range(KEYS):
        check(store.get(f"key-{key}"), key)
    put("checked", "")
    get("fetched")
else:
    get("segment")
    for key in range(KEYS):
        if store.put(f"key-{key}", pattern(key, 1 << 20)):
            raise SystemExit(f"put of key-{key} failed")
    put("stored", "")
    get("checked")
    for key in range(KEYS):
        check(store.get(f"key-{key}"), key)
    put("fetched", "")
store.close()
