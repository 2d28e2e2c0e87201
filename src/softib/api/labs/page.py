"""The laboratories as pages of ``softib serve``: a list, and a form for each; answers are checked
as by ``softib lab N --check``."""

from __future__ import annotations

import html
from collections.abc import Mapping

from softib.api.labs.exercise import ANSWERS
from softib.api.labs.lab import Lab, LabCheck, lab, labs
from softib.errors import SoftibError

__all__ = ["lab_page"]

MOST = 4096
"""Maximum length of an answer or a repaired file."""
FORBIDDEN = "/\\"
"""Characters with which a name could refer to files outside its folder on the server."""
STYLE = (
    "body{max-width:60rem;margin:1rem auto;padding:0 1rem;font:16px/1.5 system-ui,sans-serif;color-scheme:light dark}"
    "pre,textarea{font:14px/1.4 monospace;overflow-x:auto}textarea{width:100%}svg{max-width:100%;height:auto}"
    "label{display:block;margin:.5rem 0}.wrong{color:#c62828}.right{color:#2e7d32}"
)


def lab_page(number: int | None, given: Mapping[str, str]) -> str:
    """Return the page of laboratory ``number``, or the list of all laboratories if it is None. If ``given`` has the
    fields of the laboratory's form, the page includes the assessment. Raises :class:`InputError` for an unknown
    laboratory."""
    if number is None:
        rows = "".join(f'<li><a href="/labs/{one.number}">{html.escape(one.title)}</a></li>' for one in labs())
        return _page("Laboratories", f'<p><a href="/">Map</a></p><ol>{rows}</ol>')
    one = lab(number)
    return _page(f"{one.number}. {one.title}", _body(one, given))


def _page(title: str, body: str) -> str:
    title = html.escape(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{title}</h1>{body}</body></html>"
    )


def _body(one: Lab, given: Mapping[str, str]) -> str:
    checked, mistakes = _judged(one, given) if given else ("", 0)
    commands = "\n".join((f"softib lab {one.number}", f"cd {one.exercise.folder}", *one.commands))
    answers = "".join(
        f'<label>{html.escape(a.ask)}: <input name="{a.name}" value="{html.escape(given.get(a.name, ""))}"></label>'
        for a in one.exercise.answers
    )
    files = "".join(
        f'<label>{html.escape(name)}<textarea name="{html.escape(name)}" rows="8">'
        f"{html.escape(given.get(name, text))}</textarea></label>"
        for name, text in one.edited.items()
        if name != ANSWERS
    )
    return (
        f'<p><a href="/labs">All laboratories</a></p><p>{html.escape(one.story)}</p>{one.plot()}'
        f"<pre>{html.escape(commands)}</pre><p>{html.escape(one.question)}</p>"
        f'<form><input type="hidden" name="mistakes" value="{mistakes}">{answers}{files}<button>Check</button></form>'
        f"{checked}"
    )


def _judged(one: Lab, given: Mapping[str, str]) -> tuple[str, int]:
    """Return (HTML of the assessment, number of wrong attempts so far)."""
    import yaml

    before = int(given["mistakes"]) if given.get("mistakes", "").isdecimal() else 0
    before = min(before, len(one.exercise.hints))
    texts = {name: given[name].replace("\r\n", "\n") for name in one.edited if name in given}
    answers = {a.name: given.get(a.name, "").strip() or None for a in one.exercise.answers}
    for text in (*texts.values(), *filter(None, answers.values())):
        if len(text) > MOST or any(c in text for c in FORBIDDEN):
            return f'<p class="wrong">at most {MOST:,} characters, without / and \\</p>', before
    if answers:
        texts[ANSWERS] = yaml.safe_dump(answers)
    try:
        result = one.check_texts(texts, before)
    except SoftibError as error:
        return f'<p class="wrong">{html.escape(str(error))}</p>', before
    return _shown(result), len(result.hints)


def _shown(result: LabCheck) -> str:
    rows = ""
    for one in result.items:
        kind = "right" if one.right else "wrong"
        text = f"{one.name}: {one.message}" if one.message else one.name
        rows += f'<p class="{kind}">{kind}: {html.escape(text)}</p>'
    hints = "".join(f"<li>{html.escape(text)}</li>" for text in result.hints)
    lesson = f"<p><b>Solved.</b> {html.escape(result.lesson)}</p>" if result.right else ""
    return f"{rows}<ol>{hints}</ol>{lesson}"
