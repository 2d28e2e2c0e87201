"""MPI as in Open MPI: the algorithm that its fixed rules choose, each algorithm as a
:class:`~softib.workloads.schedule.schedule.Schedule`, and the costs of messages."""
