"""Rules that find the bad cable in counters over time: one file a rule, thresholds in
``thresholds.yaml``.

They see :class:`~softib.diags.observations.Observations` and forwarding tables, which MADs or files
told; nothing here knows what was planted in a simulated fabric (an import contract says so).
"""
