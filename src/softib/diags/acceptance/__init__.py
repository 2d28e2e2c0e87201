"""Acceptance of a fabric: schedules the measurements, and finds the host, adapter, cable or switch that slow pairs have
in common. All functions are pure functions of columns. :mod:`softib.live.acceptance` starts the measuring programs;
:mod:`softib.analysis.acceptance.expected_pairs` computes the expected values.
"""
