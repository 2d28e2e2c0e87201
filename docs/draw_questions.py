"""Draws ``docs/img/questions/``: the answers of docs/questions.md, by the runs that its commands make.

    python docs/draw_questions.py            # writes the pictures
    python docs/draw_questions.py --check    # exit 1 where a picture no longer shows its runs

Bars are virtual times; those of one picture have one scale, logarithmic where it says so. Same code, same bytes.
"""

from __future__ import annotations

import math
import sys
from html import escape
from pathlib import Path

import softib

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PICTURES = ROOT / "docs" / "img" / "questions"
ROW, LEFT, WIDE = 30, 270, 330
COLOURS = {"": "#3277b8", "packets": "#3277b8", "fluid": "#8fb6dc", "bad": "#c8502f"}
Bar = tuple[str, float, str]
"""Label, µs, colour."""


def took(run: softib.Simulation) -> dict[str, float]:
    """µs of each job."""
    return {job["job"]: job["ended_us"] - job["began_us"] for job in run.to_json()["jobs"]}


def engines() -> list[Bar]:
    """An all-to-all on a torus under four engines."""
    torus, work = EXAMPLES / "torus-3d.yaml", "all-to-all:64KB,window=0"
    fluid = softib.sweep(torus, work, EXAMPLES / "questions" / "engines-grid.yaml", workers=1).rows()
    packets = softib.sweep(torus, work, EXAMPLES / "questions" / "safe-engines-grid.yaml", workers=1).rows()
    by_packets = {row["engine"]: row["simulated_us"] for row in packets}
    bars: list[Bar] = []
    for row in fluid:
        safe = row["engine"] in by_packets
        bars.append(
            (
                f"{row['engine']}, fluid{'' if safe else ' (can deadlock)'}",
                row["simulated_us"],
                "fluid" if safe else "bad",
            )
        )
        if safe:
            bars.append((f"{row['engine']}, packets", by_packets[row["engine"]], "packets"))
    return bars


def dead_spine() -> list[Bar]:
    """Two jobs with two spines, while one dies, and with one."""
    work = EXAMPLES / "questions" / "two-jobs.yaml"
    runs = {
        "both spines": softib.simulate(EXAMPLES / "small.yaml", work, layer="packet"),
        "one dies at 100 µs": softib.simulate(
            EXAMPLES / "small.yaml", work, layer="packet", faults=["100us switch-down spine-1"]
        ),
        "one spine": softib.simulate(EXAMPLES / "questions" / "dead-spine.yaml", work, layer="packet"),
    }
    return [
        (f"{job}: {name}", took(run)[job], "bad" if "dies" in name else "")
        for job in ("across", "inside")
        for name, run in runs.items()
    ]


def storage() -> list[Bar]:
    """Training without storage, beside it, beside it on its own VL, and with storage on another fabric."""
    folder, shared = EXAMPLES / "workloads", EXAMPLES / "storage" / "shared.yaml"
    run = lambda name: softib.simulate(shared, folder / name, layer="packet")
    together, apart, two = (
        run("training-and-storage.yaml"),
        run("training-and-storage-vl.yaml"),
        run("two-fabrics.yaml"),
    )
    alone = together.run_jobs_alone()["training"]["took_us"]
    return [
        ("training alone", alone, ""),
        ("beside a checkpoint", took(together)["training"], "bad"),
        ("the checkpoint on a VL of its own", took(apart)["training"], ""),
        ("the checkpoint on another fabric", took(two)["training"], ""),
    ]


def sharp() -> list[Bar]:
    """An all-reduce of 4 KiB by the switches and by the hosts."""
    fabric = EXAMPLES / "questions" / "aggregation.yaml"
    goal = softib.simulate(fabric, EXAMPLES / "questions" / "allreduce-16.goal", layer="packet")
    switches = softib.simulate(fabric, "aggregation:4096", layer="packet")
    return [("hosts, recursive doubling", goal.simulated_us, "fluid"), ("switches (SHARP)", switches.simulated_us, "")]


