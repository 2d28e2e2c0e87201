"""The daemon's side of libsoftib-verbs.so: processes, the shared heap, asynchronous events,
traffic."""
