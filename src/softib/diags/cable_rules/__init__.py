"""Rules that find bad cables in counters over time: one file per rule, thresholds in
``thresholds.yaml``. Their input is :class:`~softib.diags.observations.Observations` and forwarding
tables, read with MADs or from files; they have no access to the faults planted in a simulated
fabric (enforced by an import contract).
"""
