"""The properties of a program that decide whether a preload library has an effect on it (from the ELF
specification)."""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Executable", "look_at"]

ELF_MAGIC = b"\x7fELF"
HEAD = 1 << 18
"""Bytes of a file that are read. They include the program headers, the notes, and the dynamic string table, which
linkers put in front of the code."""
LINKED = (b"libibverbs.so.", b"librdmacm.so.")
PT_INTERP, PT_NOTE = 3, 4
MACHINES = {
    3: "x86",
    8: "MIPS",
    20: "PowerPC",
    21: "PowerPC64",
    22: "S390",
    40: "ARM",
    62: "x86-64",
    183: "AArch64",
    243: "RISC-V",
    258: "LoongArch",
}


@dataclass(frozen=True)
class Executable:
    """``bits`` and ``machine`` (e_machine) of an ELF file. ``static``: it has no loader, so no library is preloaded.
    ``go``: it makes system calls directly and does not call libibverbs through cgo.
    ``privileged``: set-user-ID, for which the loader ignores LD_PRELOAD."""

    path: Path
    bits: int
    machine: int
    static: bool
    go: bool
    privileged: bool

    @property
    def kind(self) -> str:
        """Return the kind of processor, for example ``32-bit ARM``."""
        return f"{self.bits}-bit {MACHINES.get(self.machine, f'machine {self.machine}')}"

    @property
    def deaf(self) -> str:
        """Return the reason why a preload library has no effect on the program; empty if it has an effect."""
        if self.static:
            return "is statically linked"
        if self.go:
            return "is a Go program, which makes its system calls itself"
        return (
            "is set-user-ID and runs with the rights of another user, so nothing can be preloaded"
            if self.privileged
            else ""
        )


def look_at(path: Path, depth: int = 4) -> Executable | None:
    """Return the ELF program that runs when ``path`` is executed (a script's interpreter); None if
    it is unknown."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
            mode = os.fstat(file.fileno())
    except OSError:
        return None
    if head[:2] == b"#!" and depth:
        command = head.split(b"\n")[0][2:].split()
        return look_at(Path(os.fsdecode(command[0])), depth - 1) if command else None
    if len(head) < 64 or head[:4] != ELF_MAGIC or head[4] not in (1, 2):
        return None
    end = "<" if head[5] == 1 else ">"
    wide = head[4] == 2
    segments = _segments(head, end, wide)
    notes = [head[at : at + size] for kind, at, size in segments if kind == PT_NOTE]
    privileged = bool(mode.st_mode & (stat.S_ISUID | stat.S_ISGID)) and os.geteuid() != mode.st_uid
    return Executable(
        path,
        64 if wide else 32,
        struct.unpack_from(f"{end}H", head, 18)[0],
        bool(segments) and all(kind != PT_INTERP for kind, _, _ in segments),
        any(_is_go(n, end) for n in notes) and not any(name in head for name in LINKED),
        privileged,
    )


def _segments(head: bytes, end: str, wide: bool) -> list[tuple[int, int, int]]:
    """Yield (type, offset, size) of each program header in ``head``."""
    table, each, count = (
        (struct.unpack_from(f"{end}Q", head, 32)[0], *struct.unpack_from(f"{end}HH", head, 54))
        if wide
        else (struct.unpack_from(f"{end}I", head, 28)[0], *struct.unpack_from(f"{end}HH", head, 42))
    )
    segments = []
    for i in range(count):
        at = table + i * each
        if at + each > len(head) or each < (56 if wide else 32):
            break
        if wide:
            kind, offset, size = (
                *struct.unpack_from(f"{end}I", head, at),
                *struct.unpack_from(f"{end}Q", head, at + 8),
                *struct.unpack_from(f"{end}Q", head, at + 32),
            )
        else:
            kind, offset, size = (
                *struct.unpack_from(f"{end}II", head, at),
                *struct.unpack_from(f"{end}I", head, at + 16),
            )
        segments.append((kind, offset, size))
    return segments


def _is_go(notes: bytes, end: str) -> bool:
    """Return whether the file has the linker's note of a Go build."""
    at = 0
    while at + 12 <= len(notes):
        name, size, _ = struct.unpack_from(f"{end}III", notes, at)
        if notes[at + 12 : at + 12 + name].rstrip(b"\0") == b"Go":
            return True
        at += 12 + (name + 3 & ~3) + (size + 3 & ~3)
    return False
