"""Write the software bill of materials of a release (CycloneDX 1.6): python .ci/make_sbom.py OUT
[PYTHON].

What Python installs is read from the environment of PYTHON (default: this one) by cyclonedx-py; the
libraries of the map, which wheels carry, are added from package-lock.json with their hashes.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "src" / "softib" / "web" / "package-lock.json"
VENDOR = ("sigma", "graphology")
"""What make web copies into the package; what they need is inside them."""


def browser_components() -> list[dict[str, Any]]:
    """The JavaScript libraries of the wheel, with all that they were built of."""
    packages = json.loads(LOCK.read_text("utf-8"))["packages"]
    found: list[dict[str, Any]] = []
    left, seen = list(VENDOR), set()
    while left:
        name = left.pop(0)
        if name in seen:
            continue
        seen.add(name)
        package = packages[f"node_modules/{name}"]
        kind, _, digest = package["integrity"].partition("-")
        reference = f"pkg:npm/{name}@{package['version']}"
        found.append(
            {
                "type": "library",
                "bom-ref": reference,
                "name": name,
                "version": package["version"],
                "purl": reference,
                "hashes": [{"alg": f"SHA-{kind.removeprefix('sha')}", "content": base64.b64decode(digest).hex()}],
                "licenses": [{"license": {"id": package["license"]}}],
            }
        )
        left += package.get("dependencies", {})
    return found


def bill(python: str, tools: str = sys.executable) -> dict[str, Any]:
    """The document, of what is installed beside ``python``; ``tools``: a Python with cyclonedx-bom."""
    words = [
        "-m",
        "cyclonedx_py",
        "environment",
        "--pyproject",
        str(ROOT / "pyproject.toml"),
        "--mc-type",
        "library",
        "--output-reproducible",
        "--no-validate",
        "--sv",
        "1.6",
        python,
    ]
    done = subprocess.run([tools, *words], check=True, capture_output=True, text=True)
    document: dict[str, Any] = json.loads(done.stdout)
    packages = json.loads(LOCK.read_text("utf-8"))["packages"]
    carried = browser_components()
    document["components"] += carried
    reference = {one["name"]: one["bom-ref"] for one in carried}
    root = document["metadata"]["component"]["bom-ref"]
    for one in document["dependencies"]:
        if one["ref"] == root:
            one["dependsOn"] = sorted([*one.get("dependsOn", []), *(reference[name] for name in VENDOR)])
    for name, ref in reference.items():
        needs = sorted(reference[n] for n in packages[f"node_modules/{name}"].get("dependencies", {}))
        document["dependencies"].append({"ref": ref, **({"dependsOn": needs} if needs else {})})
    return document


def write_bill(out: Path, python: Path, tools: Path) -> None:
    """Write the document of ``python``'s environment to ``out``."""
    out.write_text(json.dumps(bill(str(python), str(tools)), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    out, python = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else sys.executable
    write_bill(out, Path(python), Path(sys.executable))
