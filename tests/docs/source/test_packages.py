"""What is packed: the README of an index, metadata, the recipe of a container, and what CI runs. Oracles: the formats' own rules."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def index_readme():
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.index_readme


def test_the_readme_of_an_index_has_no_link_to_nowhere(index_readme):
    text = (ROOT / "README.md").read_text()
    assert any(not link.startswith("http") for link in LINK.findall(text)), "else there is nothing to test"
    alone, based = index_readme(text), index_readme(text, "https://example.org/softib")
    assert [link for link in LINK.findall(alone) if not link.startswith(("http", "#"))] == []
    assert "https://example.org/softib/blob/main/docs/cli.md" in LINK.findall(based)
    assert "https://example.org/softib/raw/main/docs/img/report.png" in LINK.findall(based)
    assert all(link.startswith(("http", "#")) for link in LINK.findall(based)) and "<!--" not in alone
    words = lambda t: re.findall(
        r"\w+", re.sub(r"<!--.*?-->", "", LINK.sub("]", re.sub(r"!\[.*?\]\(.*?\)", "", t)), flags=re.DOTALL)
    )
    assert words(alone) == words(text), "nothing but links and pictures is left out"


def test_metadata_is_complete():
    assert {
        "name",
        "version",
        "description",
        "requires-python",
        "license",
        "license-files",
        "authors",
        "keywords",
    } <= set(PROJECT)
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])
    import softib

    assert PROJECT["version"] == softib.__version__
    low = PROJECT["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {low}" in PROJECT["classifiers"]


def test_the_index_of_a_release_has_the_addresses_of_the_repository(monkeypatch):
    """PEP 753: the names that package indexes know. Without an address there are none."""
    pytest.importorskip("hatchling")
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    for address, names in (
        ("https://example.org/softib/", {"Repository", "Documentation", "Changelog", "Issues"}),
        ("", set()),
    ):
        monkeypatch.setenv("SOFTIB_REPOSITORY", address)
        urls = ProjectMetadata(str(ROOT), PluginManager()).core.urls
        assert set(urls) == names and all(u.startswith("https://example.org/softib") for u in urls.values())
        assert all((ROOT / u.partition("/blob/main/")[2]).is_file() for u in urls.values() if "/blob/" in u)


def test_no_page_installs_softib_from_an_index():
    """No index has it: ``pip install softib`` would install what another project registered."""
    wrong = re.compile(
        r"(?:pip|pipx|uv|conda|spack)\s+(?:\w+\s+)?install\s+(?:-\S+\s+)*['\"]?softib\b(?!\.|/|-)|install\s+softib\["
    )
    assert (
        wrong.search("pip install 'softib[serve]'")
        and wrong.search("a workbook; install softib[xlsx]")
        and not wrong.search("pip install ./softib")
        and not wrong.search("pip install softib.whl")
    )
    known = subprocess.run(
        ["git", "ls-files", "*.md", "*.py", "*.yml", "*.yaml", "*.ipynb", "Containerfile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if known.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in known.stdout.split() if ROOT / name != Path(__file__)]
    assert len(files) > 1000
    assert [str(f) for f in files if f.is_file() and wrong.search(f.read_text("utf-8", "replace"))] == []


INSTRUCTIONS = {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """Those of the Containerfile: name and arguments, a line each."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [
        (name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())
    ]


def test_the_containerfile_holds_its_grammar():
    found = instructions()
    assert {name for name, _ in found} <= INSTRUCTIONS and found[0][0] == "FROM"
    stages = [rest.split(" AS ")[1] for name, rest in found if name == "FROM" and " AS " in rest]
    for name, rest in found:
        if name == "FROM":
            assert re.match(r"\S+:[\w.-]+", rest) and ":latest" not in rest, (
                "an image without a version is another one tomorrow"
            )
        elif name == "COPY":
            *sources, _ = (word for word in rest.split() if not word.startswith("--"))
            stage = re.search(r"--from=(\S+)", rest)
            assert stage[1] in stages if stage else all((ROOT / source).exists() for source in sources), rest
        elif name == "RUN":
            assert shlex.split(rest)
            assert "apt-get install" not in rest or (" -y " in rest and "rm -rf /var/lib/apt/lists" in rest)
        elif name in ("ENTRYPOINT", "CMD"):
            assert all(isinstance(word, str) for word in yaml.safe_load(rest))
    names = [name for name, _ in found]
    assert "USER" in names[names.index("FROM", 1) :], "what runs is no root"
    extras = re.findall(r"'\.\[(\w+)\]'", " ".join(rest for _, rest in found))
    assert extras and set(extras) <= set(PROJECT["optional-dependencies"])


def test_ci_runs_what_contributors_run():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    run = [command.split()[1] for command in commands if command.startswith("make ")]
    assert {"test", "docs", "pythons"} <= set(run) <= set(targets)
    supported = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert set(jobs["pythons"]["strategy"]["matrix"]["python"]) == supported


def test_the_night_and_a_release_run_targets_that_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = {"nightly.yml": {"test-all", "oldest"}, "release.yml": {"release"}}
    for name, least in wanted.items():
        jobs = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]
        commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        assert least <= {c.split()[1] for c in commands if c.startswith("make ")} <= set(targets), name


