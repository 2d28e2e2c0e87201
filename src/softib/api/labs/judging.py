"""Judgement of the answers and repairs of a laboratory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.api.labs.exercise import ANSWERS, Answer, Exercise, Repair
from softib.errors import InputError, SoftibError, UnknownName, UnreadableFile
from softib.input_files import read_text
from softib.plural import counted

if TYPE_CHECKING:
    from softib.api.fabric import Fabric

__all__ = ["GOALS", "NOT_EDITED", "NO_ANSWER", "answer_error", "answers_of", "repair_error", "required"]


def required(path: Path, number: int) -> Path:
    """Return ``path``. Raises :class:`UnreadableFile` if it is missing."""
    if not path.is_file():
        raise UnreadableFile(
            f"{path}: this file of laboratory {number} is missing; run 'softib lab {number}' to restore it"
        )
    return path


def answers_of(exercise: Exercise, folder: Path) -> dict[str, Any]:
    """Return the answers in the file of answers, None if there are none yet. Raises
    :class:`UnreadableFile` for a file that is missing or is not a list of answers."""
    from softib.plain_yaml import load_plain_yaml

    path = required(folder / ANSWERS, exercise.number)
    read = load_plain_yaml(read_text(path, "file of answers"), str(path), "file of answers")
    names = [a.name for a in exercise.answers]
    if not isinstance(read, dict):
        raise UnreadableFile(f"{path}: no answers; write '{names[0]}: …'")
    for name in read:
        if name not in names:
            raise UnreadableFile(f"{path}: {name!r} is not a question of this laboratory; answer {', '.join(names)}")
    return {name: read.get(name) for name in names}


NO_ANSWER = "no answer yet"
NOT_EDITED = "not edited yet"
"""Message about a part that a student has not begun, which does not count as a mistake."""


def answer_error(answer: Answer, given: Any, fabric: Fabric) -> str:
    """Return the error of an answer; "" if it is right. ``fabric`` defines the valid names."""
    if given is None or not str(given).replace(",", " ").strip():
        return NO_ANSWER
    if isinstance(given, dict | list) and (answer.kind != "nodes" or not isinstance(given, list)):
        return f"one {answer.kind} is asked"
    try:
        return _KINDS[answer.kind](answer, given, fabric)
    except UnknownName as error:
        close = error.args[0].partition("; ")[0] if error.args else str(error)
        return f"{close}; names are those of the fabric file"
    except SoftibError as error:
        return str(error)


_NUMBER = re.compile(r"\D{0,12}?(\d[\d ',.]*)(?:%|×|[A-Za-z][A-Za-z/ ]*)?")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def _value_of(text: str) -> float | None:
    """Return the number in an answer, for example in ``75 %``, ``48,200``, ``2,95``, ``LID 22`` or ``0x16``. None if
    there is no number or more than one."""
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text):
        return float(int(text, 16))
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    digits = match[1].strip().replace(" ", "").replace("'", "")
    digits = digits.replace(",", "") if _GROUPED.fullmatch(digits) else digits.replace(",", ".")
    try:
        return float(digits)
    except ValueError:
        return None


def _number(answer: Answer, given: Any, fabric: Fabric) -> str:
    value, right = _value_of(str(given).strip()), float(answer.right)
    if value is None:
        return f"{given}: one number is asked"
    if abs(value - right) <= answer.within * abs(right):
        return ""
    return f"{given} is too {'much' if value > right else 'little'}"


def _word(answer: Answer, given: Any, fabric: Fabric) -> str:
    def plain(text: Any) -> str:
        return str(text).casefold().strip().replace("_", "-")

    return "" if plain(given) in map(plain, _rights(answer)) else f"{given} is not it"


def _rights(answer: Answer) -> list[Any]:
    return answer.right if isinstance(answer.right, list) else [answer.right]


def _node(text: str, fabric: Fabric) -> str:
    """Return the name of the node that ``text`` names, directly or by one of its ports."""
    from softib.fabric.node_finder import split_port

    name = text.strip()
    split = split_port(name)
    name = name if split is None else split[0]
    names = {str(one).casefold(): str(one) for one in fabric.nodes.column("name")}
    node_name: str = names.get(name.casefold()) or fabric[name].name  # type: ignore[union-attr]
    return node_name


def _port_of(text: str, fabric: Fabric) -> tuple[str, str]:
    """Return (the port that ``text`` names, the port at the other end of its cable)."""
    from softib.fabric.node_finder import split_port

    split = split_port(text.strip())
    if split is None:
        raise InputError(f"{text} is not a port; answer with a port, for example leaf-1[3]")
    row = fabric[f"{_node(split[0], fabric)}[{split[1]}]"]
    assert isinstance(row, dict)
    return f"{row['node']}[{row['port']}]", str(row["peer"])


def _ports_of(given: Any, fabric: Fabric) -> list[tuple[str, str]]:
    """Return the ports in an answer: one, or both ends of a cable."""
    parts = re.split(r"↔|,| to | and | - ", str(given))
    return [_port_of(part, fabric) for part in parts if part.strip()]


def _port(answer: Answer, given: Any, fabric: Fabric) -> str:
    named = {port for port, _ in _ports_of(given, fabric)}
    right = [_port_of(str(place), fabric) for place in _rights(answer)]
    of_one = any(port in named and named <= {port, peer} for port, peer in right)
    return "" if of_one else f"{given} is not it"


def _cable(answer: Answer, given: Any, fabric: Fabric) -> str:
    named = {port for port, _ in _ports_of(given, fabric)}
    right = [_port_of(str(place), fabric) for place in _rights(answer)]
    return "" if named and any(named <= set(ends) for ends in right) else f"{given} is not it"


def _nodes(answer: Answer, given: Any, fabric: Fabric) -> str:
    names = given if isinstance(given, list) else re.split(r",| and ", str(given))
    named = {_node(str(name), fabric) for name in names if str(name).strip()}
    right = set(_rights(answer))
    if named == right:
        return ""
    if named and named < right:
        return f"{', '.join(sorted(named))}: right, and {counted(len(right - named), 'node')} more"
    return f"{', '.join(sorted(named - right))} is not it"


_KINDS: dict[str, Callable[[Answer, Any, Fabric], str]] = {
    "number": _number,
    "word": _word,
    "port": _port,
    "cable": _cable,
    "node": _nodes,
    "nodes": _nodes,
}


def repair_error(repair: Repair, exercise: Exercise, folder: Path) -> str:
    """Return the error that remains after a repair; "" if there is none."""
    path = required(folder / repair.file, exercise.number)
    given_out = {**exercise.fabrics, **exercise.files}[repair.file]
    try:
        if repair.goal != "standby" and read_text(path, "file of a laboratory").strip() == given_out.strip():
            return NOT_EDITED
        if repair.free:
            _check_rest(path, given_out, repair.free)
        return GOALS[repair.goal](path, **repair.needs)
    except SoftibError as error:
        return str(error)


def _check_rest(path: Path, given_out: str, free: Sequence[str]) -> None:
    """Check that the file differs from the original only in the keys ``free``. Raises :class:`InputError`."""
    from softib.plain_yaml import load_plain_yaml

    def rest(text: str) -> Any:
        return _without(load_plain_yaml(text, str(path), "YAML file"), free)

    if rest(read_text(path, "YAML file")) != rest(given_out):
        raise InputError(f"only {' and '.join(free)} may change; to restore the file, delete it and begin again")


def _without(value: Any, keys: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(one, keys) for name, one in value.items() if name not in keys}
    return [_without(one, keys) for one in value] if isinstance(value, list) else value


def _as_planned(path: Path, plan: str) -> str:
    """Check that the fabric has the cables of ``plan`` (a fabric.yaml) and no finding."""
    import softib
    from softib.api.labs.lab import fabric_of

    findings = softib.check(path, severity="warning")
    if len(findings):
        worst = findings[0]
        return f"{worst.code}: {worst.message}"
    other = softib.diff(fabric_of(plan), softib.load(path))
    return (
        f"no finding, but {counted(len(other), 'difference')} from the fabric as planned: {other[0].message}"
        if len(other)
        else ""
    )


def _deadlock_free(path: Path, hops: float) -> str:
    """Check that there is no credit loop and no pair without a path, and that paths have at most
    ``hops`` hops on average."""
    import softib

    routing = softib.route(path)
    if not routing.deadlock_free:
        return f"the tables are those of {routing.engine}: a credit loop can form"
    if routing.unreachable:
        return f"{routing.engine}: {counted(routing.unreachable, 'pair')} without a path"
    shares = routing.hops
    mean = sum(passed * share for passed, share in shares.items()) / sum(shares.values())
    return (
        f"{routing.engine}: no credit loop, but paths pass {mean:.2f} switches in the mean; {hops:.2f} is possible"
        if mean > hops * 1.001
        else ""
    )


def _partitions(path: Path, fabric: str, meet: Sequence[Sequence[str]], apart: Sequence[Sequence[str]]) -> str:
    """Check that on ``fabric`` every pair of ``meet`` shares a partition in which at least one of
    them is a full member, and no pair of ``apart`` does."""
    import softib

    routing = softib.route(path.with_name(fabric))
    for a, b in meet:
        if "drops the packets" in (ended := routing.path(a, b).ended):
            return f"{a} and {b}: {ended}"
    for a, b in apart:
        if "drops the packets" not in routing.path(a, b).ended:
            return f"{a} reaches {b}, and should not"
    return ""


def _no_shared_link(path: Path, fabric: str, sources: Sequence[str], size: str, leaves: dict[str, int]) -> str:
    """Check a traffic file. Each of ``sources`` must send one flow of ``size``; each leaf in ``leaves`` must receive
    the number of flows given there; and the links between switches must not be slower for these flows than the hosts'
    links."""
    import csv

    import softib

    flows = [row for row in csv.reader(read_text(path, "traffic matrix").split()) if row][1:]
    if sorted((row[0], row[-1]) for row in flows) != sorted((one, size) for one in sources):
        return f"one flow of {size} from each of {', '.join(sources)} is asked"
    loaded = softib.load(path.with_name(fabric))
    for leaf, number in leaves.items():
        there = {row[1] for row in flows} & set(loaded[leaf].peers)  # type: ignore[union-attr]
        if len(there) != number:
            return f"{counted(number, 'host')} of {leaf} are to receive, here {counted(len(there), 'host')}"
    traffic = softib.predict(loaded, traffic=os.fspath(path)).traffic
    assert traffic is not None
    if traffic["relative"] >= 1.0:
        return ""
    worst = traffic["busiest"][0]
    return (
        f"{worst['place']} carries two flows"
        if "place" in worst
        else f"a link between switches carries two flows: {worst}"
    )


def _in_time(path: Path, fabric: str, job: str, p99_us: float) -> str:
    """Check that the workload in ``path`` completes on ``fabric``, and that the messages of ``job`` have a p99 latency
    of at most ``p99_us``."""
    import softib

    run = softib.simulate(path.with_name(fabric), str(path), layer="packet")
    latency = {one["job"]: one["latency_us"]["p99"] for one in run.to_json()["jobs"]}
    if job not in latency:
        return f"{path.name}: no job {job!r}; rename none"
    p99 = latency[job]
    return f"{job}: p99 {p99:.1f} µs, at most {p99_us:g} is asked" if p99 > p99_us else ""


def _protected(path: Path, codes: Sequence[str]) -> str:
    """Check that an audit of the options file reports none of these findings."""
    import softib

    open_findings = [f for f in softib.audit(options=path) if f.code in codes]
    return f"{open_findings[0].code}: {open_findings[0].message}" if open_findings else ""


def _standby(path: Path) -> str:
    """Check that the running fabric named in the file has a master and a standby manager."""
    import softib

    name = read_text(path, "name of a running fabric").strip()
    if name not in [one.name for one in softib.running_fabrics()]:
        raise InputError(f"fabric {name} is not running; run 'softib up fabric.yaml --name {name} --detach' first")
    managers = softib.audit(name).to_json()["managers"]
    standing = [one for one in managers if ": standby" in one or ": master" in one]
    return "" if len(standing) > 1 else f"{name} has one manager only: {', '.join(managers) or 'none answers'}"


GOALS: dict[str, Callable[..., str]] = {
    "as-planned": _as_planned,
    "deadlock-free": _deadlock_free,
    "partitions": _partitions,
    "no-shared-link": _no_shared_link,
    "in-time": _in_time,
    "protected": _protected,
    "standby": _standby,
}
"""Goal of a repair → the function that checks it. It takes the path of the file and the arguments,
and returns the error."""
