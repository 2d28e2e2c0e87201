"""What a scrape of a :class:`~tests.monitor.lab.Lab` gets, parsed by prometheus-client's own parser."""

from __future__ import annotations

from softib.monitor.exporter.ratios import ErrorRatios
from softib.monitor.exporter.service_metrics import standing_text
from softib.monitor.exporter.text import PortText
from softib.monitor.intervals import between
from softib.monitor.seen_ports import SeenPorts


def scraped(lab, scheme="treydock", before=None):
    one = lab.round()
    ratios = ErrorRatios(len(one.reading))
    rose = None if before is None else between(before, one.reading)
    if rose is not None:
        ratios.add(rose)
    from prometheus_client import parser

    seen = SeenPorts()
    seen.step(one.targets.ports, one.reading, one.silent, 1.0)
    text = (PortText(one.targets.ports, scheme).text(one.reading, rose, ratios, seen) + standing_text(seen)).decode()
    families = {f.name: f for f in parser.text_string_to_metric_families(text)}
    samples = {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families.values() for s in f.samples}
    assert len(samples) == text.count("\n") - text.count("\n#") - 1  # no line is there twice
    return one, families, samples


def labels(lab, port):
    """The PortGUID, of a switch's ports that of port 0, as ``ibnetdiscover --ports`` prints it."""
    f = lab.fabric
    node = int(f.port_node[port])
    agent = int(f.node_base[node]) if f.is_switch[node] else port
    return tuple(sorted({"guid": f"{int(f.port_guid[agent]):#018x}", "port": str(int(f.port_num[port]))}.items()))
