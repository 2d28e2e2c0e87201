"""The daemon's replacement for the kernel's user_mad driver, used by libsoftib-umad.so."""
