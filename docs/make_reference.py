"""Writes ``docs/fabric-yaml.md``, the reference of the fabric file, from its JSON Schema, the table of counters in
``docs/recipes/exporters.md`` from sysfs' files and the PerfMgt structures, ``docs/packet-tables.md`` from the packet simulator's
tables, and ``docs/congestion-control.md`` from the congestion controls. A test fails when they differ.

python docs/make_reference.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from softib.fabric.faults.kinds import FAULTS
from softib.fabric.topologies.registry import KINDS
from softib.fabric.topologies.spec_models import fabric_schema
from softib.iba.perf import PortCounters
from softib.iba.perf_optional import PortCountersExtended
from softib.jit.rows import Array, Rows
from softib.live.sysfs.files import COUNTER_FILES
from softib.sim.packet import tables
from softib.sim.packet.congestion_control import congestion_control

PAGE = Path(__file__).with_name("fabric-yaml.md")
EXPORTERS = PAGE.with_name("recipes") / "exporters.md"
TABLES = PAGE.with_name("packet-tables.md")
CONTROLS = PAGE.with_name("congestion-control.md")
MARK, END = "<!-- counters: written by docs/make_reference.py -->", "<!-- end of counters -->"
HEAD = """# The fabric file

<!-- written by docs/make_reference.py from the schema: do not edit -->

