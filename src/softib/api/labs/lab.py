"""Laboratories: an exercise in a folder, and the check of its solution."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from softib.api.arguments import Suggests
from softib.api.labs.exercise import ANSWERS, Exercise, exercises
from softib.errors import InputError, UnreadableFile
from softib.result import HIDDEN, Result
from softib.scratch import scratch_folder

if TYPE_CHECKING:
    from softib.api.fabric import Fabric
    from softib.api.graph import Drawing

__all__ = ["Lab", "LabCheck", "LabItem", "fabric_of", "lab", "labs"]

MISTAKES = ".mistakes"
"""The file in a laboratory's folder that counts wrong attempts; each one reveals a further hint."""


@dataclass(frozen=True)
class LabItem(Result):
    """An answer or a repaired file of a laboratory."""

    name: str
    right: bool
    message: str
    """The error; empty if the item is right."""


@dataclass(frozen=True)
class LabCheck(Suggests, Result):
    """The result of checking a laboratory."""

    document = "lab-check"

    number: int
    title: str
    right: bool
    items: list[LabItem]
    hints: list[str]
    """One hint for each wrong attempt so far."""
    lesson: str
    """The lesson of the laboratory; empty until it is solved."""

    def lines(self) -> list[str]:
        """Return text lines."""
        rows = [
            f"{'right' if one.right else 'wrong'}  {one.name}" + (f": {one.message}" if one.message else "")
            for one in self.items
        ]
        return [
            *rows,
            *(f"hint {i}: {text}" for i, text in enumerate(self.hints, 1)),
            *([f"Solved. {self.lesson}"] if self.right else []),
        ]


