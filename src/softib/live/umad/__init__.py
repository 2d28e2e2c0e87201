"""The user_mad driver's side of libsoftib-umad.so."""
