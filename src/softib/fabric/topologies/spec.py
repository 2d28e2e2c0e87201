"""The fabric file (``fabric.yaml``): a generator or a dump, cables, subnet manager, faults.

name: pod
generation: NDR
topology: {kind: rail-optimized, nodes: 127, rails: 8, radix: 64}   # or {import: site.ibnetdiscover}
cables:   {medium: auto, length_m: 20}
sm:       {engine: ftree, partitions: partitions.conf}
faults:   [{cable: "leaf-3[40]", ber: 1.0e-9}]
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import InputError, SoftibError, UnknownName, UnreadableFile, wrong_value
from softib.fabric.formats.base import ReadResult
from softib.fabric.model import Fabric
from softib.input_files import head, shown_name, stem, uncompressed_name

__all__ = ["FORMAT", "count", "is_fabric_yaml", "load_fabric_yaml"]

FORMAT = "fabric.yaml"
SM_FILES = (
    "partitions",
    "qos_policy_file",
    "root_guid_file",
    "cn_guid_file",
    "io_guid_file",
    "torus_config",
    "lfts_file",
    "pgrp_policy_file",
    "topo_policy_file",
    "rch_policy_file",
    "link_policy_file",
    "prefix_routes_file",
)
YAML_SUFFIXES = (".yaml", ".yml")
YAML_HEAD = re.compile(rb"^(?:topology|import)[ \t]*:", re.MULTILINE)
"""Matches one of these keys at the top level of a fabric.yaml. Files of other formats have no such
line."""
IMPORT_KEYS = ("import", "ibnl", "node_name_map")


def is_fabric_yaml(path: str | Path) -> bool:
    """Return whether the file has a YAML suffix, or a top-level ``topology:`` or ``import:`` in the
    first 64 KiB. Raises :class:`UnreadableFile` if the file cannot be opened.
    """
    path = Path(path)
    if uncompressed_name(path).suffix.lower() in YAML_SUFFIXES:
        return True
    return YAML_HEAD.search(head(path, 1 << 16)) is not None


def stated_name(path: str | Path) -> str:
    """Return ``name:`` of the fabric.yaml at ``path``. If the file has no name, cannot be read, or
    is not a fabric.yaml, return its file name without suffixes."""
    from softib.plain_yaml import load_yaml

    name = None
    with contextlib.suppress(InputError):
        name = load_yaml(Path(path)).data.get("name") if Path(path).is_file() and is_fabric_yaml(path) else None
    return name if isinstance(name, str) and name else Path(path).name.split(".")[0]


def load_fabric_yaml(
    path: str | Path,
    *,
    ibnl_dirs: Sequence[str | Path] = (),
    node_name_map: str | Path | None = None,
) -> ReadResult:
    """Build the fabric that the file at ``path`` describes, including faults. The options are
    passed to the reader of an imported dump, unless the file sets them. A ``node_name_map`` also
    names the nodes of a generated fabric. File names in the fabric file are relative to its
    directory (for standard input: to the current directory).

    ``extra`` holds ``sm`` (the subnet manager's options, with absolute file names) and ``faults``
    (the planted faults). ``problems`` are those of an imported dump. Raises :class:`InputError` or
    a subclass with a one-line message that names the file and the line of the wrong key.
    """
    from softib.plain_yaml import load_yaml

    data, lines = load_yaml(Path(path))
    file = Path(shown_name(path))  # the file's name in messages
    _lift_import(file, data, lines)
    spec = _checked(file, data, lines)
    folder = Path(path).parent
    result = _topology(file, spec, lines, ibnl_dirs, node_name_map, folder)
    fabric = result.fabric
    fabric.name = spec.name or fabric.name or stem(path)
    if spec.cables is not None:
        from softib.fabric.topologies.cables import apply_cables

        with _at(file, lines, ("cables",)):
            apply_cables(fabric, spec.cables.medium, spec.cables.length_m)
    if spec.firmware is not None:
        fabric.node_strict[:] = fabric.is_switch & (spec.firmware == "strict")
    fabric.node_ethernet[:] = ~fabric.is_switch & (spec.network == "roce")
    if spec.data_vls is not None:
        from softib.fabric.power_cycle import set_data_vls

        set_data_vls(fabric, spec.data_vls)
    if spec.virtual_ports:
        from softib.fabric.virtual_ports import give_virtual_ports, plan_virtual_ports

        with _at(file, lines, ("virtual_ports",)):
            give_virtual_ports(fabric, *plan_virtual_ports(fabric, spec.virtual_ports))
    planted = _plant(file, fabric, spec.faults, lines)
    # only now, because faults refer to the generated names of nodes
    if node_name_map is not None and "import" not in spec.topology:
        from softib.fabric.formats.node_name_map import apply

        result.problems += apply(fabric, node_name_map)
    fabric.source.path = str(file)
    sm = _sm(file, spec.sm, lines, folder)
    counts = {**result.counts, **count(fabric)} if planted or not result.counts else result.counts
    extra = {**result.extra, "sm": sm, "faults": planted}
    if spec.hosts is not None:
        extra["hosts"] = spec.hosts.model_dump(exclude_none=True)
    return ReadResult(fabric, result.problems, FORMAT, counts, extra)


def count(fabric: Fabric) -> dict[str, int | None]:
    """Return ``counts``, as defined by :class:`ReadResult`, computed from the arrays."""
    a, b = fabric.cable_port[:, 0], fabric.cable_port[:, 1]
    complete = (a >= 0) & (b >= 0)
    loops = complete & (fabric.port_node[a] == fabric.port_node[np.maximum(b, 0)])
    return {
        "switches": int(fabric.is_switch.sum()),
        "cas": len(fabric.cas),
        "sharp_nodes": 0,
        "links": fabric.sizes.cables,
        "listed_both_ends": int((fabric.cable_listed == 2).sum()),
        "self_loops": int(loops.sum()),
        "dangling": int((~complete).sum()),
        "system_links": None,
    }


@contextmanager
def _at(file: Path, lines: Any, path: tuple[str | int, ...]) -> Iterator[None]:
    """Add file and line to an error that is raised inside: the line of ``path``, or if the error
    names a parameter, the line of this parameter."""
    try:
        yield
    except SoftibError as error:
        parameter = getattr(error, "parameter", None)
        line = lines.of((*path, parameter) if parameter else path)
        message = f"{file}:{line}: {error}"
        # UnknownName builds its text from its arguments. This message is already complete, so it
        # becomes a plain InputError.
        kind = InputError if isinstance(error, UnknownName) else type(error)
        raise kind(message) from None


def _checked(file: Path, data: dict[str, Any], lines: Any) -> Any:
    """Return the pydantic model of ``data``. Raise the first error with a one-line message."""
    from pydantic import ValidationError

    from softib.fabric.topologies.spec_models import FabricFile

    try:
        return FabricFile.model_validate(data)
    except ValidationError as invalid:
        errors = sorted(invalid.errors(), key=lambda e: (lines.of(_path_of(e)), e["type"] == "missing"))
        first = errors[0]
        rest = len({_where(e) for e in errors}) - 1
        others = f"; {rest} more {'error' if rest == 1 else 'errors'} in this file" if rest else ""
        raise InputError(f"{file}:{lines.of(_path_of(first))}: {_message(first)}{others}") from None


def _lift_import(file: Path, data: dict[str, Any], lines: Any) -> None:
    """Expand ``import: FILE`` at the top level, which is short for ``topology: {import: FILE}``."""
    if "import" not in data:
        return
    if "topology" in data:
        raise InputError(f"{file}:{lines.of(('import',))}: import and topology are both given; use one of them")
    data["topology"] = {"import": data.pop("import")}
    lines[("topology",)] = lines[("topology", "import")] = lines.of(("import",))


def _path_of(error: Any) -> tuple[str | int, ...]:
    return tuple(error["loc"])


def _where(error: Any) -> str:
    """Return the path of an error, without the member of a union that pydantic appends to it."""
    return ".".join(str(p) for p in _path_of(error) if not str(p).startswith(("float", "dict[", "constrained")))


def _message(error: Any) -> str:
    from softib.fabric.topologies.spec_models import PARTS

    path, where = _path_of(error), _where(error)
    if error["type"] == "extra_forbidden":
        keys = [*PARTS[tuple(str(p) for p in path[:-1])].model_fields, *([] if path[:-1] else ["import"])]
        return str(UnknownName(f"key of {'.'.join(map(str, path[:-1])) or 'a fabric file'}", str(path[-1]), keys))
    if error["type"] == "missing":
        return (
            f"{where} is missing; use for example topology: {{kind: fat-tree, radix: 36, hosts: 648}}, or import: FILE"
        )
    return wrong_value(where, error)


def _topology(
    file: Path, spec: Any, lines: Any, ibnl_dirs: Sequence[str | Path], node_name_map: Any, folder: Path
) -> ReadResult:
    topology = dict(spec.topology)
    if "import" in topology:
        return _imported(file, spec, topology, lines, ibnl_dirs, node_name_map, folder)
    from softib.fabric.topologies import registry

    if "kind" not in topology:
        raise InputError(
            f"{file}:{lines.of(('topology',))}: topology needs a kind ({', '.join(registry.kinds())}) or import: FILE"
        )
    kind = topology.pop("kind")
    for key in ("name", "generation"):
        if key in topology:
            raise InputError(f"{file}:{lines.of(('topology', key))}: {key} belongs next to topology, not inside it")
    if not isinstance(kind, str) or kind not in registry.kinds():
        with _at(file, lines, ("topology", "kind")):
            raise UnknownName("topology kind", str(kind), registry.kinds())
    if spec.generation is not None:
        with _at(file, lines, ("generation",)):
            from softib.iba.rates import speed_named

            topology["generation"] = speed_named(spec.generation).name
    with _at(file, lines, ("topology",)):
        fabric = registry.generate(kind, name=spec.name, **{str(k): v for k, v in topology.items()})
    return ReadResult(fabric, [], FORMAT)


def _imported(
    file: Path,
    spec: Any,
    topology: dict[str, Any],
    lines: Any,
    ibnl_dirs: Sequence[str | Path],
    node_name_map: Any,
    folder: Path,
) -> ReadResult:
    for key in topology:
        if key not in IMPORT_KEYS:
            with _at(file, lines, ("topology", str(key))):
                raise UnknownName("key next to import", str(key), IMPORT_KEYS)
    if spec.generation is not None:
        raise InputError(
            f"{file}:{lines.of(('generation',))}: generation: an imported fabric already has speeds; remove generation"
        )
    ibnl = topology.get("ibnl") or []
    file_names: dict[str, list[Any]] = {
        "import": [topology["import"]],
        "ibnl": ibnl if isinstance(ibnl, list) else [ibnl],
        "node_name_map": [topology["node_name_map"]] if topology.get("node_name_map") else [],
    }
    paths: dict[str, list[Path]] = {}
    for key, values in file_names.items():
        for value in values:
            if not isinstance(value, str) or not value or "\0" in value:
                raise InputError(f"{file}:{lines.of(('topology', key))}: {key}: {value!r} is not the name of a file")
        paths[key] = [_relative_to(folder, v) for v in values]
    from softib.fabric.formats import registry

    with _at(file, lines, ("topology", "import")):
        target = paths["import"][0]
        if target.suffix in (".yaml", ".yml"):
            raise InputError(f"import: {target} is a fabric file; import a dump, for example of ibnetdiscover")
        return registry.read(
            target,
            ibnl_dirs=paths["ibnl"] or ibnl_dirs,
            node_name_map=next(iter(paths["node_name_map"]), node_name_map),
        )


def _relative_to(folder: Path, name: str) -> Path:
    """Return ``name`` as a path relative to the directory of the fabric file."""
    return Path(os.path.normpath(folder / Path(name).expanduser()))


def _plant(file: Path, fabric: Fabric, entries: list[dict[str, Any]], lines: Any) -> list[Any]:
    if not entries:
        return []
    from softib.fabric.faults.kinds import plant

    planted = []
    for i, entry in enumerate(entries):
        with _at(file, lines, ("faults", i)):
            planted.append(plant(fabric, entry))
    return planted


def _sm(file: Path, sm: Any, lines: Any, folder: Path) -> dict[str, Any]:
    options: dict[str, Any] = {} if sm is None else sm.model_dump(exclude_none=True)
    for key in SM_FILES:
        if key in options:
            options[key] = str(_relative_to(folder, options[key]).absolute())
            if not os.path.isfile(options[key]):
                raise UnreadableFile(f"{file}:{lines.of(('sm', key))}: sm.{key}: no file {options[key]}")
    return options
