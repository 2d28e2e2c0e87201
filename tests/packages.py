"""Installed packages that declare entry points, as pip leaves them (the format of importlib.metadata)."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, package: str, group: str, entries: dict[str, str], module: str, text: str) -> None:
    """The module and the metadata of ``package``, whose entry points of ``group`` are ``entries``."""
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{package.replace('-', '_')}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    lines = [f"{name} = {value}\n" for name, value in entries.items()]
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "".join(lines))
