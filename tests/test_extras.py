"""The command that installs an extra: pip itself recorded what softib was installed from (PEP 610)."""

from __future__ import annotations

import pytest

from softib import extras
from softib.extras import install_command


class Installed:
    def __init__(self, stated: str | None):
        self.stated = stated

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
        (None, "pip install 'softib[serve]'"),
        ("no JSON", "pip install 'softib[serve]'"),
    ],
)
def test_the_command_names_what_softib_came_from(monkeypatch, stated, command):
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(stated))
    assert install_command("serve") == command
