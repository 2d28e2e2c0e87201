"""MPI as in Open MPI: the algorithm chosen by its fixed rules, each algorithm as a
:class:`~softib.workloads.schedule.schedule.Schedule`, and the costs of messages."""
