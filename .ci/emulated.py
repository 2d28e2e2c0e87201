"""A Python of another processor from Debian's packages, run by qemu-user, with a wheel and its requirements."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

DEBIAN = {"aarch64": "arm64", "x86_64": "amd64"}
PYTHON = "python3"


def foreign_python(tools: Path, folder: Path, processor: str, wheel: Path) -> tuple[str, str]:
    """(command that runs ``wheel`` on ``processor``, "") or ("", reason)."""
    qemu = shutil.which(f"qemu-{processor}-static") or shutil.which(f"qemu-{processor}")
    if qemu is None:
        return "", f"not started: install qemu-user-static, which has qemu-{processor}-static"
    if shutil.which("apt-get") is None:
        return "", "not started: its Python comes from Debian's packages, and this is not Debian"
    root = folder / "root"
    unpack(folder, root, DEBIAN[processor])
    version = next((root / "usr/bin").glob("python3.*[0-9]")).name.removeprefix("python")
    packages = folder / "packages"
    subprocess.run(
        [
            tools / "uv",
            "pip",
            "install",
            "--quiet",
            "--target",
            packages,
            "--only-binary",
            ":all:",
            "--python-platform",
            f"{processor}-manylinux_2_28",
            "--python-version",
            version,
            wheel,
        ],
        check=True,
    )
    cache = folder / "cache"
    settings = f"-E PYTHONPATH={packages} -E SOFTIB_CACHE_DIR={cache}"
    return f"{qemu} -L {root} {settings} {root}/usr/bin/python{version}", ""


def unpack(folder: Path, root: Path, architecture: str) -> None:
    """Debian's Python of ``architecture`` with what it depends on, in ``root``; nothing is installed."""
    for name in ("lists/partial", "archives/partial"):
        (folder / "apt" / name).mkdir(parents=True, exist_ok=True)
    (folder / "apt/status").touch()
    apt = [
        "apt-get",
        "-qq",
        "-o",
        f"APT::Architecture={architecture}",
        "-o",
        f"APT::Architectures={architecture}",
        "-o",
        f"Dir::State::lists={folder}/apt/lists",
        "-o",
        f"Dir::State::status={folder}/apt/status",
        "-o",
        f"Dir::Cache={folder}/apt",
        "-o",
        f"Dir::Cache::archives={folder}/apt/archives",
        "-o",
        "Debug::NoLocking=1",
        "-o",
        "APT::Sandbox::User=root",
    ]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run(
        [*apt, "install", "--yes", "--download-only", "--no-install-recommends", PYTHON, "libgcc-s1", "libstdc++6"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    root.mkdir(parents=True, exist_ok=True)
    for package in sorted((folder / "apt/archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
