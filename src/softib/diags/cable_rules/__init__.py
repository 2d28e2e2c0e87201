"""Rules that find bad cables in counters over time. Each rule has its own file; thresholds are in ``thresholds.yaml``.
Their input is :class:`~softib.diags.observations.Observations` and forwarding tables, read with MADs or from files. An
import contract ensures that they cannot read the list of faults injected into a simulated fabric.
"""
