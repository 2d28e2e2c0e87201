"""Writes ``docs/labs/``, a page and a picture for each laboratory, from ``src/softib/api/labs/exercises``.

python docs/make_labs.py            # writes the pages and pictures
python docs/make_labs.py --check    # exit 1 where one is not as written now
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from softib.api.labs.lab import Lab, labs

FOLDER = Path(__file__).resolve().parent / "labs"
PICTURES = FOLDER.parent / "img" / "labs"
WRITTEN = "<!-- written by docs/make_labs.py from src/softib/api/labs/exercises: do not edit -->"
ONLY_IN_PAGES = re.compile(r' (?:data-ends|data-box|role|tabindex|aria-label)="[^"]*"')
INDEX = f"""# Laboratories

{WRITTEN}

A laboratory is a fabric with a fault, some commands to try, and a question. `softib lab 1` writes a folder with its files,
`softib lab 1 --check` judges your answers and repairs, and shows a hint after each mistake. Nothing but softib is needed,
except where a page names a program. The page `/labs` of [`softib serve`](../serve.md) has them in a browser; in Python
they are `softib.labs()`.

| laboratory | subject |
|---|---|
"""


def page(lab: Lab) -> str:
    """The page of a laboratory."""
    name = lab.exercise.stem
    needs = f"<!-- needs: {' '.join(lab.programs)} -->\n" if lab.programs else ""
    commands = "\n".join((f"softib lab {lab.number}", f"cd {lab.exercise.folder}", *lab.commands))
    wrapped = [textwrap.fill(" ".join(text.split()), 120) for text in (lab.story, lab.question)]
    files = ", ".join(f"`{one}`" for one in lab.files)
    programs = f" The commands run {', '.join(lab.programs)}." if lab.programs else ""
    return "\n".join(
        (
            f"# {lab.number}. {lab.title}",
            "",
            WRITTEN,
            "",
            wrapped[0],
            "",
            f"![The fabric of laboratory {lab.number}](../img/labs/{name}.svg)",
            "",
            "<!-- slow -->",
            f"{needs}```sh",
            commands,
            "```",
            "",
            f"The folder has {files}.{programs}",
            "",
            "## Question",
            "",
            wrapped[1],
            "",
            f"`softib lab {lab.number} --check`, there or in the folder above, judges it. [Read on](../{lab.read}).",
            "",
        )
    )


def texts() -> dict[Path, str]:
    """Every page and picture by its path."""
    known = labs()
    rows = [
        f"| [{one.number}. {one.title}]({one.exercise.stem}.md) | [{one.read.partition('#')[0]}](../{one.read}) |"
        for one in known
    ]
    tree = "\n".join(
        ["", "```{toctree}", ":hidden:", ":maxdepth: 1", "", *(one.exercise.stem for one in known), "```", ""]
    )
    made = {FOLDER / "index.md": INDEX + "\n".join(rows) + "\n" + tree}
    for one in known:
        made[FOLDER / f"{one.exercise.stem}.md"] = page(one)
        made[PICTURES / f"{one.exercise.stem}.svg"] = ONLY_IN_PAGES.sub("", str(one.plot())) + "\n"
    return made


def main(argv: list[str]) -> int:
    """Write the files, or compare them."""
    made = texts()
    if "--check" in argv:
        other = [
            str(path.relative_to(FOLDER.parent))
            for path, text in made.items()
            if not path.is_file() or path.read_text("utf-8") != text
        ]
        if other:
            print(f"{', '.join(other)}: not as written now; run python docs/make_labs.py", file=sys.stderr)
        return int(bool(other))
    for path, text in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
