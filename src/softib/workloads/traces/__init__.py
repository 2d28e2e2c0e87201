"""Readers of recorded programs: GOAL and Chakra files, and recordings of ``softib run --record``. Each returns a
:class:`~softib.workloads.schedule.schedule.Schedule`."""
