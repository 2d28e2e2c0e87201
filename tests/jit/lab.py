"""A package of two kernel files, constants and a table, and a program that runs it in a process of its own."""

import os
import subprocess
import sys
import textwrap

PACKAGE = {
    "__init__.py": "",
    "iba.py": "class Field:\n    def __init__(self, byte):\n        self.byte = byte\n\nLID = Field(1)\nSPARE = 5\n",
    "low_kernels.py": """
        from softib.jit import kernel

        @kernel
        def scale(x):
            return x * 2

        @kernel
        def unused(x):
            return x

        @kernel
        def last(x):
            return x
        """,
    "kernels.py": """
        import enum

        import numpy as np

        from pkg.iba import LID
        from pkg.low_kernels import scale, unused
        from softib.jit import kernel

        AT = LID.byte

        WEIGHTS = np.array([1, 2])

        class Direction(enum.IntEnum):
            OUT = 3

        @kernel
        def total(t, n):
            '''Sum.'''
            s = 0
            for i in range(n):
                s += scale(t.a[i]) + AT * t.b[i]
            return s + Direction.OUT + WEIGHTS[0] * 3 + WEIGHTS[1] + 1

        @kernel
        def alone(n):
            return n + 1
        """,
    "layout.py": """
        import numpy as np
        from softib.jit import table

        Tables = table("Tables", "a b")

        def tables():
            return Tables(a=np.arange(4), b=np.arange(4) * 10)
        """,
}
MAIN = """
    import sys
    from pkg.kernels import alone, total
    from pkg.layout import tables
    assert "numba" not in sys.modules
    import numba
    from softib.jit import on_compiling
    compiled = []
    on_compiling(lambda unit, done, of: of < 0 or compiled.append(unit))
    results = [int(total(tables(), 4)), int(alone(1))]
    print(*results, *sorted(set(compiled)))
    """


def write(root):
    """Put the package into ``root``."""
    (root / "pkg").mkdir()
    for name, text in PACKAGE.items():
        (root / "pkg" / name).write_text(textwrap.dedent(text))


def environment(root):
    """Of a process that can import the package; no trial of the accelerators, which is about another thing."""
    path = f"{root}:{os.pathsep.join(p for p in sys.path if p)}"
    return {**os.environ, "SOFTIB_JIT": "both", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path}


def run(root, before="", main=MAIN, **settings):
    """Output of ``main``; of :data:`MAIN` two results, and the names of the kernels that were compiled for them."""
    env = {**environment(root), "SOFTIB_CACHE_DIR": str(root / "cache"), **settings}
    program = textwrap.dedent(before) + textwrap.dedent(main)
    done = subprocess.run([sys.executable, "-c", program], cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split() + [line for line in done.stderr.splitlines() if line]


def edit(root, file, old, new):
    """Replace text of a file of the package."""
    path = root / "pkg" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def cached(root):
    """Files of units."""
    return sorted((root / "cache").rglob("*.code"))


BOTH = ["81", "2", "pkg.kernels.alone", "pkg.kernels.total"]
"""Output of :data:`MAIN` with an empty cache."""
