"""The command that installs an extra: pip itself recorded what softib was installed from (PEP 610)."""

from __future__ import annotations

import importlib.metadata

import pytest

from softib.extras import install_command

SERVE = "pip install 'fastapi>=0.115' 'uvicorn>=0.30'"
"""Until an index has softib, only the packages of the extra can be named."""


class Installed:
    def __init__(self, stated: str | None):
        self.stated = stated

    requires = (
        "click>=8.2",
        "fastapi>=0.115; extra == 'serve'",
        'uvicorn>=0.30 ; extra == "serve"',
        "x; extra == 'tenants'",
    )

    def read_text(self, name: str) -> str | None:
        return self.stated


@pytest.mark.parametrize(
    ("stated", "command"),
    [
        (
            '{"dir_info": {"editable": true}, "url": "file:///home/a%20b/softib"}',
            "pip install -e '/home/a b/softib[serve]'",
        ),
        ('{"dir_info": {}, "url": "file:///src"}', "pip install '/src[serve]'"),
        (
            '{"archive_info": {}, "url": "file:///tmp/softib-0.1.0-py3-none-any.whl"}',
            "pip install '/tmp/softib-0.1.0-py3-none-any.whl[serve]'",
        ),
        (None, SERVE),
        ("no JSON", SERVE),
    ],
)
def test_the_command_names_what_softib_came_from(monkeypatch, stated, command):
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(stated))
    assert install_command("serve") == command
