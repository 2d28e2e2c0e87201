"""How often ``softib why`` names what was planted: ``python -m bench.why_stories.score FOLDER [--json FILE] [--show]``.

Each recorded story (:mod:`bench.why_stories.record`) is asked with what an operator has, by the function below ``softib why``. Of
every third story something is kept back, in turn: the server's log, the tables, one host's and one switch's counters, and all of the
history. Known are the hosts of the job (a scheduler knows them), never the story.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import softib
from bench.why_stories.record import stories

LACKS = ("server's log", "tables", "counters of a leaf", "history")
CONFIDENT = 0.8
HEALTHY = (
    "process-died",
    "hang",
    "receiver-not-ready",
    "application-error",
    "registration-limit",
    "gid-index",
    "tcp-fallback",
    "nothing",
)
SAME = {"core-cable-down": "cable-down", "core-bit-errors": "bit-errors"}


@dataclass
class Scored:
    """One story: what was planted and where, what was kept back, the causes named in order, the rank of the right one (0: none)."""

    story: str
    planted: str
    where: str
    lacks: str
    named: list[str] = field(default_factory=list)
    rank: int = 0
    probability: float = 0.0
    place_right: bool = True
    wrong_and_sure: bool = False
    seconds: float = 0.0
    error: str = ""


def score(folder: Path, scratch: Path) -> Scored:
    """Ask one story."""
    truth = json.loads((folder / "truth.json").read_text())
    number = truth["number"]
    lacks = LACKS[(number // 3) % len(LACKS)] if number % 3 == 2 else ""
    one = Scored(folder.name, SAME.get(truth["cause"], truth["cause"]), truth["where"], lacks)
    logs = sorted(p for p in folder.glob("*.log") if not (lacks == "server's log" and p.name == "server.log"))
    if truth.get("mixed"):
        logs = [one_log(logs, {p["log"]: p["node"] for p in truth["programs"]}, scratch / f"{folder.name}.log")]
    given: dict[str, object] = {"hosts": truth["hosts"], "at": truth["ended"]}
    if truth["fabric"] not in ("parts", "limited"):
        given |= {"fabric": folder / "fabric.ibnetdiscover"} | (
            {} if lacks == "tables" else {"lfts": folder / "tables.lft"}
        )
    else:
        given["fabric"] = folder / "fabric.yaml"
    if lacks == "counters of a leaf":
        given["history"] = without_leaf(folder / "history", scratch / folder.name, truth)
    elif lacks != "history":
        given["history"] = folder / "history"
    began = time.monotonic()
    try:
        said = softib.why(*logs, **given).to_json()
    except softib.SoftibError as error:
        one.error = str(error)
        return one
    one.seconds = round(time.monotonic() - began, 2)
    judge(one, said)
    return one


def one_log(logs: list[Path], nodes: dict[str, str], into: Path) -> Path:
    """All lines in one file, a line of each log in turn, behind the host's name where the log is a host's."""
    several = [
        [f"{nodes[log.name]}: {line}" if log.name in nodes else line for line in log.read_text().splitlines()]
        for log in logs
    ]
    into.write_text("".join(f"{line}\n" for row in zip_longest(*several) for line in row if line is not None))
    return into


def at(one: Scored, cause: dict[str, Any]) -> bool:
    """Is the first place of a cause the planted one? A host's cause may name the host of the planted port."""
    where = cause["where"][0]["where"] if cause["where"] else ""
    return not one.where or not where or one.where in where or where == one.where.partition("[")[0]


def judge(one: Scored, said: dict[str, object]) -> None:
    """Compare what was named with what was planted."""
    causes = said["causes"]
    assert isinstance(causes, list)
    one.named = [f"{c['code']} {c['probability']:.2f}" for c in causes[:4]]
    for rank, cause in enumerate(causes, 1):
        if cause["code"] == one.planted:
            one.rank, one.probability = rank, cause["probability"]
            one.place_right = at(one, cause)
            break
    first = causes[0]
    at_place = at(one, first)
    place_p = first["where"][0]["probability"] if first["where"] else first["probability"]
    one.wrong_and_sure = (first["probability"] >= CONFIDENT and first["code"] != one.planted) or (
        place_p >= CONFIDENT and not at_place
    )
    if one.rank == 1 and not at_place:
        one.rank = 9


def without_leaf(history: Path, copy: Path, truth: dict[str, object]) -> Path:
    """The history without the counters of the leaf at the first host, as one whose agent did not answer."""
    import duckdb

    for path in history.rglob("*.parquet"):
        target = copy / path.relative_to(history)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.name != "rounds":
            target.write_bytes(path.read_bytes())
            continue
        ports = next((history / "ports").glob("*.parquet"))
        duckdb.execute(
            f"copy (select * from '{path}' where guid not in (select guid from '{ports}' where node = '{truth['leaf']}')) to '{target}'"
        )
    return copy


def table(every: list[Scored]) -> list[str]:
    """A line a kind, and the sums."""
    out = [f"{'planted':20} {'stories':>7} {'first':>6} {'in 3':>5} {'sure, wrong':>11} {'mean p':>7} {'s':>5}"]
    groups = [(k, [s for s in every if s.planted == k]) for k in sorted({s.planted for s in every})]
    groups += [(f"without {k}" if k else "with everything", [s for s in every if s.lacks == k]) for k in ("", *LACKS)]
    groups += [("healthy fabric", [s for s in every if s.planted in HEALTHY]), ("all", every)]
    for name, some in groups:
        if some:
            first, three = sum(s.rank == 1 for s in some), sum(1 <= s.rank <= 3 for s in some)
            wrong, p = sum(s.wrong_and_sure for s in some), sum(s.probability for s in some) / len(some)
            out.append(
                f"{name:20} {len(some):7} {first:6} {three:5} {wrong:11} {p:7.2f} {sorted(s.seconds for s in some)[len(some) // 2]:5.1f}"
            )
    return out


def missed(folder: Path) -> bool:
    """Did the fault come too late for the programs, on a busy machine? They all ended well then, and there is no failure to explain."""
    truth = json.loads((folder / "truth.json").read_text())
    return truth["cause"] not in ("nothing", "tcp-fallback") and not any(truth["exit_codes"].values())


def main() -> None:
    """Score all stories of a folder."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument(
        "--json", type=Path, help="the result of every story; those that are in it are not asked again"
    )
    options.add_argument("--show", action="store_true", help="each story whose right cause is not first")
    given = options.parse_args()
    recorded = sorted(p.parent for p in given.folder.glob("*/truth.json") if p.parent.suffix != ".part")
    folders = [p for p in recorded if not missed(p)]
    every = []
    if given.json and given.json.exists():
        every = [Scored(**one) for one in json.loads(given.json.read_text())]
    known = {s.story for s in every}
    with tempfile.TemporaryDirectory() as scratch:
        for folder in (p for p in folders if p.name not in known):
            one = score(folder, Path(scratch))
            every.append(one)
            if given.show and one.rank != 1:
                print(f"  {one.story} ({one.lacks}): {one.planted} {one.where}: {one.error or one.named}", flush=True)
    every.sort(key=lambda s: s.story)
    print("\n".join(table(every)))
    print(
        f"recorded: {len(recorded)} of {len(stories())}; not asked, since the fault came after the programs: {len(recorded) - len(folders)}"
    )
    print(f"errors: {Counter(s.error for s in every if s.error).most_common(3)}")
    if given.json:
        given.json.write_text("[\n" + ",\n".join(json.dumps(asdict(s)) for s in every) + "\n]\n")


if __name__ == "__main__":
    main()
