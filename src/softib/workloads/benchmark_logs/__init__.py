"""Readers of users' benchmark logs: nccl-tests and the OSU microbenchmarks."""
