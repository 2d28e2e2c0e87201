"""Changes a tenant database until it is killed; a line on stdout for each change that was acknowledged."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from concurrent.futures import ThreadPoolExecutor

from softib.tenants import changes
from softib.tenants.changes import Options
from softib.tenants.model import Member
from softib.tenants.service import TenantService


def main(folder: Path, first: int) -> None:
    service = TenantService(folder, lambda: None, None)  # type: ignore[arg-type,return-value]
    sys.stdout.write("ready\n")
    sys.stdout.flush()

    def change(number: int) -> None:
        pkey = number % 0x7FF0 + 1
        service.change(
            lambda d: changes.add_members(d, pkey, {number: Member()}, Options(), lambda guid: 0),
            "kill",
            "add",
            f"r{number}",
            "x",
        )
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(first, first + 100_000)))


if __name__ == "__main__":
    main(Path(sys.argv[2]), int(sys.argv[3]))