@dataclass(frozen=True)
class Lab(Suggests, Result):
    """A laboratory."""

    document = "lab"

    number: int
    title: str
    story: str
    commands: list[str]
    """Commands to type in the laboratory's folder."""
    question: str
    files: list[str]
    """Files in the laboratory's folder; the student edits those that ``question`` names."""
    read: str
    """The page of the documentation about the laboratory's subject."""
    programs: list[str]
    """Stock programs that its commands run."""
    exercise: Exercise = field(metadata=HIDDEN)

    def begin(self, folder: str | os.PathLike[str] = ".") -> Path:
        """Create the laboratory's folder inside ``folder`` and return its path; ``folder`` may also be
        the laboratory's folder itself. Existing files are kept. Raises :class:`InputError` if it cannot
        be written."""
        from softib.whole_files import write_text

        place = self._place(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{place}: {error.strerror}") from None
        for name, text in self.exercise.texts.items():
            if not (place / name).exists():
                write_text(place / name, text)
        for name, text in self.exercise.fabrics.items():
            if (place / name).exists():
                continue
            if name.endswith(".yaml"):
                write_text(place / name, text)
            else:
                fabric_of(text).save(place / name)
        return place

    def check(self, folder: str | os.PathLike[str] = ".") -> LabCheck:
        """Check the answers and repairs in the laboratory's folder, which is inside ``folder`` or
        ``folder`` itself. Each wrong attempt reveals a further hint. Raises :class:`UnreadableFile`
        for a file that is missing or cannot be read.
        """
        place = self._place(folder)
        if not place.is_dir():
            raise InputError(f"{place}: laboratory not started; run 'softib lab {self.number}' first")
        self._check_files(place)
        items = self._items(place)
        mistakes = _mistakes(place)
        if _is_wrong(items):
            mistakes += 1
            _keep(place, mistakes)
        return self._checked(items, mistakes)

    def check_texts(self, texts: dict[str, str], mistakes: int = 0) -> LabCheck:
        """Check files that a student sends, for example from a browser; ``mistakes``: number of
        wrong attempts before this one. A file that is not in ``texts`` counts as unchanged."""
        with scratch_folder("lab") as scratch:
            place = self.begin(scratch)
            for name in self.edited:
                if name in texts:
                    (place / name).write_text(texts[name], "utf-8")
            items = self._items(place)
        return self._checked(items, mistakes + _is_wrong(items))

    @property
    def edited(self) -> dict[str, str]:
        """Return the files that a student edits, with their original texts."""
        names = {ANSWERS, *(one.file for one in self.exercise.repairs)}
        given_out = {**self.exercise.fabrics, **self.exercise.texts}
        return {name: text for name, text in given_out.items() if name in names}

    def plot(self) -> Drawing:
        """Draw the fabric in its state before the student changes anything."""
        with self._found() as fabric:
            return fabric.plot()

    def lines(self) -> list[str]:
        """Return text lines."""
        import textwrap

        folder = self.exercise.folder
        rows = [f"Laboratory {self.number}: {self.title}", "", *textwrap.wrap(" ".join(self.story.split()), 100), ""]
        rows += [f"  cd {folder}", *(f"  {one}" for one in self.commands), ""]
        rows += textwrap.wrap(" ".join(self.question.split()), 100)
        return [*rows, "", f"'softib lab {self.number} --check' judges it."]

    @contextlib.contextmanager
    def _found(self) -> Iterator[Fabric]:
        """Return the fabric before any repair."""
        import softib

        with scratch_folder("lab") as scratch:
            yield softib.load(self.begin(scratch) / self.exercise.drawn)

    def _place(self, folder: str | os.PathLike[str]) -> Path:
        inside = Path(folder).resolve().name == self.exercise.folder
        return Path(folder) if inside else Path(folder) / self.exercise.folder

    def _check_files(self, place: Path) -> None:
        """Raise :class:`UnreadableFile` for a file that is missing, or that was edited but must not
        be."""
        from softib.api.labs.judging import required
        from softib.input_files import content

        with scratch_folder("lab") as scratch:
            given_out = self.begin(scratch)
            for name in self.files:
                path = required(place / name, self.number)
                if name not in self.edited and content(path) != content(given_out / name):
                    raise UnreadableFile(
                        f"{path}: this file must not be changed; delete it, and run 'softib lab {self.number}' to "
                        f"restore it"
                    )

    def _items(self, place: Path) -> list[LabItem]:
        from softib.api.labs.judging import answer_error, answers_of, repair_error

        errors = {r.file: repair_error(r, self.exercise, place) for r in self.exercise.repairs}
        if self.exercise.answers:
            given = answers_of(self.exercise, place)
            with self._found() as fabric:
                errors |= {a.name: answer_error(a, given[a.name], fabric) for a in self.exercise.answers}
        return [LabItem(name, not error, error) for name, error in errors.items()]

    def _checked(self, items: list[LabItem], mistakes: int) -> LabCheck:
        right = all(one.right for one in items)
        hints = [] if right else list(self.exercise.hints[:mistakes])
        lesson = f"{self.exercise.lesson.strip()} Read on: docs/{self.read}" if right else ""
        return LabCheck(self.number, self.title, right, items, hints, lesson)


def labs() -> list[Lab]:
    """Return all laboratories, from a missing cable to the plan of a cluster."""
    return [_lab(one) for one in exercises().values()]


def lab(number: int) -> Lab:
    """Return laboratory ``number``. Raises :class:`InputError` if there is no such laboratory.

    >>> import softib
    >>> softib.lab(1).title
    'A missing cable'
    """
    labs = exercises()
    if number not in labs:
        raise InputError(f"laboratory {number} does not exist; 'softib lab' lists all {len(labs)}")
    return _lab(labs[number])


def fabric_of(text: str) -> Fabric:
    """Return the fabric that the text of a fabric.yaml describes."""
    import softib

    with scratch_folder("lab") as scratch:
        path = scratch / "fabric.yaml"
        path.write_text(text, "utf-8")
        return softib.load(path)


def _lab(one: Exercise) -> Lab:
    files = [*one.fabrics, *one.texts]
    return Lab(
        number=one.number,
        title=one.title,
        story=one.story.strip(),
        commands=list(one.commands),
        question=one.question.strip(),
        files=files,
        read=one.read,
        programs=list(one.programs),
        exercise=one,
    )


def _is_wrong(items: list[LabItem]) -> bool:
    """Return whether an answer that the student began is wrong."""
    from softib.api.labs.judging import NO_ANSWER, NOT_EDITED

    return any(not one.right and one.message not in (NO_ANSWER, NOT_EDITED) for one in items)


def _mistakes(place: Path) -> int:
    try:
        return max(int(json.loads((place / MISTAKES).read_text("utf-8"))), 0)
    except (OSError, ValueError, TypeError):
        return 0


def _keep(place: Path, mistakes: int) -> None:
    with contextlib.suppress(OSError):  # only the next hint is lost
        (place / MISTAKES).write_text(json.dumps(mistakes), "utf-8")