def test_every_requirement_has_a_lower_bound():
    """``make oldest`` installs them; the newest that the night does not try is whatever the index has."""
    asked = [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
    assert [r for r in asked if ">=" not in r] == []
    bounds: dict[str, set[str]] = {}
    for requirement in asked:
        name, _, bound = requirement.partition(">=")
        bounds.setdefault(name, set()).add(bound)
    assert {name: b for name, b in bounds.items() if len(b) > 1} == {}


@pytest.fixture(scope="module")
def bill_of_materials(tmp_path_factory):
    """The text of a bill of materials of this environment."""
    pytest.importorskip("cyclonedx_py", reason="cyclonedx-bom is not installed (the extra dev)")
    out = tmp_path_factory.mktemp("sbom") / "softib.cdx.json"
    subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "make_sbom.py"), str(out)], check=True, stdout=subprocess.DEVNULL
    )
    return out.read_text("utf-8")


@pytest.mark.slow
def test_the_bill_of_materials_follows_the_schema_of_cyclonedx(bill_of_materials):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill_of_materials) is None


def test_the_bill_of_materials_lists_every_dependency(bill_of_materials):
    """What pyproject.toml names and is installed here, with its version as its metadata states it, and what the wheel carries for the browser."""
    from importlib import metadata

    bill = json.loads(bill_of_materials)
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "softib")
    assert all(c["version"] and (c["purl"].startswith("pkg:") or c["name"] == "softib") for c in bill["components"])
    plain = lambda name: re.sub(r"[-_.]+", "-", name).lower()
    versions = {plain(c["name"]): c["version"] for c in bill["components"]}
    asked = [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
    missing = {}
    for name in {r.partition(">=")[0] for r in asked}:
        try:
            there = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # an extra that tests do not install
        if versions.get(plain(name)) != there:
            missing[name] = there, versions.get(plain(name))
    assert not missing
    lock = json.loads((ROOT / "src" / "softib" / "web" / "package.json").read_text())["dependencies"]
    assert {name: versions[name] for name in lock} == lock
    (root,) = [d for d in bill["dependencies"] if d["ref"] == bill["metadata"]["component"]["bom-ref"]]
    direct = {
        plain(re.split(r"[@=]", ref.removeprefix("pkg:npm/").removeprefix("pkg:pypi/"))[0]) for ref in root["dependsOn"]
    }
    assert {plain(r.partition(">=")[0]) for r in PROJECT["dependencies"]} | set(lock) <= direct


@pytest.fixture
def release(monkeypatch):
    """``.ci`` as a folder of modules."""
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    return lambda name: importlib.import_module(name)


def test_recipes_have_the_dependencies_of_the_package(release):
    """conda's is YAML, Spack's is Python; both name each requirement with its bound."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    texts = release("recipes").recipes(PROJECT, build, "file:///tmp/softib-0.1.0.tar.gz", "0" * 64)
    conda = yaml.safe_load(texts["recipe.yaml"])
    assert [r.replace(" ", "") for r in conda["requirements"]["run"][1:-1]] == PROJECT["dependencies"]
    assert conda["package"]["version"] == PROJECT["version"] and conda["about"]["license"] == PROJECT["license"]
    assert [r.replace(" ", "") for r in conda["requirements"]["host"][2:-1]] == build
    calls = [
        c
        for c in ast.walk(ast.parse(texts["spack-package.py"]))
        if isinstance(c, ast.Call) and c.func.id == "depends_on"
    ]
    needs = {c.args[0].value for c in calls}
    assert {f"py-{r.replace('>=', '@')}:" for r in (*PROJECT["dependencies"], *build)} <= needs
    assert {f"python@{PROJECT['requires-python'].removeprefix('>=')}:", "rdma-core"} <= needs


def test_rattler_build_renders_the_recipe_of_conda(release):
    """Oracle: rattler-build, with the C library that conda-forge sets; it refuses unknown keys and requirements."""
    rattler = pytest.importorskip("rattler_build")
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    text = release("recipes").recipes(PROJECT, build, "file:///tmp/softib-0.1.0.tar.gz", "0" * 64)["recipe.yaml"]
    linux = rattler.RenderConfig(rattler.PlatformConfig(target_platform="linux-64"))
    [variant] = rattler.Stage0Recipe.from_yaml(text).render(rattler.VariantConfig({"c_stdlib": ["sysroot"]}), linux)
    needs = variant.recipe.to_dict()["requirements"]
    assert {need.partition(" ")[0] for need in needs["run"]} == {"python", "rdma-core"} | {
        need.partition(">=")[0] for need in PROJECT["dependencies"]
    }


def checkout(folder: Path, *extra: str) -> None:
    """A committed checkout of what a release looks at first; files ``extra`` are not committed."""
    (folder / "changelog.d").mkdir()
    for name in ("CHANGELOG.md", "pyproject.toml", "changelog.d/README.md"):
        (folder / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    for name in extra:
        (folder / name).write_text("x\n")


@pytest.mark.parametrize(
    ("extra", "version", "line"),
    [
        ((), PROJECT["version"], ""),
        (("left.txt",), PROJECT["version"], "left.txt is not committed; commit or remove it"),
        (("a.txt", "b.txt"), PROJECT["version"], "a.txt and 1 more is not committed; commit or remove it"),
        ((), "9.9.9", "CHANGELOG.md has no section 9.9.9; write one, or correct the version in pyproject.toml"),
    ],
)
def test_a_release_needs_a_committed_checkout_and_a_changelog(tmp_path, monkeypatch, release, extra, version, line):
    checkout(tmp_path, *extra)
    module = release("make_release")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    try:
        module.refuse_unready(version)
    except module.Refused as why:
        assert str(why) == line
    else:
        assert line == ""


def test_a_release_is_not_made_outside_a_checkout(tmp_path, monkeypatch, release):
    module = release("make_release")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    with pytest.raises(module.Refused, match="not a git checkout"):
        module.refuse_unready("0.1.0")
