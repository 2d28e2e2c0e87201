"""Acceptance of a fabric: the schedule of the measurements, and the host, adapter, cable or switch
that slow pairs have in common. Pure functions over columns; :mod:`softib.live.acceptance` starts
the programs, :mod:`softib.analysis.acceptance.expected_pairs` computes the expected values.
"""
