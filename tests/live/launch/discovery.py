"""The discovery of a Kubernetes device plugin, step by step as the table of docs/recipes/kubernetes.md restates it: prints its devices."""

import json
import os
import re

BUS, MADS, VERBS, CM = (
    "/sys/bus/pci/devices",
    "/sys/class/infiniband_mad",
    "/sys/class/infiniband_verbs",
    "/dev/infiniband/rdma_cm",
)
NETWORK = "02"


def read(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def characters(device: str) -> list[str]:
    """Its character devices: the first of each kind."""
    found = []
    for folder, prefix in ((MADS, "issm"), (MADS, "umad"), (VERBS, "uverbs")):
        names = [n for n in os.listdir(folder) if prefix in n and read(f"{folder}/{n}/ibdev") == device]
        found += [f"/dev/infiniband/{names[0]}"] if names else []
    return [*found, CM] if os.path.exists(CM) else found


devices = []
for address in sorted(os.listdir(BUS)):
    alias = re.fullmatch(
        r"pci:v0000(\w{4})d0000(\w{4})sv\w{8}sd\w{8}bc(\w\w)sc\w\wi\w\w", read(f"{BUS}/{address}/modalias")
    )
    if alias is None or alias[3] != NETWORK or not os.path.isdir(f"{BUS}/{address}/infiniband"):
        continue
    devices.append(
        {
            "address": address,
            "vendor": alias[1].lower(),
            "device": alias[2].lower(),
            "revision": read(f"{BUS}/{address}/revision"),
            "numa": read(f"{BUS}/{address}/numa_node"),
            "driver": os.path.basename(os.readlink(f"{BUS}/{address}/driver")),
            "interfaces": os.listdir(f"{BUS}/{address}/net"),
            "files": [f for name in os.listdir(f"{BUS}/{address}/infiniband") for f in characters(name)],
        }
    )
print(json.dumps(devices))
