"""Writes ``docs/fabric-yaml.md``, the reference of the fabric file, from its JSON Schema, and the table of counters in
``docs/recipes/exporters.md`` from sysfs' files and the PerfMgt structures. A test fails when they differ.

python docs/make_reference.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from softib.fabric.faults.kinds import FAULTS
from softib.fabric.topologies.schema import fabric_schema
from softib.iba.perf import PortCounters
from softib.iba.perf_optional import PortCountersExtended
from softib.live.sysfs.files import COUNTER_FILES

PAGE = Path(__file__).with_name("fabric-yaml.md")
EXPORTERS = PAGE.with_name("recipes") / "exporters.md"
MARK, END = "<!-- counters: written by docs/make_reference.py -->", "<!-- end of counters -->"
HEAD = """# The fabric file

<!-- written by docs/make_reference.py from the schema: do not edit -->

A fabric.yaml says what a fabric is in a few lines: a topology by its parameters or a file to import, its cables, the subnet
manager's options, and the faults to plant. [Topologies](topologies.md) explains the kinds, with sources and counts.

```yaml
name: pod
generation: NDR
topology: {kind: rail-optimized, nodes: 31}
cables:   {medium: auto, length_m: {host-leaf: 3, leaf-spine: 20}}
sm:       {engine: ftree}
faults:   [{cable: "leaf-3[40]", ber: 1.0e-9}]
```

`softib generate KIND` writes such a file. An editor completes and checks it by the [JSON Schema](schemas/fabric.schema.json): with
the YAML language server, begin the file with `# yaml-language-server: $schema=PATH/fabric.schema.json`. Unknown keys, keys given twice,
anchors and tags are errors, in one line with file and line. Values follow YAML 1.2: `2:1` is text, `1e-9` is a number.
"""


def of_type(schema: dict[str, Any]) -> str:
    """``whole number, 0 to 7``, ``text``, ``number > 0``: what may stand there."""
    found = []
    for one in schema.get("anyOf", [schema]):
        found += [f"`{str(v).lower()}`" for v in one.get("enum", [])]
        kinds = [] if "enum" in one else one.get("type", [])
        for kind in [kinds] if isinstance(kinds, str) else kinds:
            if kind == "null":
                continue
            word = {"integer": "whole number", "string": "text", "array": "list", "boolean": "true or false",
                    "object": "one by tier"}.get(kind, kind)  # fmt: skip
            low, high = one.get("minimum", one.get("exclusiveMinimum")), one.get("maximum", one.get("exclusiveMaximum"))
            if kind in ("integer", "number") and high is not None and high < 1 << 16:
                word += f", {'more than ' if 'exclusiveMinimum' in one else ''}{low} to {high:,}"
            elif kind in ("integer", "number") and low is not None:
                word += f", at least {low}"
            found.append(word)
    return " or ".join(found)


def table(properties: dict[str, Any], required: list[str]) -> list[str]:
    """Rows of the keys of one object."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    alike: dict[tuple[str, str], list[str]] = {}  # many keys of one form and meaning are one row
    for name, value in properties.items():
        alike.setdefault((of_type(value), value.get("description") or name), []).append(name)
    for names in alike.values():
        name, value = names[0], properties[names[0]]
        if name == "kind":
            continue
        default = value.get("default")
        shown = (
            "required"
            if name in required
            else "–"
            if default in (None, [])
            else f"`{default:g}`"
            if isinstance(default, float)
            else f"`{default}`"
        )
        rows.append(
            f"| {', '.join(f'`{n}`' for n in names)} | {of_type(value)} | {shown} | {value.get('description', '')} |"
        )
    return rows


def plain(text: str) -> str:
    """A docstring's first paragraph as Markdown."""
    return re.sub(r"``(.*?)``", r"`\1`", text.split("\n\n")[0].replace("\n", " "))


def page() -> str:
    """The whole page."""
    schema = fabric_schema()
    lines = [HEAD, "## The top of the file", "", "| key | value | meaning |", "|---|---|---|"]
    for name, value in schema["properties"].items():
        link = {"topology": "a [kind](#topology) and its parameters, or `{import: FILE}`", "cables": "[keys](#cables)",
                "sm": "[keys](#sm)", "faults": "list of [faults](#faults)"}.get(name)  # fmt: skip
        meaning = value.get("description", "what the fabric is" if name == "topology" else "")
        lines.append(f"| `{name}` | {link or of_type(value)} | {meaning} |")
    lines += [
        "",
        "One of `topology` and `import` must be there. An imported fabric is any [file that softib reads](formats.md);",
    ]
    lines += ["`ibnl` and `node_name_map` may stand beside `import`.", "", "## topology"]
    for kind in schema["properties"]["topology"]["oneOf"]:
        if "title" not in kind:
            continue
        lines += [
            "",
            f"### kind: {kind['title']}",
            "",
            kind["description"][:1].upper() + kind["description"][1:] + ".",
            "",
        ]
        lines += table(kind["properties"], kind["required"])
    for name, title in (("Cables", "cables"), ("Sm", "sm")):
        part = schema["$defs"][name]
        lines += ["", f"## {title}", "", *([plain(part["description"])] if name == "Sm" else []), ""]
        lines += table(part["properties"], part.get("required", []))
    lines += [
        "",
        "Files are relative to the fabric file. [The subnet manager](sm.md) has the rest of its options.",
        "",
        "## faults",
        "",
    ]
    lines += ["Each is planted in the order of the list, in a fabric at rest; `softib fault` breaks one that [runs](faults.md). A place is",
              "`node[port]`, where the node is a description, a GUID, or the first word of a description that only one node has. `kind` may",
              "be left out where the keys fit one kind only.", "", "| kind | keys | what goes wrong |", "|---|---|---|"]  # fmt: skip
    for fault in FAULTS.values():
        keys = [f"`{k}`: {doc}" for k, doc in fault.needed.items()] + [
            f"`{k}` (optional): {doc}" for k, doc in fault.optional.items()
        ]
        lines.append(f"| `{fault.name}` | {'; '.join(keys)} | {fault.doc} |")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def component(name: str) -> str:
    """``vl15_dropped`` as the specification writes it: VL15Dropped."""
    return "".join({"vl15": "VL15", "qp1": "QP1"}.get(part, part.capitalize()) for part in name.split("_"))


def counters() -> str:
    """The rows of every counter: its file, its component, its bits in file and MADs, what it counts."""
    short = {f.name: f for f in PortCounters.named()}
    long = {f.name: f for f in PortCountersExtended.named()}
    rows = [
        "| file | component | bits | PortCounters (0x12) | PortCountersExtended (0x1D) | counts |",
        "|---|---|---|---|---|---|",
    ]
    for file, column, bits in COUNTER_FILES:
        field = short.get(column) or long[column]
        doc = field.doc.replace("4-octet words", "4-byte words")
        widths = [f"{t[column].bits} bits" if column in t else "–" for t in (short, long)]
        rows.append(f"| `{file}` | {component(column)} | {bits} | {widths[0]} | {widths[1]} | {doc} |")
    return "\n".join(rows) + "\n"


def exporters() -> str:
    """The page of exporters with the table as it is now."""
    head, _, rest = EXPORTERS.read_text("utf-8").partition(MARK)
    return f"{head}{MARK}\n{counters()}{rest[rest.index(END) :]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    EXPORTERS.write_text(exporters(), encoding="utf-8")
