"""MPI as Open MPI runs it: which algorithm its fixed rules choose, each algorithm as a
:class:`~softib.workloads.schedule.schedule.Schedule`, and what messages cost."""
