"""The timeline of one message as tables for a terminal."""

from __future__ import annotations

from typing import Any

from softib.render.phrases import bytes_text, time_text

__all__ = ["PARTS", "WAITS", "trace_lines"]

WAITS = {
    "own": "behind packets of its own queue pair",
    "queue": "behind packets of others",
    "other_vl": "while other VLs were served",
    "credits": "for credits",
    "held": "held back",
    "incoming": "for its own bytes",
}
PARTS = {
    "posting": "posting, and fetching data that is not inline",
    **WAITS,
    "cables": "cables",
    "switches": "switches",
    "wire": "its bytes on the last wire",
    "buffer": "in the receiver's buffer",
    "memory": "into memory",
}
PACKETS = 12


def trace_lines(t: dict[str, Any]) -> list[str]:
    """Return the lines of a table: the message, the parts of its time, the hops of the packet that completed it,
    then each packet's times."""
    lines = [f"message {t['message']}: {t['source']} to {t['destination']}, {bytes_text(t['size'])}, job {t['job']}"]
    lines.append(f"  posted {_at(t['posted_us'])}, arrived {_at(t['arrived_us'])}, completed {_at(t['completed_us'])}")
    if t["last"] is not None:
        lines.append(f"  latency {_span(t['latency_us'])}: where the time of its last packet went")
        lines += [f"    {_span(us):>12}  {PARTS[name]}" for name, us in t["parts_us"].items() if us]
        lines += ["", *_hops(t["packets"][t["last"]])]
    lines += ["", "  packet               sent      waited  hops    arrived"]
    shown = (
        t["packets"] if len(t["packets"]) <= PACKETS else t["packets"][: PACKETS // 2] + t["packets"][-PACKETS // 2 :]
    )
    for number, p in enumerate(shown):
        if number == PACKETS // 2 and len(t["packets"]) > PACKETS:
            lines.append(f"  … {len(t['packets']) - PACKETS + t['left_out']:,} more")
        lines.append(_packet(p))
    return lines


def _packet(p: dict[str, Any]) -> str:
    waited = sum(sum(h["waits_us"].values()) for h in p["hops"])
    end = (
        _at(p["received_us"])
        if p["received_us"] is not None
        else f"lost at {p['lost_at']}"
        if p["lost_at"]
        else "under way"
    )
    name = f"{p['kind']} {p['psn']}"
    return f"  {name:<14}{_at(p['hops'][0]['sent_us']):>11} {_span(waited):>11} {len(p['hops']):>5} {end:>10}"


def _hops(p: dict[str, Any]) -> list[str]:
    lines = [f"    {p['kind']} {p['psn']}, {p['octets']:,} bytes, hop by hop"]
    for h in p["hops"]:
        lines.append(
            f"    {h['port']} VL {h['vl']}: arrived {_at(h['arrived_us'])}, sent {_at(h['sent_us'])}, left "
            f"{_at(h['left_us'])}"
        )
        lines += [f"      {_span(us):>10} {WAITS[name]}" for name, us in h["waits_us"].items()]
        lines += [
            f"      {_span(b['took_us']):>10} of message {b['message']}, {b['source']} to {b['destination']}"
            for b in h["behind"]
        ]
    return lines


def _at(us: float | None) -> str:
    return "never" if us is None else time_text(us * 1e6)


def _span(us: float | None) -> str:
    return "?" if us is None else time_text(us * 1e6)