A fabric.yaml describes a fabric in a few lines: a topology by its parameters or a file to import, its cables, the subnet
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
            word = {
                "integer": "whole number",
                "string": "text",
                "array": "list",
                "boolean": "true or false",
                "object": "one by tier",
            }.get(kind, kind)
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
        link = {
            "topology": "a [kind](#topology) and its parameters, or `{import: FILE}`",
            "cables": "[keys](#cables)",
            "sm": "[keys](#sm)",
            "faults": "list of [faults](#faults)",
        }.get(name)
        meaning = value.get("description", "what the fabric is" if name == "topology" else "")
        lines.append(f"| `{name}` | {link or of_type(value)} | {meaning} |")
    lines += [
        "",
        "One of `topology` and `import` is required. An imported fabric is any [file that softib reads](formats.md);",
    ]
    lines += ["`ibnl` and `node_name_map` can be given with `import`.", "", "## topology"]
    for kind in schema["properties"]["topology"]["oneOf"]:
        if "title" not in kind:
            continue
        lines += [
            "",
            f"### kind: {kind['title']}",
            "",
            kind["description"][:1].upper() + kind["description"][1:] + ".",
            "",
            f"*Source:* {KINDS[kind['title']].source}.",
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
    lines += [
        "Faults are planted in the order of the list, in a fabric at rest; `softib fault` injects faults into [one that runs](faults.md). A place is",
        "`node[port]`, where the node is a description, a GUID, or the first word of a description that only one node has. `kind` may",
        "be omitted if the keys fit one kind only.",
        "",
        "| kind | keys | what goes wrong |",
        "|---|---|---|",
    ]
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


TABLES_HEAD = """# The packet simulator from the inside

<!-- written by docs/make_reference.py from softib/sim/packet/tables: do not edit -->

`softib.sim.packet.engine.run` builds two tables, `Net` and `State`, and calls one compiled loop until every message is done. `Net` holds the input from the fabric and its
managers: forwarding tables, arbitration, options. `State` holds everything that changes during the run: events, packets, queues, queue pairs, counters. The loop takes the earliest
event and calls one function for it. Each folder of `softib/sim/packet/kernels` is a part of the hardware:

| folder | part |
|---|---|
| `engine` | the event loop, its calendar, and rows of packets |
| `link` | the transmission of ports: credits, VL arbitration, discards, links that fail |
| `switch` | forwarding, adaptive routing, multicast, aggregation |
| `hca` | adapters as senders: streams of queue pairs, messages, acknowledgements |
| `transport` | adapters as receivers: RC, UC and UD, READs and atomics, retransmission, RNR |
| `congestion` | congestion control: InfiniBand's, ECN, and [RoCE's](congestion-control.md), with the hooks that it uses |
| `ethernet` | Ethernet in place of InfiniBand's links and transport: switches, priority flow control, multipath, TCP |
| `management` | VL15 and directed routes |

A packet passes through these parts in order: `hca` cuts a message into packets, `link` sends them when credits and arbitration allow, `switch` forwards them, and `transport` takes
them at the destination. `engine.py` replaces some of these functions for RoCE and TCP before the loop is compiled.

Kernels read a column of a row as `state.packet[k].psn`, NumPy code reads the column as `state.packet["psn"]`. An array of one row is read as
that row: `state.reg.now`. Each column is declared once, in `softib/sim/packet/tables`, with its type, its unit and a line of text:
"""


def array(name: str, a: Array) -> list[str]:
    """An array of a table, and its columns."""
    rows = a.of if isinstance(a.of, Rows) else None
    shape = f" [{a.shape}]" if a.shape else ""
    head = f"`{name}`{shape}: {a.described}" + ("" if rows else f" `{a.of}`, {a.unit}.")
    if rows is None:
        return [f"* {head}"]
    out = ["", head, "", "| column | type | unit | what it is |", "|---|---|---|---|"]
    for c in rows:
        kind = f"{c.kind} × {c.many}" if c.many > 1 else c.kind
        out.append(f"| `{c.name}` | {kind} | {c.unit.replace('|', chr(92) + '|')} | {c.text} |")
    return [*out, ""]


def packet_tables() -> str:
    """The page of the packet simulator's tables."""
    out = [TABLES_HEAD]
    for name, table in (("Net", tables.Net), ("State", tables.State)):
        plain = {n: a for n, a in table.arrays.items() if not isinstance(a.of, Rows)}
        out += [f"## {name}", "", "Arrays of plain numbers:", ""]
        out += [line for n, a in plain.items() for line in array(n, a)]
        out += [line for n, a in table.arrays.items() if n not in plain for line in array(n, a)]
        out.append("")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


CONTROLS_HEAD = """# Congestion control over RoCE

<!-- written by docs/make_reference.py from the congestion controls: do not edit -->

A RoCE sender obeys a congestion control. `cc` names it, and its options follow:

```sh
softib simulate examples/small.yaml incast:1MB,senders=8 --layer packet --network roce,cc=swift
softib simulate examples/small.yaml permutation:2MB --layer packet --network roce,cc=spray,reorder_us=50
softib compare examples/small.yaml incast:1MB,senders=8 --network roce --network roce,cc=swift
```

| `cc` | what it is |
|---|---|
{rows}

In Python the same names are keys of `network`: `softib.simulate(fabric, workload, layer="packet", network="roce,cc=swift")`. The subnet manager
programs InfiniBand's own congestion control ([simulate](simulate.md)), and TCP has `congestion=reno` or `congestion=dctcp`. An installed package can add a congestion
control: [a first congestion control](tutorial/congestion-control.md).

## Measured round trips

Swift and packet spraying request an acknowledgement of every packet. It echoes the time at which the packet began to leave, the receiver's delay, the number of
switches on the path, and whether a switch marked a packet. So acknowledgements take 2 % of a link in packets of 4 KiB. For READs, the requester's window counts
requests. Their responses are not acknowledged and are sent at the rate of the link.

If receivers reorder, a packet that arrives before earlier ones is placed and acknowledged at once. A packet that is missing for `reorder_us` (100) counts as lost,
and only that packet is sent again. A queue pair has at most 1,024 packets in flight.

## Checked against

| checked against | result |
|---|---|
| Swift, 2 and 8 senders to one receiver: the round trip equals the target of the paper's section 3.5 at fair windows | within 10 %; link full, Jain's index above .99, no pause |
| Swift: delay over 4 switches against one | 3 times `hop_us` more, within a quarter |
| Swift: three flows join one that has the whole link | even within 2 ms (Jain's index above .98) |
| Swift, 96 senders to one receiver with a target below 96 packets: windows below a packet | delay within a third of the target, no pause |
| Swift: a receiver whose memory takes half of the link | half of the link; the waiting data takes less than twice the host's target |
| packet spraying: permutation over 128 hosts, three levels, as a share of the line rate without acknowledgements | mean above .92, slowest above .75; hashed flows: below .65 and .4 |
| packet spraying with bit errors | fewer than 3 packets are sent again for each one lost |
| DCQCN | [its paper's equations and fluid model](simulate.md#over-ethernet) |

`python bench/congestion_controls.py` prints them as figures.
"""


def control_part(name: str) -> list[str]:
    """A congestion control: its options, and the columns of its flows."""
    control = congestion_control(name)
    out = [f"## {name}", "", f"{control.text[:1].upper()}{control.text[1:]}.", ""]
    out += ["| option | default | unit | what it is |", "|---|---|---|---|"]
    out += [f"| `{o.name}` | {o.default:g} | {o.unit} | {o.text} |" for o in control.options]
    return [*out, "", "Columns of a flow:", "", "| column | unit | what it is |", "|---|---|---|"] + [
        f"| `{c.name}` | {c.unit} | {c.text} |" for c in control.flow
    ]


def controls() -> str:
    """The page of congestion controls."""
    names = ("dcqcn", "swift", "spray", "none")
    out = [CONTROLS_HEAD.format(rows="\n".join(f"| `{n}` | {congestion_control(n).text} |" for n in names))]
    for name in ("dcqcn", "swift"):
        out += [*control_part(name), ""]
    out += ["## spray", "", "Packet spraying (Dixit et al., INFOCOM 2013) with Swift's windows, options and columns."]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    CONTROLS.write_text(controls(), encoding="utf-8")
    TABLES.write_text(packet_tables(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    EXPORTERS.write_text(exporters(), encoding="utf-8")
