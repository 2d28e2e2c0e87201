"""The part of the user_mad driver for libsoftib-umad.so."""