def generations() -> list[Bar]:
    """EDR and NDR, with large and small messages."""
    bars: list[Bar] = []
    for size, count in (("1MB", 1.0), ("256", 30.0)):
        for row in softib.compare(EXAMPLES / "small.yaml", f"all-to-all:{size}", networks=["NDR"]).rows():
            bars.append(
                (
                    f"all-to-all of {size}: {row['network']}" + ("" if count == 1 else ", times 30"),
                    row["completion_us"] * count,
                    "fluid" if row["network"] == "EDR" else "",
                )
            )
    return bars


def ethernet() -> list[Bar]:
    """InfiniBand, RoCE and TCP for storage and for latency, over InfiniBand."""
    names = {
        "storage:4MiB,targets=14-15": "reads of 4 MiB",
        "all-to-all:64KB,window=0": "all-to-all",
        "latency:64,iterations=100": "ping-pong",
    }
    bars: list[Bar] = []
    for work, name in names.items():
        for row in softib.compare(EXAMPLES / "small.yaml", work, networks=["roce", "tcp"]).rows():
            colour = {"roce": "fluid", "tcp": "bad"}.get(row["network"], "")
            bars.append((f"{name}: {row['network']}", row["ratio"], colour))
    return bars


QUESTIONS = {
    "engines": (engines, False, "us"),
    "dead-spine": (dead_spine, True, "us"),
    "storage": (storage, False, "us"),
    "sharp": (sharp, False, "us"),
    "generations": (generations, False, "us"),
    "ethernet": (ethernet, True, "times"),
}
"""Picture → its bars, whether their scale is logarithmic, their unit."""


def draw(title: str, bars: list[Bar], logarithmic: bool, unit: str) -> str:
    """One picture as SVG."""
    height, most, least = 16 + ROW * len(bars), max(v for _, v, _ in bars), min(v for _, v, _ in bars) / 2
    parts = []
    for i, (label, value, colour) in enumerate(bars):
        share = math.log(value / least) / math.log(most / least) if logarithmic else value / most
        y, wide = 10 + ROW * i, WIDE * share
        shown = (
            f"{value:.2f} times"
            if unit == "times"
            else f"{value / 1000:,.1f} ms"
            if value >= 10_000
            else f"{value:,.1f} µs"
            if value < 100
            else f"{value:,.0f} µs"
        )
        parts.append(f'<text x="{LEFT - 10}" y="{y + 15}" class="e">{escape(label)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{wide:.1f}" height="20" rx="2" fill="{COLOURS[colour]}"/>')
        parts.append(f'<text x="{LEFT + wide + 6:.1f}" y="{y + 15}">{shown}</text>')
    style = "text{font:13px system-ui,sans-serif;fill:#1c2530}.e{text-anchor:end}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" width="720" height="{height}" role="img">'
        f'<title>{escape(title)}</title><style>{style}</style><rect width="720" height="{height}" fill="#fff"/>'
        + "\n".join(["", *parts])
        + "\n</svg>\n"
    )


def answers() -> dict[str, list[Bar]]:
    """The bars of every picture."""
    return {name: of() for name, (of, _, _) in QUESTIONS.items()}


def pictures(made: dict[str, list[Bar]]) -> dict[str, str]:
    """Every picture by the name of its file."""
    return {
        f"{name}.svg": draw((of.__doc__ or name).strip(), made[name], logarithmic, unit)
        for name, (of, logarithmic, unit) in QUESTIONS.items()
    }


def main(argv: list[str]) -> int:
    """Write the pictures, or compare them."""
    if "--check" in argv:
        other = [n for n, text in pictures(answers()).items() if (PICTURES / n).read_text("utf-8") != text]
        if other:
            print(f"{', '.join(other)}: not as drawn now; run python docs/draw_questions.py", file=sys.stderr)
        return int(bool(other))
    PICTURES.mkdir(exist_ok=True, parents=True)
    for name, text in pictures(answers()).items():
        (PICTURES / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
