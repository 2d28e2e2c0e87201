"""An exercise as declared in its file in ``exercises/``: a story, files, commands, a question, and
the right answers."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ANSWERS", "FOLDER", "Answer", "Exercise", "Repair", "exercises"]

FOLDER = Path(__file__).with_name("exercises")
"""Folder with one file per exercise: ``01-missing-cable.toml`` is laboratory 1."""
ANSWERS = "answers.yaml"
"""The file into which a student writes the answers."""


@dataclass(frozen=True)
class Answer:
    """A question with a short answer. ``kind``: ``cable`` (either end), ``port``, ``node``, ``nodes`` (all of them,
    in any order), ``number`` or ``word``. ``within``: the relative error that is permitted for a number."""

    name: str
    ask: str
    kind: str
    right: Any
    within: float = 0.02


@dataclass(frozen=True)
class Repair:
    """A file that a student repairs. ``goal``: name of the check in :data:`softib.api.labs.judging.GOALS`; ``needs``:
    its arguments; ``done``: a correct content of the file. ``free``: the keys of a YAML file that may be changed, at
    any depth (empty: the file is not YAML)."""

    file: str
    goal: str
    done: str
    needs: dict[str, Any]
    free: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exercise:
    """A laboratory: a prepared fabric, a task, and how its solution is checked. ``fabrics``: files generated from
    a fabric.yaml, in the format of their suffix; ``files``: literal files. ``programs``: stock
    programs that its commands run."""

    number: int
    stem: str
    title: str
    story: str
    commands: tuple[str, ...]
    question: str
    hints: tuple[str, ...]
    lesson: str
    read: str
    fabrics: dict[str, str]
    files: dict[str, str]
    answers: tuple[Answer, ...]
    repairs: tuple[Repair, ...]
    programs: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Return the folder in which a student works."""
        return f"lab-{self.number:02}"

    @property
    def drawn(self) -> str:
        """Return the name of the fabric file that defines valid answers and is drawn."""
        return next(iter(self.fabrics))

    @property
    def answer_sheet(self) -> str:
        """Return the text of :data:`ANSWERS` without answers; empty if there are no questions."""
        lines = [f"# {a.ask}\n{a.name}:\n" for a in self.answers]
        return (
            f"# Laboratory {self.number}. Write each answer behind its colon.\n\n" + "\n".join(lines) if lines else ""
        )

    @property
    def texts(self) -> dict[str, str]:
        """Return the files that a student gets, except those of :attr:`fabrics`."""
        sheet = {ANSWERS: self.answer_sheet} if self.answers else {}
        return {**self.files, **sheet}


@functools.cache
def exercises() -> dict[int, Exercise]:
    """Return all laboratories by number."""
    return {one.number: one for one in map(_read, sorted(FOLDER.glob("*.toml")))}


def _read(path: Path) -> Exercise:
    stated = tomllib.loads(path.read_text("utf-8"))
    answers = stated.pop("answers", {})
    repairs = stated.pop("repairs", [])
    for name in ("story", "question", "lesson"):
        stated[name] = " ".join(stated[name].split())
    for name in ("commands", "hints", "programs"):
        stated[name] = tuple(stated.get(name, ()))
    return Exercise(
        number=int(path.stem[:2]),
        stem=path.stem,
        fabrics=stated.pop("fabrics", {}),
        files=stated.pop("files", {}),
        answers=tuple(Answer(name, **one) for name, one in answers.items()),
        repairs=tuple(Repair(**one) for one in repairs),
        **stated,
    )
