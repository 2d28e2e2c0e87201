"""Settings of the manager: OpenSM's options file, the ``sm:`` section of a fabric.yaml, and the settings derived
from them by subject."""
