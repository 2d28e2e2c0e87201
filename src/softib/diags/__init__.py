"""Checks of a fabric: functions that return findings with locations, evidence and advice."""
