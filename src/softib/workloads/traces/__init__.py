"""Recorded programs: GOAL and Chakra files, and recordings of ``softib run --record``, each as a
:class:`~softib.workloads.schedule.schedule.Schedule`."""
