"""Logs of benchmarks that users have: nccl-tests and the OSU microbenchmarks."""
