"""The daemon's part of libsoftib-verbs.so: processes, the shared heap, asynchronous events, traffic."""
