"""MPI as in Open MPI: the choice of algorithms by Open MPI's fixed decision rules, each algorithm as a
:class:`~softib.workloads.schedule.schedule.Schedule`, and the costs of messages."""
