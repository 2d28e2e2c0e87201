"""Settings of the manager: OpenSM's options file, the ``sm:`` section of a fabric.yaml, and the
settings that each concern derives from them."""
