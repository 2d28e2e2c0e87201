"""Recorded programs: GOAL and Chakra files, and what ``softib run --record`` saw, each as a
:class:`~softib.workloads.schedule.schedule.Schedule`."""
