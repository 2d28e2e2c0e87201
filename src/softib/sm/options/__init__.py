"""Settings of the manager: OpenSM's options file, the ``sm:`` section of a fabric.yaml, and what
each concern reads of them."""
