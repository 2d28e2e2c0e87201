"""PyTorch's flight recorder: the collectives that each rank had begun and ended when the watchdog ended the job.

A dump is JSON, or a pickle of plain values. Unpickling runs foreign code. So only opcodes that build numbers, texts,
lists and mappings are followed; a reference to a class or function is an error.
"""

from __future__ import annotations

import io
import os
import pickle
import re
from typing import Any

from softib.errors import UnreadableFile
from softib.foreign_text import shown
from softib.input_files import content, shown_name
from softib.job_logs.events import RankState
from softib.plain_values import load_json

__all__ = ["read_dump"]

DUMP_LIMIT = 256 << 20


class _PlainValues(pickle.Unpickler):
    """An unpickler that refuses every class and function."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside the file")


def read_dump(path: str | os.PathLike[str]) -> list[RankState] | None:
    """Return, for each process group, the state of the rank that wrote the dump; None for other files. Raises
    :class:`UnreadableFile` if a pickle has more than plain values, or is truncated."""
    data = content(path, DUMP_LIMIT, "flight recorder's dump").data
    try:
        if data.lstrip()[:1] == b"{":
            stated = load_json(data)
        else:
            stated = _PlainValues(io.BytesIO(data)).load()
    except ValueError:
        return None
    except Exception as error:  # a foreign pickle may raise any exception
        raise UnreadableFile(
            f"{shown_name(path)}: this pickle is not read ({shown(str(error), 80)}); only numbers, strings, lists and "
            f"mappings are read from a pickle; use the JSON dump"
        ) from None
    if not isinstance(stated, dict) or not isinstance(stated.get("entries"), list):
        return None
    return _states(stated, _rank_of(path, stated))


def _rank_of(path: str | os.PathLike[str], stated: dict[str, Any]) -> int:
    if isinstance(stated.get("rank"), int):
        return int(stated["rank"])
    number = re.search(r"(\d+)(?:\.\w+)?$", os.fspath(path))
    return int(number[1][:9]) if number else 0


def _states(stated: dict[str, Any], rank: int) -> list[RankState]:
    groups: dict[str, list[Any]] = {}
    for entry in stated["entries"]:
        if not isinstance(entry, dict) or entry.get("is_p2p"):
            continue
        number = entry.get("collective_seq_id", entry.get("seq_id"))
        if not isinstance(number, int):
            continue
        name = entry.get("process_group", entry.get("pg_id", ""))
        group = str(name[-1] if isinstance(name, list | tuple) and name else name)[:64]
        kept = groups.setdefault(group, [0, 0, ""])
        if number > kept[0]:
            kept[0] = number
            kept[2] = f"{entry.get('profiling_name', '')} {entry.get('input_sizes', '')}"[:120].strip()
        if entry.get("state") == "completed":
            kept[1] = max(kept[1], number)
    return [RankState(rank, group, begun, ended, name) for group, (begun, ended, name) in sorted(groups.items())]
