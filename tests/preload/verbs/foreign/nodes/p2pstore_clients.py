"""p2pstore over Mooncake's engine: one node puts objects, the other gets them. Their directory is a Redis server."""

import asyncio
import os

from meet import ROLE, check, get, pattern, put
from p2pstore import P2PClient, P2PConfig

KEYS = 4


async def main() -> None:
    client = P2PClient(
        P2PConfig(metadata_server=os.environ["REDIS"], local_host="127.0.0.1", protocol="rdma", device="mlx5_0")
    )
    if ROLE == "server":
        for key in range(KEYS):
            await client.put(f"key-{key}", pattern(key, 1 << 20))
        put("stored", "")
        get("fetched")
    else:
        get("stored")
        for key in range(KEYS):
            check(bytes(await client.get(f"key-{key}")), key)
        put("fetched", "")


asyncio.run(main())
os._exit(0)  # its threads have no end
