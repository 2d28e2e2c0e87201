"""Progress of compiling: what takes over a second is shown, on terminals alone."""

import io

from softib.cli import output
from softib.cli.output import Compiling, show_line


def test_what_is_over_in_a_second_is_not_shown_and_the_rest_not_too_often(monkeypatch):
    now, shown = [0.0], []
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    compiling = Compiling(shown.append)
    for i in range(40):
        now[0] = i * 0.1
        compiling("softib.agents.kernels.serve.serve", i, 40)
    assert shown[0] == "compiling kernels, once: 10 of 40 (serve)" and shown[-1].startswith(
        "compiling kernels, once: 3"
    )
    assert 10 <= len(shown) <= 16


def test_only_terminals_see_it(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, expected in ((io.StringIO(), ""), (Terminal(), "\r\033[Ksoftib: 3 of 4")):
        monkeypatch.setattr("sys.stderr", stream)
        show_line("3 of 4")
        assert stream.getvalue() == expected
