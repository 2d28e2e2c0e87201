"""Recipes of a release for rattler-build (conda) and Spack 1, from pyproject.toml: python .ci/recipes.py SDIST FOLDER.

Both build from the source distribution, which lies beside the recipe or is named by SOFTIB_REPOSITORY.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

CONDA = """schema_version: 1

package:
  name: softib
  version: "{version}"

source:
  url: {url}
  sha256: {sha256}

build:
  number: 0
  skip: not linux
  script: ${{{{ PYTHON }}}} -m pip install . -vv --no-deps --no-build-isolation
  python:
    entry_points:
      - softib = softib.cli.main:main

requirements:
  build:
    - ${{{{ compiler('c') }}}}
    - ${{{{ stdlib('c') }}}}
  host:
    - python {python}
    - pip
{build}
    - rdma-core
  run:
    - python {python}
{run}
    - rdma-core

tests:
  - python:
      imports:
        - softib
  - script:
      - softib --version

about:
  summary: "{summary}"
  license: {license}
  license_file:
{license_files}
"""

SPACK = '''"""Package of softib for Spack."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class Softib(PythonPackage):
    """{summary}."""

    url = "{url}"

    license("{license}")

    version("{version}", sha256="{sha256}")

    depends_on("c", type="build")
    depends_on("python@{lowest}:", type=("build", "run"))
{build}
    depends_on("rdma-core", type=("build", "link"))
{run}
'''


def recipes(project: dict[str, Any], build: list[str], url: str, sha256: str) -> dict[str, str]:
    """The text of each recipe by its file name."""
    common = {
        "version": project["version"],
        "summary": project["description"],
        "license": project["license"],
        "url": url,
        "sha256": sha256,
    }
    needs = project["dependencies"]
    conda = CONDA.format(
        **common,
        python=project["requires-python"],
        build="\n".join(f"    - {need.replace('>=', ' >=')}" for need in build),
        run="\n".join(f"    - {need.replace('>=', ' >=')}" for need in needs),
        license_files="\n".join(f"    - {name}" for name in project["license-files"]),
    )
    spack = SPACK.format(
        **common,
        lowest=project["requires-python"].removeprefix(">="),
        build="\n".join(_depends(need, '"build"') for need in build),
        run="\n".join(_depends(need, '("build", "run")') for need in needs),
    )
    return {"recipe.yaml": conda, "spack-package.py": spack}


def _depends(need: str, kind: str) -> str:
    name, _, bound = need.partition(">=")
    return f'    depends_on("py-{name}@{bound}:", type={kind})'


def write_recipes(folder: Path, pyproject: dict[str, Any], sdist: Path) -> None:
    """Write the recipes of ``sdist`` into ``folder``."""
    project = pyproject["project"]
    base = os.environ.get("SOFTIB_REPOSITORY", "").rstrip("/")
    url = f"{base}/releases/download/v{project['version']}/{sdist.name}" if base else f"file://{sdist.resolve()}"
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    for name, text in recipes(project, pyproject["build-system"]["requires"], url, digest).items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    write_recipes(Path(sys.argv[2]), tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8")), Path(sys.argv[1]))
